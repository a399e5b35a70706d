"""Builds the figures about the present state of a crawl, such as waiting URLs and failures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webcrawl.crawl.figures.counts import waiting, with_prefix
from webcrawl.doctor.diagnosis import BUDGETS
from webcrawl.jobs.report.figures import Figure, Table, over_time, share, stamp
from webcrawl.jobs.report.sources import GAUGES, CriticalError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from webcrawl.jobs.report.checkpoint_facts import CheckpointFacts
    from webcrawl.jobs.report.sources import Crawl

_MAX_ROWS = 8
#: Sentence added to figures of outcomes if some URLs were visited again.
BEFORE_VISITS = " Each URL is counted once, by its first result; later visits are not included."
# Names of stats, by what they count.
_HELD = {
    "URLs in process": "frontier/leased",
    "URLs to be visited again": "frontier/due",
    "hosts ready": "frontier/hosts/ready",
    "hosts resting": "frontier/hosts/snoozed",
}


def gauge_figures(crawl: Crawl) -> Iterator[Figure]:
    """Yield the figures of *crawl* that show waiting URLs and busy workers over time."""
    edges, means = crawl.gauges
    for name, title, gauges, y in (
        ("waiting", "URLs waiting and parked", GAUGES[:2], "URLs"),
        ("workers", "Workers and hosts", GAUGES[2:], "workers or hosts"),
    ):
        if edges:
            yield over_time(name, title, "", edges, {gauge: means[gauge] for gauge in gauges}, y=y)
        else:
            yield Figure(name, title, "No diagnosis yet.")


def held_table(stats: Mapping[str, Any]) -> Figure:
    """Return the table of waiting and parked URLs and of hosts paused between requests.

    *stats* are those of the crawl.
    """
    rows = [("URLs waiting", waiting(stats), "")]
    rows += [(label, int(stats.get(stat, 0)), "") for label, stat in _HELD.items()]
    for gate, number in with_prefix("frontier/parked/", stats).items():
        release = f"raise {BUDGETS[gate]}" if gate in BUDGETS else ""
        rows.append((f"URLs parked by {gate}", number, release))
    table = Table(("what", "now", "how to release them"), rows)
    return Figure("held", "Waiting, resting and parked", "", table)


def failures_table(crawl: Crawl) -> Figure:
    """Return the table of the most common failures, each with an example URL."""
    failed = crawl.results.given_up
    title = "URLs given up, with an example"
    if not failed:
        return Figure("failures", title, "No URL was given up.")
    outcomes = sorted(failed, key=lambda outcome: (-failed[outcome], outcome))[:_MAX_ROWS]
    rows = [(crawl.log.examples.get(outcome, ""), outcome, failed[outcome]) for outcome in outcomes]
    failed_share = share(crawl.results.total_given_up, crawl.results.urls)
    lead = f"{failed_share} of the finished URLs. The example is the latest one."
    return Figure("failures", title, lead, Table(("example", "outcome", "URLs"), rows))


def failing_modules(errors: Sequence[CriticalError], failing: Mapping[str, int]) -> list[Figure]:
    """Return the table of the processing modules that failed on pages, with their last errors.

    *failing* has the number of pages on which each module failed. Returns [] if none failed.
    """
    last_errors = {error.where: error for error in errors}
    rows = []
    for name, number in failing.items():
        error = last_errors.get(name, CriticalError())
        rows.append((error.url, name, f"{error.error} {error.message}", number))
    lead = (
        "The page is the one that caused the last error. The tracebacks are in logs/critical.jsonl."
    )
    head = ("page", "module", "error", "pages")
    return [Figure("modules", "Failing modules", lead, Table(head, rows))] if rows else []


def hosts_table(facts: CheckpointFacts) -> Figure:
    """Return the table of hosts and their states as of the last checkpoint."""
    lead = (
        "Hosts with the longest queues or the most pages, as of the last checkpoint. Times in UTC."
    )
    return Figure("hosts", "Hosts and their states", lead, facts.hosts)


def commands_table(crawl: Crawl) -> Figure:
    """Return the table of the latest control commands to the crawl."""
    rows = [
        (stamp(change.at), change.command, change.origin, change.reason, change.answer or "")
        for change in crawl.commands
    ]
    head = ("time (UTC)", "command", "by", "reason", "answer")
    lead = "The latest commands. All are in logs/control.jsonl." if rows else "None."
    return Figure("journal", "Commands", lead, Table(head, rows) if rows else None)


def checkpoints_table(facts: CheckpointFacts) -> Figure:
    """Return the table of the checkpoints from which the crawl can be continued."""
    lead = "A kept checkpoint can be restored with scrapy job restore."
    return Figure("checkpoints", "Checkpoints", lead, facts.checkpoints)
