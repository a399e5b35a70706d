"""``scrapy replay``: processing modules over stored pages, without a network.

Exit codes: 0 all pages were processed; 1 a processing module failed on some, or could not start; 2
unusable input, or a damaged file.
"""

from __future__ import annotations

import logging
import math
import sys
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from webcrawl.commands import sources_or_job
from webcrawl.commands.crawl import crawl_to_end, quiet_lists
from webcrawl.errors import FatalError
from webcrawl.settings import web_spider
from webcrawl.wording import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

# As that of the crawl's progress line.
logger = logging.getLogger("webcrawl")

_WARC_PIPELINE: Final = "webcrawl.pipelines.warc.WarcPipeline"
# Everything that is for a crawl: what is left is an ordinary Scrapy without a request to send.
_NO_CRAWL: Final = {
    "SCHEDULER": "webcrawl.jobs.replay.spider.NoRequests",
    "DOWNLOADER": "scrapy.core.downloader.Downloader",
    "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",
    "ASYNCIO_EVENT_LOOP": None,
    "EXTENSIONS_BASE": {"scrapy.extensions.corestats.CoreStats": 0},
    "DOWNLOADER_MIDDLEWARES_BASE": {},
    "SPIDER_MIDDLEWARES_BASE": {},
}


def _sources(args: list[str], output: str | None) -> list[Path]:
    from webcrawl.hive.launch.job_directories import is_crawl
    from webcrawl.jobs.replay.sources import sources_of

    if output and is_crawl(Path(output)):
        raise FatalError(f"{output} is the job directory of a crawl; name another --output.")
    paths = sources_of(args)
    try:
        Path(output or ".").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FatalError(f"{output} cannot be made: {error.strerror}.") from error
    return paths


class Command(ScrapyCommand):
    """Reads WARC files and LARM directories and hands their pages to the item pipelines."""

    requires_project = True
    default_settings = web_spider

    def syntax(self) -> str:
        return "[options] [JOBDIR|WARC|LARM ...]"

    def short_desc(self) -> str:
        return "Run processing modules again over stored pages, without fetching"

    def long_desc(self) -> str:
        return (
            "Hand every page of the WARC files and LARM directories, of this crawler or another "
            "one, to the item pipelines of the settings (ITEM_PIPELINES), as the crawl did. Links "
            "are extracted anew. WarcPipeline is left out unless WARC_DIR says where to. Nothing "
            "is fetched, no file is changed. Exit code: 0 all pages were processed, 1 a module "
            "failed on some, 2 unusable input or a damaged file."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        add = parser.add_argument_group("Replay").add_argument
        add(
            "--output",
            "-o",
            metavar="DIR",
            help="JOBDIR of the modules: of the link graph, the statistics, and what has no "
            "directory by a setting",
        )
        add(
            "--from",
            dest="start",
            type=int,
            default=0,
            metavar="OFFSET",
            help="begin with the record at this byte of the first file: where an earlier run "
            "stopped",
        )

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings is not None
        pipelines = self.settings.getdict("ITEM_PIPELINES")
        if not self.settings["WARC_DIR"]:
            pipelines.pop(_WARC_PIPELINE, None)
        # Before JOBDIR is the modules'.
        args[:] = sources_or_job(args, self.settings)
        given = {**_NO_CRAWL, "JOBDIR": opts.output, "ITEM_PIPELINES": pipelines}
        self.settings.setdict(given, priority="cmdline")
        quiet_lists()

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if opts.start < 0:
            raise UsageError("--from cannot be negative")
        try:
            paths = _sources(args, opts.output)
        except FatalError as error:
            sys.stderr.write(f"replay: {error}\n")
            self.exitcode = 2
            return
        self._replay([(path, 0 if number else opts.start) for number, path in enumerate(paths)])

    def _replay(self, files: Sequence[tuple[Path, int]]) -> None:
        from webcrawl.clock import now
        from webcrawl.configuration.values import number
        from webcrawl.crawl.figures.counts import elapsed
        from webcrawl.jobs.replay.sources import source_bytes
        from webcrawl.jobs.replay.spider import ReplaySpider

        assert self.crawler_process is not None
        assert self.settings is not None
        crawler = self.crawler_process.create_crawler(ReplaySpider)
        *offsets, total = accumulate((source_bytes(path) for path, _ in files), initial=0)
        before = {path: offset for (path, _), offset in zip(files, offsets, strict=True)}
        at = files[0]
        every = number(self.settings, "STATISTICS_INTERVAL_SECS", at_least=0) or math.inf
        began = said_at = now()
        said = 0

        def counts() -> tuple[int, int]:
            stats = crawler.stats
            return stats.get_value("replay/pages", 0), stats.get_value("replay/failed", 0)

        def on_progress(path: Path, offset: int) -> None:
            nonlocal at, said_at, said
            at = path, offset
            secs = now() - said_at
            if secs < every:
                return
            (pages, failed), done = counts(), before[path] + offset
            line = (
                f"{elapsed(now() - began)} {counted(pages, 'page')} "
                f"({(pages - said) / secs:,.0f}/s), {failed:,} failed; "
                f"{done / 1e6:,.1f} of {total / 1e6:,.1f} MB"
            )
            logger.info("%s", line)
            said_at, said = now(), pages

        self.exitcode = crawl_to_end(
            self.crawler_process, crawler, files=files, on_progress=on_progress
        )
        if self.exitcode:
            return
        stats = crawler.stats
        pages, failed = counts()
        reason = stats.get_value("finish_reason", "")
        read = counted(stats.get_value("replay/files", 0), "file")
        print(f"{counted(pages, 'page')} of {read}, {failed:,} failed")
        if reason == "shutdown":
            path, offset = at
            print(f"stopped: go on with --from {offset} {path} and the files after it")
        if not reason or reason == "start_error" or failed:
            self.exitcode = 1
        elif stats.get_value("replay/damaged_files"):
            self.exitcode = 2
