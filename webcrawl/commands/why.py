"""``scrapy why URL``: explains what became of a URL in a job, or where it waits.

Exit codes: 0 the crawl has fetched the URL, given it up, or will fetch it; 1 the URL is unknown, or
a filter refuses it; 2 unusable input, one sentence saying why.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from webcrawl.clock import wall_time
from webcrawl.errors import FatalError
from webcrawl.jobs.inspect.explanation import explain
from webcrawl.jobs.inspect.job_view import ask
from webcrawl.jobs.inspect.printing import print_answer
from webcrawl.jobs.inspect.why_text import why_text
from webcrawl.settings import web_spider

if TYPE_CHECKING:
    import argparse


class Command(ScrapyCommand):
    """Reads a job directory, of a running or stopped crawl, and changes nothing."""

    requires_project = True
    requires_crawler_process = False
    default_settings = {**web_spider, "LOG_ENABLED": False}  # noqa: RUF012 (declared so by ScrapyCommand)

    def syntax(self) -> str:
        return "[options] URL"

    def short_desc(self) -> str:
        return "Explain what became of a URL, or where it waits"

    def long_desc(self) -> str:
        return (
            "Explain a URL from the job directory of a running or stopped crawl: what it is "
            "compared by, which filter refuses it or where it waits and until when its host rests, "
            "when it was fetched and with what outcome, the line of robots.txt that decides, the "
            "URL whose content it has. The rules are those that the crawl was started with; what "
            "is given with -s goes before them. Exit code: 0 the crawl knows the URL, 1 it does "
            "not or refuses it, 2 unusable input."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        group = parser.add_argument_group("Why")
        group.add_argument("--json", action="store_true", help="for machines")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            raise UsageError("name one URL", print_help=False)
        settings = self.settings
        assert settings is not None
        # As in pages, what is no UTF-8 is read as U+FFFD.
        url = args[0].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        try:
            explanation = ask(Path(settings["JOBDIR"]), lambda view: explain(url, view, settings))
        except FatalError as error:
            sys.stderr.write(f"why: {error}\n")
            self.exitcode = 2
            return
        print_answer(explanation, lambda: why_text(explanation, now=wall_time()), as_json=opts.json)
        self.exitcode = 1 if explanation.state in {"refused", "unknown"} else 0
