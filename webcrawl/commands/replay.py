"""Run processing modules over stored pages, without fetching them again.

Reads WARC files and LARM directories, of this crawler or another one, and passes each page to the
item pipelines in ITEM_PIPELINES, as the crawl did. Links are extracted again. WarcPipeline runs
only if WARC_DIR is set. The stored pages are not changed.

Examples:
  scrapy replay crawls/web -o replayed
  scrapy replay *.warc.gz -o titles -s 'ITEM_PIPELINES={"my.module.Titles": 200}'

Exit codes:
  0  all pages were processed
  1  a module failed on some pages, or could not start
  2  unusable input or a damaged file
"""

from __future__ import annotations

import logging
import math
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webcrawl.commands import AddOption, Options, Settings, UsageError, make_command, sources_or_job
from webcrawl.errors import FatalError
from webcrawl.wording import counted

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

# The logger of the crawl's progress line.
logger = logging.getLogger("webcrawl")

_WARC_PIPELINE = "webcrawl.pipelines.warc.WarcPipeline"
# Settings that switch off everything that only a crawl needs; an ordinary Scrapy without requests
# remains.
_REPLAY_SETTINGS = {
    "SCHEDULER": "webcrawl.jobs.replay.spider.NoRequests",
    "DOWNLOADER": "scrapy.core.downloader.Downloader",
    "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",
    "ASYNCIO_EVENT_LOOP": None,
    "EXTENSIONS_BASE": {
        "scrapy.extensions.corestats.CoreStats": 0,
        "webcrawl.extensions.shown_settings.ShownSettings": 0,
    },
    "DOWNLOADER_MIDDLEWARES_BASE": {},
    "SPIDER_MIDDLEWARES_BASE": {},
}


def _options(add: AddOption) -> None:
    """Add the options of ``scrapy replay``."""
    from webcrawl.jobs.arguments import whole

    add(
        "--submit",
        metavar="JOBDIR",
        help="add the links that modules submit to this job; it must not be running",
    )
    add(
        "--from",
        dest="start",
        type=whole(0),
        default=0,
        metavar="OFFSET",
        help="start at this byte of the first file, where an earlier run stopped",
    )


def _source_paths(args: list[str], output: Path | None) -> list[Path]:
    """Return the files and directories with pages that *args* name, and create *output*.

    Raises FatalError if *output* is the job directory of a crawl.
    """
    from webcrawl.hive.launch.job_directories import is_crawl
    from webcrawl.jobs.replay.sources import sources_of

    if output and is_crawl(output):
        raise FatalError(f"{output} is the job directory of a crawl: choose another --output.")
    paths = sources_of(args)
    if output:
        output.mkdir(parents=True, exist_ok=True)
    return paths


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Run the processing modules over stored pages; return the exit code."""
    from scrapy.crawler import AsyncCrawlerProcess
    from scrapy.settings import SETTINGS_PRIORITIES

    from webcrawl.clock import now
    from webcrawl.commands.crawl import crawl_to_end, quiet_lists
    from webcrawl.commands.frontier import crawler_for_job
    from webcrawl.configuration.values import number
    from webcrawl.crawl.figures.counts import format_elapsed
    from webcrawl.jobs.inspect.stopped_job import open_stopped_job
    from webcrawl.jobs.replay.sources import source_bytes
    from webcrawl.jobs.replay.spider import ReplaySpider

    if opts.submit and not Path(opts.submit, "CURRENT").exists():
        raise UsageError(f"--submit: there is no job in {opts.submit}")
    if settings.getpriority("RENDER") == SETTINGS_PRIORITIES["cmdline"]:
        raise UsageError(
            "replay renders no pages; it uses those that the crawl rendered: omit RENDER"
        )

    paths = _source_paths(sources_or_job(args, settings), opts.output)
    sizes = [source_bytes(path) for path in paths]
    pipelines = settings.getdict("ITEM_PIPELINES")
    if not settings["WARC_DIR"]:
        pipelines.pop(_WARC_PIPELINE, None)
    job_settings = settings.copy()
    job_settings.set("JOBDIR", opts.submit, priority="cmdline")
    settings.setdict(
        {
            **_REPLAY_SETTINGS,
            "JOBDIR": opts.output and str(opts.output),
            "ITEM_PIPELINES": pipelines,
        },
        priority="cmdline",
    )
    quiet_lists()

    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler(ReplaySpider)
    position = paths[0], opts.start
    interval = number(settings, "STATISTICS_INTERVAL_SECS", at_least=0) or math.inf
    started_at = now()
    reported_at = started_at
    pages_reported = 0

    def on_progress(path: Path, offset: int) -> None:
        """Remember that *path* was read up to *offset*, and log progress at intervals.

        The log line has the rate and the bytes of all *paths*, whose *sizes* are known. The
        interval is STATISTICS_INTERVAL_SECS.
        """
        nonlocal position, reported_at, pages_reported
        position = path, offset
        secs = now() - reported_at
        if secs < interval:
            return

        pages, failed = _counts(crawler)
        bytes_done = sum(sizes[: paths.index(path)]) + offset
        line = (
            f"{format_elapsed(now() - started_at)} {counted(pages, 'page')} "
            f"({(pages - pages_reported) / secs:,.0f}/s), {failed:,} failed; "
            f"{bytes_done / 1e6:,.1f} of {sum(sizes) / 1e6:,.1f} MB"
        )
        logger.info("%s", line)
        reported_at = now()
        pages_reported = pages

    spider_arguments: dict[str, Any] = {
        # Only the first file is read from an offset.
        "files": [(path, 0 if index else opts.start) for index, path in enumerate(paths)],
        "on_progress": on_progress,
    }
    with (
        open_stopped_job(crawler_for_job(job_settings, with_rules=True))
        if opts.submit
        else nullcontext() as stopped
    ):
        spider_arguments["submit_found"] = stopped.state.links.submit_page if stopped else None
        code = crawl_to_end(process, crawler, **spider_arguments)
    if code:
        return code
    return _print_result(crawler, position)


def _print_result(crawler: Crawler, position: tuple[Path, int]) -> int:
    """Print what was done and return the exit code.

    *position* is the file in which the replay stopped, and the offset there.
    """
    stats = crawler.stats
    pages, failed = _counts(crawler)
    reason = stats.get_value("finish_reason", "")
    read = counted(stats.get_value("replay/files", 0), "file")
    print(f"{counted(pages, 'page')} of {read}, {failed:,} failed")
    if reason == "shutdown":
        path, offset = position
        print(f"stopped; to continue, give --from {offset} {path} and the files after it")
    if not reason or reason == "start_error" or failed:  # no reason: it did not come to its end
        return 1
    return 2 if stats.get_value("replay/damaged_files") else 0


def _counts(crawler: Crawler) -> tuple[int, int]:
    """Return how many pages were processed, and on how many a module failed."""
    stats = crawler.stats
    return stats.get_value("replay/pages", 0), stats.get_value("replay/failed", 0)


Command = make_command(
    _run,
    _options,
    syntax="[options] [JOBDIR|WARC|LARM ...]",
    logs=True,
    output=(
        "DIR",
        (
            "JOBDIR of the modules, which holds the link graph, the statistics, and any output "
            "whose directory is not set elsewhere; needed by modules that write to JOBDIR"
        ),
    ),
)
