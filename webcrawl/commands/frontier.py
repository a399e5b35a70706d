"""Show, export or requeue the URLs of a crawl.

Without options, shows the frontier of a running or stopped crawl: the lengths of its queues and the
states of its hosts.

--export writes the waiting URLs as a seed list. --retry queues URLs again that were given up, in a
job that is not running. --refetch and --due visit fetched URLs again.

Examples:
  scrapy frontier crawls/web --export waiting.txt.gz
  scrapy frontier crawls/web --retry dns_failed,connect_timeout

Exit codes:
  0  done
  2  unusable input or job. From a damaged job, everything readable is exported
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from webcrawl.clock import wall_time
from webcrawl.commands import (
    AddOption,
    Options,
    Settings,
    UsageError,
    choose_job,
    make_command,
    print_answer,
    progress,
    web_crawler,
)
from webcrawl.errors import FatalError
from webcrawl.wording import counted, escape_controls

if TYPE_CHECKING:
    import msgspec
    from scrapy.crawler import Crawler

_DEFAULT_TOP = 10


def _options(add: AddOption) -> None:
    """Add the options of ``scrapy frontier``."""
    from webcrawl.jobs.arguments import input_file, output_file, whole
    from webcrawl.jobs.inspect.requeueing import given_up_filter

    add(
        "--hosts",
        type=whole(0),
        metavar="N",
        help=f"show the N hosts with the longest queues (default: {_DEFAULT_TOP})",
    )
    add(
        "--export",
        type=output_file,
        metavar="FILE",
        help="write all waiting URLs as a seed list; compressed if FILE ends in .gz",
    )
    add(
        "--retry",
        dest="retried",
        type=given_up_filter,
        metavar="OUTCOME[,...]",
        help="refetch URLs that ended with this outcome, such as dns_failed; failed hosts are also "
        "retried",
    )
    add(
        "--refetch",
        nargs="+",
        metavar="WHAT",
        help="visit answered URLs again: all, older-than AGE (such as 7d), or a URL pattern with "
        "*; an unchanged document costs only a conditional request",
    )
    add(
        "--due",
        type=lambda text: text if text == "-" else input_file(text),
        metavar="FILE",
        help="visit the URLs in FILE again (- for standard input)",
    )


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Show or export what waits in a job, or queue finished URLs again; return the exit code."""
    from webcrawl.hive.launch.job_directories import is_of_hive

    # --refetch takes one word, or "older-than" and an age. It also gets the JOBDIR that follows.
    refetch = opts.refetch or []
    words = 2 if refetch[:1] == ["older-than"] else 1
    jobdir = choose_job([*args, *refetch[words:]], settings)

    exclusive = (opts.hosts, opts.export, opts.retried, opts.refetch, opts.due)
    if sum(value is not None for value in exclusive) > 1:
        raise UsageError("use only one of --hosts, --export, --retry, --refetch and --due")
    if opts.retried is not None and is_of_hive(jobdir):
        raise FatalError(f"{jobdir} belongs to a hive; --retry needs the job of one process.")

    if (opts.retried, opts.refetch, opts.due) != (None, None, None):
        result, text = _put_back(opts, settings, refetch[:words])
    elif opts.export is not None:
        result, text = _export(opts.export, jobdir)
    else:
        result, text = _show(opts, jobdir)

    print_answer(result, text, as_json=opts.json)
    damaged = getattr(result, "damaged", ())
    for clause in damaged:
        sys.stderr.write(f"frontier: {escape_controls(clause)}.\n")
    return 2 if damaged else 0


def _show(opts: Options, jobdir: Path) -> tuple[msgspec.Struct, str]:
    """Return an overview of the frontier, as data and as text."""
    from webcrawl.jobs.inspect.job_view import ask
    from webcrawl.jobs.inspect.overview import overview, overview_text

    top = _DEFAULT_TOP if opts.hosts is None else opts.hosts
    figures = ask(jobdir, lambda view: overview(view, top=top))
    return figures, overview_text(figures, now=wall_time())


def _export(path: Path, jobdir: Path) -> tuple[msgspec.Struct, str]:
    """Write the waiting URLs of *jobdir* to *path*; return the numbers, as data and as text."""
    from webcrawl.jobs.inspect.job_view import ask
    from webcrawl.jobs.inspect.seeds_file import export

    with progress("URLs") as on_progress:
        result = ask(jobdir, lambda view: export(view, path, on_progress=on_progress))
    requests = counted(result.requests, "request")
    others = counted(result.unsayable, "unusual URL")
    return (
        result,
        f"{counted(result.urls, 'URL')} written to {path}; {requests} and {others} left out\n",
    )


def _put_back(opts: Options, settings: Settings, refetch: list[str]) -> tuple[msgspec.Struct, str]:
    """Queue finished URLs again for --retry, --refetch or --due.

    *refetch* has the arguments of --refetch. Returns the numbers, as data and as text.
    """
    from webcrawl.control.sending import visit
    from webcrawl.crawl.job.control_journal import Request
    from webcrawl.hive.launch.job_directories import is_hive
    from webcrawl.jobs.inspect.info_log import known_since, log_start_notice
    from webcrawl.jobs.inspect.job_view import running
    from webcrawl.jobs.inspect.requeueing import UrlList, answered_filter, put_back

    jobdir = Path(settings["JOBDIR"])
    as_visit = opts.retried is None  # else the URLs are retried
    if opts.retried is not None:
        selection = opts.retried
    elif refetch:
        selection = answered_filter(refetch)
        request = Request("refetch", {"what": refetch})
    else:
        with _lines_of(opts.due) as lines:
            selection = UrlList(lines)
        request = Request("due", {"urls": [f"of {opts.due}"]})

    with progress("URLs") as on_progress:
        # A hive, or the process of a running crawl, makes visits of its URLs itself. To retry URLs,
        # the crawl must not be running.
        if as_visit and (is_hive(jobdir) or running([jobdir])):
            result = visit(settings, request, selection, on_progress=on_progress)
        else:
            crawler = crawler_for_job(settings)
            result = put_back(crawler, selection, as_visit=as_visit, on_progress=on_progress)
    since = log_start_notice(known_since(jobdir))
    return result, f"{result.in_words}\n" + (since and f"{since}\n")


def _lines_of(path: Path | str) -> TextIO:
    """Open the file *path*, or standard input for "-"."""
    return open(0 if path == "-" else path, encoding="utf-8", errors="replace")  # noqa: PTH123  # or a number


def crawler_for_job(settings: Settings, *, with_rules: bool = False) -> Crawler:
    """Return a Crawler whose settings can open the job in JOBDIR.

    Its URL_SCOPE is that with which the job was started; with another one the job would lose the
    domains of its seeds. With *with_rules* it has all settings that the job has saved.
    """
    from webcrawl.crawl.job.saved_settings import settings_of

    saved = settings_of(Path(settings["JOBDIR"]), settings)
    if with_rules and saved is not None:
        return web_crawler(saved)
    if saved is not None:
        settings.set("URL_SCOPE", saved["URL_SCOPE"], priority="cmdline")
    return web_crawler(settings)


Command = make_command(_run, _options, json=True)
