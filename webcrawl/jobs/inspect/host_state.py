"""Finds the state of a host, its robots.txt and its traps. Times are in epoch seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from webcrawl import states
from webcrawl.clock import now, wall_time
from webcrawl.configuration.values import flag
from webcrawl.frontier.host_parts import politeness_key
from webcrawl.frontier.rests import stored_rest
from webcrawl.hosts.budgets.traps.keeper import exceptions_in
from webcrawl.hosts.records import HostRecord
from webcrawl.hosts.robots.lookup import WITH_ROBOTS
from webcrawl.hosts.robots.rules_cache import RobotsCache
from webcrawl.net.walls import WALLS
from webcrawl.urls import host_of, origin_of
from webcrawl.urls.filters.pattern import patterns_of
from webcrawl.wording import counted

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from webcrawl.frontier.view import HostTimes
    from webcrawl.hosts.host_rules import Exclusion
    from webcrawl.jobs.inspect.job_view import ShardView


class HostReport(msgspec.Struct, frozen=True):
    """Why a host is or is not ready for its next request.

    state: one of ``states.HostState``.
    ready_at: when its pause ends.
    because: the reason for its pause.
    waiting: URLs in its back-end queue.
    contact_since: when the request began that is in progress, or 0.
    pages: number of downloads.
    begun: URLs whose download has begun.
    failures: number of requests in a row that failed; those to the URL's origin, if there are any.
    penalty_until: when a host that has failed too often is tried again.
    took: how long its last requests took, in seconds.
    walls: numbers of answers that blocked the crawler instead of being documents, by outcome.
    slowed: how often such answers have doubled the host's pause.
    """

    name: str
    state: str
    ready_at: float = 0.0
    because: str = ""
    waiting: int = 0
    contact_since: float = 0.0
    pages: int = 0
    failures: int = 0
    begun: int = 0
    penalty_until: float = 0.0
    addresses: list[str] = []
    took: list[float] = []
    walls: dict[str, int] = {}
    slowed: int = 0


class RobotsState(msgspec.Struct, frozen=True):
    """What robots.txt says about a URL.

    *verdict* is "allowed", "denied", "unreachable", "unknown" or "not asked". *line* is the line of
    robots.txt that decides, or empty if there is none. *status* is the HTTP status of robots.txt.
    """

    origin: str
    verdict: str
    line: str = ""
    status: int | None = None
    fetched_at: float = 0.0
    expires_at: float = 0.0
    crawl_delay: float = 0.0


class TrapState(msgspec.Struct, frozen=True):
    """What is known about traps at a URL and its host.

    *patterns* has the pattern of the URL and, if there is one, the wider pattern. *excepted* is
    true if one of them is in TRAP_EXCEPTIONS_FILE. *fresh* pages of the host had new content, and
    *fruitless* answers had none.
    """

    patterns: list[str]
    excepted: bool
    fresh: int
    fruitless: int


def host_state(
    shard: ShardView,
    host: str,
    *,
    url: str,
    parts: int = 1,
    crawl_delay: float = 0.0,
    exclusion: Exclusion | None = None,
) -> HostReport:
    """Return the present state of *host*, to which *url* belongs.

    If the host is divided into *parts*, the state is that of the part to which *url* belongs.
    *crawl_delay* is the Crawl-delay of its robots.txt, in seconds. *exclusion* says why the host is
    excluded, if it is.
    """
    # The records of the politeness key, of the URL's origin, and of its host name may differ.
    record = shard.records.record(host) or HostRecord(host)
    origin = shard.records.record(origin_of(url)) or HostRecord(host)
    failing = origin if origin.failures else record
    name_record = shard.records.record(host_of(url)) or HostRecord(host)

    key = politeness_key(host, url, parts)
    times = times_of(shard, key)
    # A pause of the whole host also applies to its parts.
    whole_times = times_of(shard, host) if key != host else times
    times = times._replace(ready_at=max(times.ready_at, whole_times.ready_at))

    wall_now = wall_time()
    penalty_until = max(record.penalty_until, origin.penalty_until)
    state = state_of(times, now=wall_now)
    because = ""
    if state == states.HostState.PAUSED:
        because = _pause_reason(times, failing, record, crawl_delay)
    if exclusion:
        state = states.HostState.EXCLUDED
        because = exclusion.source
    return HostReport(
        name=key,
        state=state,
        ready_at=times.ready_at,
        because=because,
        waiting=times.length,
        contact_since=times.contact,
        pages=record.pages,
        failures=failing.failures,
        begun=name_record.begun,
        penalty_until=penalty_until if penalty_until > wall_now else 0.0,
        addresses=record.addresses,
        took=record.took,
        walls={
            outcome: count
            for outcome, count in zip(WALLS, name_record.walled, strict=False)
            if count
        },
        slowed=record.slowed,
    )


def times_of(shard: ShardView, host: str) -> HostTimes:
    """Return when *host* may be contacted, from the frontier's files and its stored pauses."""
    times = shard.frontier.times(host)
    # Until ``quiet`` all hosts rest, so the frontier's files have no pause of this host itself.
    if times.ready_at <= shard.frontier.quiet and not times.contact:
        stored = shard.records.rest(host)
        if stored is not None:
            until, min_rest = stored_rest(stored)
            return times._replace(ready_at=max(until, times.ready_at), min_rest=min_rest)
    return times


def state_of(times: HostTimes, *, now: float) -> states.HostState:
    """Return the state at the time *now* of a host with these *times*."""
    if times.contact:
        return states.HostState.IN_PROCESS
    return states.HostState.PAUSED if times.ready_at > now else states.HostState.READY


def _pause_reason(
    times: HostTimes, failing: HostRecord, record: HostRecord, crawl_delay: float
) -> str:
    """Return the reason for the pause of a host with these *times* and *record*, in words.

    *failing* is the record that counts its failures.
    """
    if failing.failures:
        text = f"{counted(failing.failures, 'request')} in a row failed"
        if failing.failed_alike:
            text += f", the last {failing.failed_alike} with {failing.failed_with}"
        return f"{text}, and each one doubles the pause"
    if crawl_delay and times.min_rest >= crawl_delay:
        return f"Crawl-delay {crawl_delay:g}"
    text = "pause after a request"
    if record.slowed:
        text += f", {1 << record.slowed} times as long because of challenges and logins"
    if record.took:
        text += f"; its last requests took {sum(record.took) / len(record.took):.3g} s on average"
    return text


def robots_state(shard: ShardView, url: str, *, settings: BaseSettings) -> RobotsState:
    """Return what the stored robots.txt says about *url*, without fetching it."""
    origin = origin_of(url)
    if not flag(settings, "ROBOTSTXT_OBEY") or not url.startswith(WITH_ROBOTS):
        return RobotsState(origin, "not asked")
    cache = RobotsCache.from_settings(settings, store=shard.records)
    facts = cache.facts(origin)
    rules = cache.last_rules(origin)
    if facts is None or rules is None:
        return RobotsState(origin, "unknown")
    allow, line = rules.decide(url)
    verdict = "allowed" if allow else "denied"
    return RobotsState(
        origin,
        "unreachable" if rules.failed else verdict,
        line=line,
        status=facts.status,
        fetched_at=facts.fetched_at,
        expires_at=facts.expires_at,
        crawl_delay=rules.crawl_delay or 0.0,
    )


def trap_state(shard: ShardView, url: str, *, settings: BaseSettings) -> TrapState:
    """Return what is known about traps at the normalized *url*.

    Raises FatalError if TRAP_EXCEPTIONS_FILE cannot be read, and CorruptRecordError if the host's
    record is damaged.
    """
    host = host_of(url)
    exceptions = exceptions_in(settings.get("TRAP_EXCEPTIONS_FILE"), clock=now)
    exceptions.open()
    patterns = [pattern for pattern in patterns_of(url) if pattern]
    record = shard.records.record(host)
    return TrapState(
        patterns=patterns,
        excepted=exceptions.rules.is_exempt(host, *patterns),
        fresh=0 if record is None else record.fresh,
        fruitless=0 if record is None else record.fruitless,
    )
