"""Figures of the present state of a crawl: waiting URLs, failures, hosts, checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webcrawl.crawl.figures.counts import Counts, with_prefix
from webcrawl.crawl.lease.outcome_log import is_given_up
from webcrawl.doctor.diagnosis import BUDGETS
from webcrawl.jobs.report.figures import Figure, Table, over_time, share, shares, stamp
from webcrawl.jobs.report.sources import GAUGES, CriticalError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from webcrawl.jobs.report.checkpoint_facts import CheckpointFacts
    from webcrawl.jobs.report.sources import Crawl

_MAX_ROWS = 8
#: Added to figures of outcomes if some URLs were visited again.
BEFORE_VISITS = " Each URL counts with its first result; results of later visits are not included."
# Stats by what they count.
_HELD = {
    "URLs waiting": "frontier/waiting",
    "URLs checked for duplicates": "seen/waiting",
    "URLs in process": "frontier/leased",
    "URLs to be visited again": "frontier/due",
    "hosts ready": "frontier/hosts/ready",
    "hosts resting": "frontier/hosts/snoozed",
}


def gauges(crawl: Crawl) -> Iterator[Figure]:
    """Yield the figures of waiting URLs and of busy workers over time."""
    edges, means = crawl.gauges
    for name, title, shown, y in (
        ("waiting", "URLs waiting and parked", GAUGES[:2], "URLs"),
        ("workers", "Workers and hosts", GAUGES[2:], "workers or hosts"),
    ):
        if edges:
            yield over_time(name, title, "", edges, {one: means[one] for one in shown}, y=y)
        else:
            yield Figure(name, title, "No diagnosis yet.")


def held(stats: Mapping[str, Any]) -> Figure:
    """Return the table of what waits, pauses and is parked, from the *stats* of a crawl."""
    rows = [(one, int(stats.get(_HELD[one], 0)), "") for one in _HELD]
    for gate, number in with_prefix("frontier/parked/", stats).items():
        release = f"raise {BUDGETS[gate]}" if gate in BUDGETS else ""
        rows.append((f"URLs parked by {gate}", number, release))
    table = Table(("what", "now", "how to release them"), rows)
    return Figure("held", "Waiting, resting and parked", "", table)


def given_up(crawl: Crawl) -> Figure:
    """Return the table of the commonest failures, each with a URL."""
    failed = {one: n for one, n in crawl.outcomes.items() if n and is_given_up(one)}
    title = "URLs given up, with an example"
    if not failed:
        return Figure("failures", title, "No URL was given up.")
    worst = sorted(failed, key=lambda one: (-failed[one], one))
    rows = [(crawl.log.examples.get(one, ""), one, failed[one]) for one in worst[:_MAX_ROWS]]
    part = share(sum(failed.values()), crawl.urls)
    lead = f"{part} of the finished URLs. The example is the latest one."
    return Figure("failures", title, lead, Table(("example", "outcome", "URLs"), rows))


def failing_modules(errors: Sequence[CriticalError], failing: Mapping[str, int]) -> list[Figure]:
    """Return the table of the processing modules that failed on pages, with their last errors."""
    last = {one.where: one for one in errors}
    rows = []
    for name, number in failing.items():
        one = last.get(name, CriticalError())
        rows.append((one.url, name, f"{one.error} {one.message}", number))
    lead = "The page is that of the last error. The tracebacks are in logs/critical.jsonl."
    head = ("page", "module", "error", "pages")
    return [Figure("modules", "Failing modules", lead, Table(head, rows))] if rows else []


def known_urls(crawl: Crawl) -> Figure:
    """Return the figure of all known URLs by where they are."""
    ends, stats = (
        Counts.of({f"outcome/{name}": n for name, n in crawl.outcomes.items()}),
        crawl.stats,
    )
    found = {
        "pages": ends.pages,
        "redirects": ends.redirects,
        "given up": sum(ends.given_up.values()),
        "waiting": sum(int(stats.get(name, 0)) for name in ("frontier/waiting", "seen/waiting")),
        **{f"parked by {gate}": n for gate, n in crawl.counts("frontier/parked/").items()},
    }
    lead, title = "Of {total:,} known URLs, {part} are {first}.", "Known URLs"
    lead += BEFORE_VISITS * bool(crawl.log.visits)
    return shares("known", title, found, what="place", of="URLs", lead=lead, why="No URLs yet.")


def hosts(facts: CheckpointFacts) -> Figure:
    """Return the table of hosts and their states."""
    lead = (
        "Hosts with the longest queues or the most pages, as of the last checkpoint. Times in UTC."
    )
    return Figure("hosts", "Hosts and their states", lead, facts.hosts)


def commands(crawl: Crawl) -> Figure:
    """Return the table of commands to the running crawl."""
    rows = [
        (stamp(one.at), one.command, one.origin, one.reason, one.answer or "")
        for one in crawl.commands
    ]
    head = ("time (UTC)", "command", "by", "reason", "answer")
    lead = "The latest commands. All are in logs/control.jsonl." if rows else "None."
    return Figure("journal", "Commands", lead, Table(head, rows) if rows else None)


def checkpoints(facts: CheckpointFacts) -> Figure:
    """Return the table of checkpoints from which the crawl can continue."""
    lead = "A kept checkpoint can be restored with scrapy job restore."
    return Figure("checkpoints", "Checkpoints", lead, facts.checkpoints)
