"""``scrapy frontier``: shows, exports, imports and retries the URLs of a job.

Exit codes: 0 done; 2 unusable input or job, one sentence saying why.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scrapy.commands import ScrapyCommand
from scrapy.crawler import Crawler
from scrapy.exceptions import UsageError
from scrapy.spiderloader import get_spider_loader

from webcrawl.clock import wall_time
from webcrawl.commands.progress import progress
from webcrawl.crawl.seeds import split_sources
from webcrawl.errors import FatalError
from webcrawl.jobs.inspect.importing import import_seeds
from webcrawl.jobs.inspect.job_view import ask
from webcrawl.jobs.inspect.overview import (
    host_overview,
    host_overview_text,
    overview,
    overview_text,
)
from webcrawl.jobs.inspect.printing import print_answer
from webcrawl.jobs.inspect.retrying import retry, split_outcomes
from webcrawl.jobs.inspect.seeds_file import export
from webcrawl.settings import web_spider

if TYPE_CHECKING:
    import argparse

_TOP: Final = 10
_SPIDER: Final = "web"


class Command(ScrapyCommand):
    """Reads a job directory; only --import and --retry change it."""

    requires_project = True
    requires_crawler_process = False
    default_settings = {**web_spider, "LOG_ENABLED": False}  # noqa: RUF012 (declared so by ScrapyCommand)

    def syntax(self) -> str:
        return "[options]"

    def short_desc(self) -> str:
        return "Show, export or import what waits to be fetched"

    def long_desc(self) -> str:
        return (
            "Show the frontier of a crawl that runs or was stopped: lengths of its queues, states "
            "of its hosts. Export it as a seed list, or import one into a job that is not running, "
            "which is made if it is not there. Put URLs that were given up back in line, if the "
            "job is not running. Exit code: 0 done, 2 unusable input."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        add = parser.add_argument_group("Frontier").add_argument
        add(
            "--hosts",
            type=int,
            default=_TOP,
            metavar="N",
            help=f"show the N hosts with the longest queues (default: {_TOP})",
        )
        add("--host", metavar="NAME", help="show where the URLs of one host, or of a URL's, wait")
        add("--json", action="store_true", help="for machines")
        add(
            "--export",
            metavar="FILE",
            help="write all URLs that wait as a seed list; gzip if FILE ends in .gz",
        )
        add(
            "--import",
            dest="sources",
            metavar="FILE",
            help="submit the seeds in FILE (several joined by commas, - for standard input)",
        )
        add(
            "--retry",
            dest="outcomes",
            metavar="OUTCOME[,...]",
            help="put URLs that ended so, as dns_failed, back in line, with their hosts tried anew",
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if args:
            raise UsageError("it takes options only: see --help", print_help=False)
        asked = (opts.host, opts.export, opts.sources, opts.outcomes)
        if sum(value is not None for value in asked) > 1:
            raise UsageError(
                "--host, --export, --import and --retry exclude each other", print_help=False
            )
        if opts.hosts < 0:
            raise UsageError("--hosts cannot be negative", print_help=False)
        try:
            if opts.sources is not None:
                self._import(opts)
            elif opts.outcomes is not None:
                self._retry(opts)
            elif opts.export is not None:
                self._export(opts)
            else:
                self._show(opts)
        except FatalError as error:
            sys.stderr.write(f"frontier: {error}\n")
            self.exitcode = 2

    @property
    def _jobdir(self) -> Path:
        assert self.settings is not None
        return Path(self.settings["JOBDIR"])

    def _show(self, opts: argparse.Namespace) -> None:
        settings = self.settings
        assert settings is not None
        now = wall_time()
        if opts.host is not None:
            host = ask(self._jobdir, lambda view: host_overview(view, opts.host))
            print_answer(host, lambda: host_overview_text(host, now=now), as_json=opts.json)
        else:
            result = ask(self._jobdir, lambda view: overview(view, top=opts.hosts))
            print_answer(result, lambda: overview_text(result, now=now), as_json=opts.json)

    def _export(self, opts: argparse.Namespace) -> None:
        path = Path(opts.export)
        with progress("URLs") as on_progress:
            done = ask(self._jobdir, lambda view: export(view, path, on_progress=on_progress))
        left_out = f"{done.requests:,} ordinary Requests and {done.unsayable:,} odd URLs left out"
        text = f"{done.urls:,} URLs written to {path}; {left_out}\n"
        print_answer(done, lambda: text, as_json=opts.json)

    def _import(self, opts: argparse.Namespace) -> None:
        with progress("URLs") as on_progress:
            done = import_seeds(
                self._web_crawler(), split_sources(opts.sources), on_progress=on_progress
            )
        text = (
            f"{done.read:,} seeds read, {done.bad:,} bad lines, {done.refused:,} refused by "
            f"filters; {done.new:,} new URLs in {self._jobdir}\n"
        )
        print_answer(done, lambda: text, as_json=opts.json)

    def _retry(self, opts: argparse.Namespace) -> None:
        outcomes = split_outcomes(opts.outcomes)
        with progress("URLs") as on_progress:
            done = retry(self._web_crawler(), outcomes, on_progress=on_progress)
        text = (
            f"{done.urls:,} URLs put back in line in {self._jobdir}; {done.waiting:,} wait "
            f"already, {done.left_out:,} ordinary Requests and cut URLs left out\n"
        )
        print_answer(done, lambda: text, as_json=opts.json)

    def _web_crawler(self) -> Crawler:
        assert self.settings is not None
        return Crawler(get_spider_loader(self.settings).load(_SPIDER), self.settings)
