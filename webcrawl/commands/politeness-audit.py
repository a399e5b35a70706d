"""``scrapy politeness-audit``: a crawler's politeness, judged by a server's access log.

Exit codes: 0 no violation; 1 violations; 2 unusable input, one sentence saying why.
"""
# Scrapy names a command after its module, hence the hyphen.
# ruff: noqa: N999

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from webcrawl.commands.progress import progress
from webcrawl.crawl.suffix_lists import suffix_list_of
from webcrawl.errors import FatalError
from webcrawl.jobs.audit import KEYS, RequiredDelays, as_json, as_text, audit_logs, read_delays
from webcrawl.urls.registered_domain import use

if TYPE_CHECKING:
    import argparse

_TOP: Final = 20


class Command(ScrapyCommand):
    """Reads access logs and prints the report."""

    requires_project = False
    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}  # noqa: RUF012 (declared so by ScrapyCommand)

    def syntax(self) -> str:
        return "[options] LOG [LOG ...]"

    def short_desc(self) -> str:
        return "Judge a crawler's politeness by a server's access log"

    def long_desc(self) -> str:
        return (
            "Read access logs and report, for each politeness key, the smallest gap between two "
            "contacts, the largest concurrency and every violation. LOG is simweb's log or any in "
            "the combined format (Apache, nginx), also with the virtual host first; - is standard "
            "input; gzip is recognized. Several logs are merged by time. Every line is a contact: "
            "robots.txt and redirects count. Exit code: 0 no violation, 1 violations, 2 unusable "
            "input."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        add = parser.add_argument_group("Politeness audit").add_argument
        add("--key", choices=sorted(KEYS), default="host", help="politeness key (default: host)")
        add(
            "--delay",
            type=float,
            default=0.0,
            metavar="SECS",
            help="pause that is due after each contact (default: 0; two contacts at once are a "
            "violation all the same)",
        )
        add(
            "--delays",
            type=Path,
            metavar="FILE",
            help='pauses of single hosts, a line each: "host seconds"; the larger one is due',
        )
        add(
            "--agent",
            default="",
            metavar="TOKEN",
            help="judge only requests whose User-Agent contains TOKEN; also all of FTP and Gopher, "
            "which have none",
        )
        add(
            "--host",
            default="-",
            metavar="NAME",
            help="the host of lines that do not say it (default: all of them are one host)",
        )
        add(
            "--top",
            type=int,
            default=_TOP,
            metavar="N",
            help=f"show N keys and N violations (default: {_TOP}); all are counted",
        )
        add("--json", action="store_true", help="for machines")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if not args:
            raise UsageError("name an access log, or - for standard input", print_help=False)
        if not math.isfinite(opts.delay):
            raise UsageError("--delay must be a number of seconds", print_help=False)
        if opts.delay < 0 or opts.top < 0:
            raise UsageError("--delay and --top cannot be negative", print_help=False)
        assert self.settings is not None
        try:
            if opts.key == "domain":
                use(suffix_list_of(self.settings))
            self.exitcode = _judge(args, opts)
        except FatalError as error:
            sys.stderr.write(f"politeness-audit: {error}\n")
            self.exitcode = 2


def _judge(logs: list[str], opts: argparse.Namespace) -> int:
    delays = {} if opts.delays is None else read_delays(opts.delays)
    with progress("lines") as on_progress:
        auditor, counts = audit_logs(
            logs,
            key=opts.key,
            delays=RequiredDelays(min_delay=opts.delay, hosts=delays),
            agent=opts.agent,
            host=opts.host.lower(),
            keep=opts.top,
            on_progress=lambda counts: on_progress(counts.lines),
        )
    try:
        if opts.json:
            print(as_json(auditor, counts, key=opts.key, top=opts.top))
        else:
            for line in as_text(auditor, counts, key=opts.key, top=opts.top):
                print(line)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the pipe has gone: nothing may be flushed into it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if auditor.violations:
        return 1
    return 2 if auditor.unjudged else 0
