"""Builds the tables about the state of a crawl: drones, aliases and commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.crawl.job.totals import CUT_OFF, PREFIX
from webcrawl.doctor.history import MINUTE, read_series
from webcrawl.hive.launch.crawl_stats import stats_of
from webcrawl.jobs.report.figures import Figure, Table, share
from webcrawl.wording import COMMAND, utc_time

if TYPE_CHECKING:
    from webcrawl.jobs.report.sources import Crawl


# Time over which the present speed of a drone is measured.
_RECENT_SECS = 300.0


def drones_table(crawl: Crawl) -> Figure:
    """Return the table of the drones of a hive."""
    total = sum(process.record.waiting for process in crawl.processes)
    rows = []
    for process in crawl.processes:
        record = process.record
        (jobdir,) = (one for one in crawl.jobdirs if process.name == f"drone {one.name}")
        minutes = read_series([jobdir], MINUTE)
        recent = minutes.since(process.at - _RECENT_SECS)
        rows.append(
            (
                process.name,
                process.state.in_words(),
                f"{recent.mean_rate('pages'):.1f}",
                record.waiting,
                share(record.waiting, total),
                record.ready + record.resting,
                sum(record.shards.values()),
                int(stats_of(jobdir).get(f"{PREFIX}{CUT_OFF}", 0)),
            )
        )
    head = (
        *("drone", "state", "pages per second", "URLs waiting", "share of waiting"),
        *("hosts", "shards", "runs cut off"),
    )
    lead = "Pages of the last five minutes. A run is cut off if its process was killed."
    return Figure("drones", "Drones", lead, Table(head, rows))


def aliases_table(crawl: Crawl) -> Figure:
    """Return the table of the hosts whose site is crawled under another name."""
    lead = (
        "As of the last checkpoint. URLs of these hosts are fetched from the host that leads. To "
        f"end an alias: {COMMAND} control JOBDIR free HOST alias_of."
    )
    head = ("host", "leading host", "contacts saved", "pages compared", "leads")
    return Figure("aliases", "Aliases", lead, Table(head, [tuple(row) for row in crawl.aliases]))


def commands_table(crawl: Crawl) -> Figure:
    """Return the table of the commands in force, and of the latest ones."""
    in_force = {change.hive or change.n: change for change in crawl.in_force}
    latest = {change.hive or change.n: change for change in crawl.commands}
    changes = sorted((in_force | latest).items(), key=lambda item: item[1].at, reverse=True)
    rows = [
        (
            utc_time(change.at),
            change.command,
            change.origin,
            change.reason,
            change.answer or "",
            (change.undo or "yes") if number in in_force else "",
        )
        for number, change in changes
    ]
    head = ("time (UTC)", "command", "by", "reason", "answer", "in force; ends with")
    lead = "Those in force, and the latest ones. All are in logs/control.jsonl."
    table = Table(head, rows) if rows else None
    return Figure("journal", "Commands", lead if rows else "None so far.", table)
