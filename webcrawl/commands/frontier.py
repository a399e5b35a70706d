"""Show, export or import what waits to be fetched.

Shows the frontier of a crawl that runs or was stopped: lengths of its queues, states of its hosts.
Exports it as a seed list, or imports one into a job that is not running, which is made if it is not
there. Puts URLs that were given up back in line, if the job is not running. Exit code: 0 done, 2
unusable input or job, also a damaged list, of which all seeds before the damage are imported.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from scrapy.exceptions import UsageError

from webcrawl.clock import wall_time
from webcrawl.commands import job_first, offline, print_answer, progress, web_crawler
from webcrawl.errors import FatalError
from webcrawl.wording import counted, visible

if TYPE_CHECKING:
    import argparse

    import msgspec
    from scrapy.crawler import Crawler
    from scrapy.settings import Settings

_TOP: Final = 10


def _options(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
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
    add("--check-hosts", metavar="FILE", help="check a file for HOSTS_POLICY_FILE, without a job")


def _run(args: list[str], opts: argparse.Namespace, settings: Settings) -> int:
    from webcrawl.hive.launch.job_directories import is_hive

    if opts.check_hosts is not None:
        from webcrawl.hosts.politeness.host_policies import HostPolicies

        settings.set("HOSTS_POLICY_FILE", opts.check_hosts, priority="cmdline")
        policies = HostPolicies.from_settings(settings)
        policies.open()
        tables = sorted(policies.rules.tables)
        said = f"{counted(len(tables), 'table')} in {opts.check_hosts}\n"
        policies.close()
        print_answer({"tables": tables}, lambda: said, as_json=opts.json)
        return 0
    job_first(args, settings, alone=True)
    wanted = (opts.host, opts.export, opts.sources, opts.outcomes)
    if sum(value is not None for value in wanted) > 1:
        raise UsageError("--host, --export, --import and --retry exclude each other")
    if opts.hosts < 0:
        raise UsageError("--hosts cannot be negative")
    is_changed = opts.sources is not None or opts.outcomes is not None
    if is_changed and is_hive(Path(settings["JOBDIR"])):
        raise FatalError(
            f"JOBDIR {settings['JOBDIR']} is a hive's, and --import and --retry take the job of "
            "one process: push seeds to the hive's list of live seeds while it runs."
        )
    if opts.sources is not None:
        result, text = _import(opts.sources, settings)
    elif opts.outcomes is not None:
        result, text = _retry(opts.outcomes, settings)
    elif opts.export is not None:
        result, text = _export(Path(opts.export), settings)
    else:
        result, text = _show(opts, settings)
    print_answer(result, lambda: text, as_json=opts.json)
    damaged = getattr(result, "damaged", ())
    for clause in damaged:
        sys.stderr.write(f"frontier: {visible(clause)}.\n")
    return 2 if damaged else 0


def _show(opts: argparse.Namespace, settings: Settings) -> tuple[msgspec.Struct, str]:
    from webcrawl.jobs.inspect.job_view import ask
    from webcrawl.jobs.inspect.overview import (
        host_overview,
        host_overview_text,
        overview,
        overview_text,
    )

    jobdir = Path(settings["JOBDIR"])
    if opts.host is not None:
        host = ask(jobdir, lambda view: host_overview(view, opts.host))
        return host, host_overview_text(host, now=wall_time())
    figures = ask(jobdir, lambda view: overview(view, top=opts.hosts))
    return figures, overview_text(figures, now=wall_time())


def _export(path: Path, settings: Settings) -> tuple[msgspec.Struct, str]:
    from webcrawl.jobs.inspect.job_view import ask
    from webcrawl.jobs.inspect.seeds_file import export

    with progress("URLs") as on_progress:
        jobdir = Path(settings["JOBDIR"])
        done = ask(jobdir, lambda view: export(view, path, on_progress=on_progress))
    requests, odd = counted(done.requests, "Request"), counted(done.unsayable, "odd URL")
    return done, f"{counted(done.urls, 'URL')} written to {path}; {requests} and {odd} left out\n"


def _import(sources: str, settings: Settings) -> tuple[msgspec.Struct, str]:
    from webcrawl.crawl.seeds import split_sources
    from webcrawl.jobs.inspect.importing import import_seeds

    with progress("URLs") as on_progress:
        done = import_seeds(
            crawler_of_job(settings), split_sources(sources), on_progress=on_progress
        )
    return done, (
        f"{counted(done.read, 'seed')} read, {counted(done.bad, 'bad line')}, {done.refused:,} "
        f"refused by filters; {counted(done.new, 'new URL')} in {settings['JOBDIR']}\n"
    )


def _retry(outcomes: str, settings: Settings) -> tuple[msgspec.Struct, str]:
    from webcrawl.jobs.inspect.retrying import retry, split_outcomes

    names = split_outcomes(outcomes)
    with progress("URLs") as on_progress:
        done = retry(crawler_of_job(settings), names, on_progress=on_progress)
    return done, (
        f"{counted(done.urls, 'URL')} put back in line in {settings['JOBDIR']}; already waiting: "
        f"{done.waiting:,}; left out: {done.left_out:,} ordinary Requests and cut URLs\n"
    )


def crawler_of_job(settings: Settings, *, is_for_links: bool = False) -> Crawler:
    """What is handed the job, with the URL_SCOPE of its crawl: with another one it would lose the
    domains of its seeds; *is_for_links*: with all of its rules."""
    from webcrawl.crawl.job.saved_settings import as_given
    from webcrawl.crawl.job.state_directory import read_state
    from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError

    with suppress(CorruptRecordError, NewerFormatError):  # said when the job is opened
        own = read_state(Path(settings["JOBDIR"]))
        if own is not None:
            kept = cast("Settings", as_given(settings, own.facts))
            if is_for_links:
                return web_crawler(kept)
            settings.set("URL_SCOPE", kept["URL_SCOPE"], priority="cmdline")
    return web_crawler(settings)


Command = offline(_run, syntax="[options] [JOBDIR]", options=_options)
