"""What is known of a host and of its robots.txt, for explanations. Times are epoch seconds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from webcrawl.frontier.hosts import stored_rest
from webcrawl.hosts import HostRecord
from webcrawl.retry_policy import RetryPolicy
from webcrawl.robots.cache import RobotsCache
from webcrawl.setting_values import flag
from webcrawl.urls import origin_of

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from webcrawl.frontier.view import HostTimes
    from webcrawl.inspect.job_view import JobView

_WITH_ROBOTS = ("http://", "https://", "ftp://")


class HostState(msgspec.Struct, frozen=True):
    """*state* is "in process", "resting" or "ready"; *because* says why it rests. *waiting* counts
    the URLs in its back-end queue, *failures* the contacts in a row that failed. *penalty_until* is
    when a host that has failed too often is asked again."""

    name: str
    state: str
    ready_at: float = 0.0
    because: str = ""
    waiting: int = 0
    contact_since: float = 0.0
    pages: int = 0
    failures: int = 0
    penalty_until: float = 0.0
    addresses: list[str] = []
    took: list[float] = []


class RobotsState(msgspec.Struct, frozen=True):
    """*verdict* is "allowed", "denied", "unreachable", "unknown" or "not asked"; *line* is the line
    of robots.txt that decides, empty when none does."""

    origin: str
    verdict: str
    line: str = ""
    status: int | None = None
    fetched_at: float = 0.0
    expires_at: float = 0.0
    crawl_delay: float = 0.0


def host_state(view: JobView, host: str, *, settings: BaseSettings) -> HostState:
    """The state of *host*, a politeness key, now."""
    record = view.records.record(host) or HostRecord(host)
    times = clock_of(view, host)
    now = time.time()
    penalty = record.penalty_until if record.penalty_until > now else 0.0
    state = state_of(times, now=now)
    return HostState(
        name=host,
        state=state,
        ready_at=times.ready_at,
        because=_because(times, record, settings) if state == "resting" else "",
        waiting=times.length,
        contact_since=times.contact,
        pages=record.pages,
        failures=record.failures,
        penalty_until=penalty,
        addresses=record.addresses,
        took=record.took,
    )


def clock_of(view: JobView, host: str) -> HostTimes:
    """When *host* may be contacted, by the frontier's own files and its rest store."""
    times = view.frontier.times(host)
    if not times.ready_at and not times.contact:
        data = view.records.rest(host)
        if data is not None:
            until, least = stored_rest(data)
            return times._replace(ready_at=until, least=least)
    return times


def state_of(times: HostTimes, *, now: float) -> str:
    """The state of a host whose clock says *times*."""
    if times.contact:
        return "in process"
    return "resting" if times.ready_at > now else "ready"


def _because(times: HostTimes, record: HostRecord, settings: BaseSettings) -> str:
    if record.failures:
        policy = RetryPolicy.from_settings(settings)
        most = policy.most_failures(record.failed_with)
        text = f"{record.failures} contacts in a row have failed, {most} are too many"
        if record.failed_alike:
            alike = policy.rule(record.failed_with).failures
            text += f"; the last {record.failed_alike} were {record.failed_with}, of {alike}"
        return text
    if times.least:
        return f"the pause after a contact, of at least {times.least:g} s"
    return "the pause after a contact"


def robots_state(view: JobView, url: str, *, settings: BaseSettings) -> RobotsState:
    """What robots.txt says of *url*, as it is kept."""
    origin = origin_of(url)
    if not flag(settings, "ROBOTSTXT_OBEY", default=True) or not url.startswith(_WITH_ROBOTS):
        return RobotsState(origin, "not asked")
    cache = RobotsCache.from_settings(settings, store=view.records)
    facts, rules = cache.facts(origin), cache.last(origin)
    if facts is None or rules is None:
        return RobotsState(origin, "unknown")
    verdict = "allowed" if rules.allowed(url) else "denied"
    return RobotsState(
        origin,
        "unreachable" if rules.failed else verdict,
        line=rules.decided_by(url),
        status=facts.status,
        fetched_at=facts.fetched_at,
        expires_at=facts.expires_at,
        crawl_delay=rules.crawl_delay or 0.0,
    )
