"""Builds the sections of the report with their figures."""

from __future__ import annotations

from contextlib import suppress
from shutil import disk_usage
from typing import TYPE_CHECKING

from webcrawl.crawl.figures.counts import Counts, module_failures
from webcrawl.doctor.history import FAULTS, MINUTE, TEN_SECS, count_kinds, read_series
from webcrawl.jobs.report import breakdowns, now, tables
from webcrawl.jobs.report.disk import disk_outlook
from webcrawl.jobs.report.figures import Figure, share, size
from webcrawl.jobs.report.hosts_page import hosts_figure
from webcrawl.jobs.report.model import ReportPage, alarms_of
from webcrawl.jobs.report.over_time import (
    RANGES,
    charts,
    comparisons,
    fault_alarms,
    standstill_alarms,
)
from webcrawl.jobs.report.runs import cut_off_alarms, runs_table
from webcrawl.jobs.report.warning_log import warnings
from webcrawl.wording import counted, span, utc_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webcrawl.jobs.report.sources import Crawl


# Number of hosts on the page; the monitor has a page with all of them.
_HOSTS_SHOWN = 20
_DISK = "docs/howto/run-it-for-weeks.md#disk"


def report(crawl: Crawl, *, at: float) -> ReportPage:
    """Return the report of *crawl* at the epoch second *at*."""
    times = [*map(utc_time, crawl.span)]
    period = f"; began {times[0]}, last URL {times[1]} (UTC)" if times else ""
    drones = f", {counted(crawl.drones, 'drone')}" if crawl.drones else ""
    logged = warnings(crawl.jobdirs)
    damage = [f"The rest of a log could not be read: {why}" for why in crawl.damage]
    disk = ""
    present_alarms = []
    if crawl.state == "running":
        disk, is_near = disk_outlook(crawl.path, crawl.jobdirs, crawl_secs=crawl.secs)
        if is_near:
            present_alarms.append(f"{disk} See {_DISK}.")
            disk = ""
        present_alarms += cut_off_alarms(crawl.jobdirs, now=at)
        present_alarms += standstill_alarms(crawl.jobdirs, crawl.processes)
    return ReportPage(
        title=f"Crawl {crawl.path.resolve().name}",
        at=at,
        head=[f"{crawl.state}{drones}{period}"],
        alarms=alarms_of(
            crawl.processes,
            module_failures(crawl.stats),
            crawl.counts("robots/lost/"),
        )
        + fault_alarms(crawl.jobdirs)
        + present_alarms
        + damage,
        compared=[*comparisons(crawl.jobdirs, now=at), *filter(None, [disk])],
        processes=crawl.processes,
        summary=_summary(crawl, at),
        rates=charts(crawl.jobdirs, secs=RANGES["all"]),
        runs=runs_table(crawl.path, crawl.jobdirs, now=at),
        commands=now.commands_table(crawl),
        outcomes=breakdowns.outcomes(crawl),
        sections={
            **({"Warnings": [logged]} if logged.table else {}),
            **({"Drones": [now.drones_table(crawl)]} if crawl.drones and crawl.processes else {}),
            "Crawl": [
                Figure("crawl-report", "The crawl in numbers", "", tables.crawl_table(crawl)),
                tables.seeds_figure(crawl),
            ],
            "Hosts": [
                hosts_figure(crawl.file, limit=_HOSTS_SHOWN),
                *([now.aliases_table(crawl)] if crawl.aliases else []),
            ],
        },
    )


def _summary(crawl: Crawl, at: float) -> list[tuple[str, str]]:
    """Return the rows of the summary: a label, and a number with its unit."""
    results = crawl.results
    kinds = count_kinds(results.given_up)
    failed = sum(kinds[kind] for kind in FAULTS)
    rows = [
        ("pages", f"{results.pages:,}"),
        *([("running time", span(crawl.secs))] if crawl.secs else []),
        *_rates(crawl, at),
        ("received", size(crawl.received)),
        ("hosts contacted", f"{crawl.hosts:,}"),
        *([("mean age of pages", span(at - crawl.visited_at))] if crawl.visited_at else []),
        ("duplicates", share(crawl.duplicates, results.pages)),
        ("URLs failed", share(failed, results.urls)),
        ("not there or denied", share(results.total_given_up - failed, results.urls)),
    ]
    with suppress(OSError):
        rows.append(("free disk space", size(disk_usage(crawl.path).free)))
    return rows


def _rates(crawl: Crawl, at: float) -> Iterator[tuple[str, str]]:
    """Yield the rows of the summary for pages and visits per second.

    They have the present rate if the crawl is running, and the average of the running time. *at* is
    the present time in epoch seconds.
    """
    stats = Counts.of(crawl.stats)  # as old as the running time, unless that is from the history
    recent = read_series(crawl.jobdirs, TEN_SECS).since(at - MINUTE - TEN_SECS)
    for name in ("pages", "visits"):
        count = crawl.history.total(name) if crawl.history else getattr(stats, name)
        rates = []
        if crawl.state == "running":
            rates.append(f"{recent.mean_rate(name):,.1f} in the last minute")
        if crawl.secs:
            rates.append(f"{count / crawl.secs:,.1f} on average")
        # Only a crawl with repeat visits has a row for visits.
        if rates and (name == "pages" or count):
            yield f"{name} per second", ", ".join(rates)
