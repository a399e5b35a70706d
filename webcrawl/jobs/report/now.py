"""Figures of how a crawl stands: what waits, what fails, hosts, traps, checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webcrawl.crawl.figures.counts import Counts, behind
from webcrawl.crawl.lease.outcome_log import is_given_up
from webcrawl.doctor.diagnosis import BUDGETS
from webcrawl.jobs.report.figures import Figure, Table, over_time, share, shares, stamp
from webcrawl.jobs.report.sources import GAUGES, CriticalError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from webcrawl.jobs.report.checkpoint_facts import CheckpointFacts
    from webcrawl.jobs.report.sources import Crawl

_MOST_ROWS = 8
#: Of URLs by their ends, if some were visited again.
BEFORE_VISITS = " Each counts as it ended first: what visits have found since is not in it."
# Stats by what they count.
_HELD = {
    "URLs waiting": "frontier/waiting",
    "URLs in the eliminator": "seen/waiting",
    "URLs in process": "frontier/leased",
    "URLs to be visited again": "frontier/due",
    "hosts ready": "frontier/hosts/ready",
    "hosts resting": "frontier/hosts/snoozed",
}


def gauges(crawl: Crawl) -> Iterator[Figure]:
    """What waited, and how many workers were busy, as time went on."""
    edges, means = crawl.gauges
    for name, title, shown, y in (
        ("waiting", "URLs waiting and parked", GAUGES[:2], "URLs"),
        ("workers", "Workers and hosts", GAUGES[2:], "workers or hosts"),
    ):
        if edges:
            yield over_time(name, title, "", edges, {one: means[one] for one in shown}, y=y)
        else:
            yield Figure(name, title, "The doctor has not spoken yet.")


def held(stats: Mapping[str, Any]) -> Figure:
    """What waits, rests and is parked, and what releases it, by the *stats* of a crawl."""
    rows = [(one, int(stats.get(_HELD[one], 0)), "") for one in _HELD]
    for gate, number in behind("frontier/parked/", stats).items():
        release = f"raise {BUDGETS[gate]}" if gate in BUDGETS else ""
        rows.append((f"URLs parked by {gate}", number, release))
    table = Table(("what", "now", "what releases it"), rows)
    return Figure("held", "What waits, rests and is parked", "", table)


def given_up(crawl: Crawl) -> Figure:
    """The commonest failures, each with a URL."""
    failed = {one: n for one, n in crawl.outcomes.items() if n and is_given_up(one)}
    title = "URLs given up, with an example"
    if not failed:
        return Figure("failures", title, "No URL was given up.")
    worst = sorted(failed, key=lambda one: (-failed[one], one))
    rows = [(crawl.log.examples.get(one, ""), one, failed[one]) for one in worst[:_MOST_ROWS]]
    part = share(sum(failed.values()), crawl.urls)
    lead = f"{part} of the URLs that have come to their end. An example is the last one."
    return Figure("failures", title, lead, Table(("example", "outcome", "URLs"), rows))


def failing_modules(errors: Sequence[CriticalError], failing: Mapping[str, int]) -> list[Figure]:
    """The processing modules that have failed on pages, each with its last error."""
    last = {one.where: one for one in errors}
    rows = []
    for name, number in failing.items():
        one = last.get(name, CriticalError())
        rows.append((one.url, name, f"{one.error} {one.message}", number))
    lead = "With the page that the last error was about; logs/critical.jsonl has the tracebacks."
    head = ("page", "module", "error", "pages")
    return [Figure("modules", "Failing modules", lead, Table(head, rows))] if rows else []


def known_urls(crawl: Crawl) -> Figure:
    """Where all URLs are that the crawl knows."""
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
    lead, title = "Of {total:,} URLs that the crawl knows, {part} are {first}.", "Where URLs are"
    lead += BEFORE_VISITS * bool(crawl.log.visits)
    return shares("known", title, found, what="place", of="URLs", lead=lead, why="No URL yet.")


def hosts(facts: CheckpointFacts) -> Figure:
    """Hosts with their clocks."""
    lead = (
        "Those with the longest queues, and with the most pages, as of the last checkpoint (UTC)."
    )
    return Figure("hosts", "Hosts and their clocks", lead, facts.hosts)


def commands(crawl: Crawl) -> Figure:
    """What was changed while it ran."""
    rows = [
        (stamp(one.at), one.command, one.origin, one.reason, one.answer or "")
        for one in crawl.commands
    ]
    head = ("time (UTC)", "command", "by", "reason", "answer")
    lead = "The last ones, by scrapy control or a page; logs/control.jsonl has all." if rows else ""
    return Figure("journal", "Commands", lead or "None.", Table(head, rows) if rows else None)


def checkpoints(facts: CheckpointFacts) -> Figure:
    """Those that the crawl can go on from."""
    lead = "A copy of one that is kept can be resumed as a job."
    return Figure("checkpoints", "Checkpoints", lead, facts.checkpoints)
