"""Builds the tables about the state of a crawl: hosts, aliases and commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.jobs.report.figures import Figure, Table
from webcrawl.wording import COMMAND, utc_time

if TYPE_CHECKING:
    from webcrawl.jobs.report.sources import Crawl


def hosts_table(crawl: Crawl, at: float) -> Figure:
    """Return the table of the hosts with the longest queues; *at* is in epoch seconds."""
    rows = [(row.name, row.waiting, row.describe_state(at)) for row in crawl.longest_queues]
    lead = f"As of the last checkpoint. To find out more about a host: {COMMAND} why JOBDIR HOST."
    table = Table(("host", "URLs waiting", "state"), rows)
    return Figure("hosts", "Hosts with the longest queues", lead, table)


def aliases_table(crawl: Crawl) -> Figure:
    """Return the table of the hosts whose site is crawled under another name."""
    lead = (
        "As of the last checkpoint. URLs of these hosts are fetched from the host that leads. To "
        f"end an alias: {COMMAND} control JOBDIR free HOST alias_of."
    )
    head = ("host", "leading host", "contacts saved", "pages compared", "leads")
    return Figure("aliases", "Aliases", lead, Table(head, [tuple(row) for row in crawl.aliases]))


def commands_table(crawl: Crawl) -> Figure:
    """Return the table of the latest control commands to the crawl."""
    rows = [
        (utc_time(change.at), change.command, change.origin, change.reason, change.answer or "")
        for change in crawl.commands
    ]
    head = ("time (UTC)", "command", "by", "reason", "answer")
    lead = "The latest commands. All are in logs/control.jsonl." if rows else "None."
    return Figure("journal", "Commands", lead, Table(head, rows) if rows else None)
