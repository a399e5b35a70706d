"""``scrapy job check``: checks everything on disk in a job directory, and repairs it.

Exit codes: 0 sound; 1 damage, listed, and repaired with --repair as far as is said; 2 unusable
input: no job, a job that is in use or that a later webcrawl wrote, one sentence saying why.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError
from tqdm import tqdm

from webcrawl.errors import FatalError
from webcrawl.jobs.check.repair import repair_job
from webcrawl.jobs.check.text import repair_text, report_text
from webcrawl.jobs.check.whole import bytes_of, check_job
from webcrawl.jobs.inspect.printing import print_answer
from webcrawl.settings import web_spider

if TYPE_CHECKING:
    import argparse


class Command(ScrapyCommand):
    """Checks and repairs a job directory."""

    requires_project = True
    requires_crawler_process = False
    default_settings = {**web_spider, "LOG_ENABLED": False}  # noqa: RUF012 (declared so by ScrapyCommand)

    def syntax(self) -> str:
        return "check [options] [JOBDIR]"

    def short_desc(self) -> str:
        return "Check whether a job directory is sound"

    def long_desc(self) -> str:
        return (
            "Read everything that a crawl that does not run has on disk: checksums, order, counts, "
            "and that each part names what is there. Tell what is damaged, where, and what that "
            "means for the crawl. Nothing is changed, but with --repair. Exit code: 0 sound, 1 "
            "damaged (what --repair made of it is said), 2 unusable input."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        add = parser.add_argument_group("Job").add_argument
        add(
            "--repair",
            action="store_true",
            help="keep what can be read, tell what is lost, put damaged files into JOBDIR/damaged",
        )
        add("--warc", action="store_true", help="check the stored pages, too: 8 s a gigabyte")
        add("--json", action="store_true", help="for machines")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings is not None
        if not args or args[0] != "check" or len(args) > 2:
            raise UsageError("say: scrapy job check [--repair] JOBDIR", print_help=False)
        jobdir = Path(args[1] if len(args) == 2 else self.settings["JOBDIR"])
        try:
            if opts.repair:
                self._repair(jobdir, opts)
            else:
                self._check(jobdir, opts)
        except FatalError as error:
            sys.stderr.write(f"job: {error}\n")
            self.exitcode = 2

    def _check(self, jobdir: Path, opts: argparse.Namespace) -> None:
        with _bar(jobdir, warc=opts.warc, times=1) as bar:
            report = check_job(jobdir, warc=opts.warc, on_progress=bar.update)
        print_answer(report, lambda: report_text(report), as_json=opts.json)
        self.exitcode = 1 if report.damage_count else 0

    def _repair(self, jobdir: Path, opts: argparse.Namespace) -> None:
        # The job is checked before, to find the damaged parts, and afterwards.
        with _bar(jobdir, warc=opts.warc, times=3) as bar:
            repair = repair_job(jobdir, warc=opts.warc, on_progress=bar.update)
        print_answer(repair, lambda: repair_text(repair), as_json=opts.json)
        self.exitcode = 1 if repair.found.damage_count else 0


def _bar(jobdir: Path, *, warc: bool, times: int) -> tqdm[Any]:
    """A progress bar; silent if stderr is no terminal."""
    total = bytes_of(jobdir, warc=warc) * times
    return tqdm(total=total, unit="B", unit_scale=True, disable=None, leave=False)
