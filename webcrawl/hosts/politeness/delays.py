"""Delays: how long a host rests after each contact, and which hosts are given up.

Everything that is learned about a host is stored in its record (hosts/records), so it survives a
restart.

Failures are counted by origin (scheme, host, port), because a page may link to ports where nothing
listens. While another origin of the same politeness key answers, a failing origin backs off alone
(origin_rests.py), and the key rests as usual, as if the failure had taken no time. So does an
origin that refuses a connection, or accepts it and sends nothing, while none of its host has
answered: the machine is there, but nothing answers on that port. Otherwise the key backs off. An
origin that has failed too often is given up. A host is given up once several of its origins have
failed that often and none has answered. An origin is *unproven* if it has never answered but
another origin of its host has: it is given up after one failure. Invariants: no host rests less
than the policy says, and jitter only adds to that; no origin is given up because of another one
while any origin of its host answers.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import frexp
from typing import TYPE_CHECKING, NamedTuple, Self

import msgspec

from webcrawl.clock import TimeSource
from webcrawl.configuration.values import choice, number
from webcrawl.errors import FatalError
from webcrawl.frontier.delay_policy import REMEMBERED_TIMES, HostFacts
from webcrawl.hosts.politeness.refusals import Refusals
from webcrawl.net.outcomes import is_document
from webcrawl.net.walls import CHALLENGED, WALLED, WALLS
from webcrawl.urls.host import host_and_origin
from webcrawl.urls.registered_domain import POLITENESS_KEYS

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from webcrawl.hosts.politeness.host_policies import HostDelays
    from webcrawl.hosts.records import HostRecord, HostRecords
    from webcrawl.hosts.retry_policy import RetryPolicy, Rule

# A server notices some milliseconds late that the crawler hung up; only then the pause begins for
# the server.
_HANG_UP_SECS = 0.1
_LOOKUP_FAILED = "dns_failed"
# Failures of one port; the machine itself has refused or accepted the connection.
_CLOSED = frozenset({"connect_refused", "first_byte_timeout"})
# Answers directed at this crawler, whichever origin sent them: the whole host rests.
_ABOUT_CRAWLER = frozenset({"http_429", CHALLENGED, WALLED})
# A host is given up after this many times the number of consecutive failures that a single origin
# may have. That allows for about 40 closed ports whose robots.txt is tried three times.
_ORIGINS_PER_HOST = 16
# A host that has shown walls is contacted up to 2**5 times less often. Each page that it sends
# halves that factor again.
_MAX_SLOWED = 5
_LONG_CRAWL_DELAY = ("skip", "cap", "obey")
# Bounds in seconds for counting waits and fetch times: 1 ms, 17 minutes, 36 hours.
_SHORTEST = 2.0**-10
_LONGEST_FETCH = 2.0**10
_LONGEST_WAIT = 2.0**17


class PolitenessProfile(NamedTuple):
    """A named set of politeness settings: the politeness key, and the values for LargestDelay.

    The values are in seconds, except *factor*.
    """

    key: str
    factor: float
    floor: float
    ceiling: float
    unmeasured: float


PROFILES = {
    # "10 times as long as it took us to download a URL" (section 3.1); the floor is webcrawl's.
    "mercator": PolitenessProfile("host", factor=10.0, floor=3.0, ceiling=120.0, unmeasured=0.0),
    # The next contact is "70 seconds after the last time the domain was crawled".
    "nielsen": PolitenessProfile("domain", factor=0.0, floor=70.0, ceiling=120.0, unmeasured=0.0),
    # The average time itself, "at least 15 seconds", and a minute until five times are known.
    "mischel": PolitenessProfile("host", factor=1.0, floor=15.0, ceiling=120.0, unmeasured=60.0),
}


def profile_of(settings: BaseSettings) -> PolitenessProfile:
    """Return the profile named by POLITENESS_PROFILE, changed by other settings that are set.

    These are POLITENESS_KEY, _DELAY_FACTOR, _MIN_DELAY and _MAX_DELAY. Rests are at least
    DOWNLOAD_DELAY. Raises FatalError for a bad value.
    """
    profile = PROFILES[choice(settings, "POLITENESS_PROFILE", PROFILES)]
    key = choice(settings, "POLITENESS_KEY", POLITENESS_KEYS, default=profile.key)

    def value(setting: str, default: float) -> float:
        if settings.get(setting) is None:
            return default
        return number(settings, setting, at_least=0)

    chosen = PolitenessProfile(
        key,
        value("POLITENESS_DELAY_FACTOR", profile.factor),
        value("POLITENESS_MIN_DELAY", profile.floor),
        value("POLITENESS_MAX_DELAY", profile.ceiling),
        profile.unmeasured,
    )
    if chosen.ceiling < chosen.floor:
        raise FatalError(
            f"POLITENESS_MAX_DELAY is {chosen.ceiling:g}, below the minimum of {chosen.floor:g} "
            "set by POLITENESS_MIN_DELAY or the profile."
        )
    delay = number(settings, "DOWNLOAD_DELAY", at_least=0)
    return chosen._replace(floor=max(chosen.floor, delay), ceiling=max(chosen.ceiling, delay))


class RestTimes(msgspec.Struct, frozen=True, gc=False):
    """How long a host must rest after a contact, in seconds, and why.

    - *secs* is the rest from now.
    - *min_rest* is the shortest rest after the *next* contact, used if the process dies during it.
    - *origin* is the rest of the origin if it backs off alone, else 0.0.
    - *stat* is the name of the stat that counts this contact, or "". The first contact of a host
      counts the host. Each later one in the same run counts the wait before it.
    - *is_alone* means that only the origin has failed: its host rests as if that had taken no time.
    - *for_all_parts* means that *secs* applies to all parts of the host, unlike a pause between
      contacts.
    """

    secs: float
    min_rest: float
    origin: float
    stat: str
    is_alone: bool
    for_all_parts: bool


@dataclass
class PolitenessLimits:
    """Limits of the delays that a host may ask for, and the penalty of failing hosts, in seconds.

    They may change during a crawl. *jitter* is the largest fraction of a rest that is added to it
    at random. *long_crawl_delay* says what to do with a host whose Crawl-delay is longer than
    *crawl_delay*: "skip", "cap" or "obey".
    """

    jitter: float
    crawl_delay: float
    long_crawl_delay: str
    retry_after: float
    penalty: float

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Read the POLITENESS_* settings. Raises FatalError for a bad value."""
        return cls(
            jitter=number(settings, "POLITENESS_JITTER", at_least=0),
            crawl_delay=number(settings, "POLITENESS_MAX_CRAWL_DELAY", at_least=0),
            long_crawl_delay=choice(settings, "POLITENESS_LONG_CRAWL_DELAY", _LONG_CRAWL_DELAY),
            retry_after=number(settings, "POLITENESS_MAX_RETRY_AFTER_SECS", at_least=0),
            penalty=number(settings, "POLITENESS_PENALTY_SECS", at_least=0),
        )


@dataclass(kw_only=True, eq=False)
class Politeness:
    """Applies the delay policy to all hosts, and counts their failures. Times are in seconds."""

    policy: HostDelays
    records: HostRecords
    retries: RetryPolicy
    limits: PolitenessLimits
    clock: TimeSource
    rng: random.Random
    # When the first contact of this run began.
    _began: float = field(default=0.0, init=False)
    refusals: Refusals = field(init=False)

    def __post_init__(self) -> None:
        self.refusals = Refusals(self.clock)

    def rest_after(
        self,
        key: str,
        url: str,
        *,
        took: float,
        outcome: str,
        crawl_delay: float,
        retry_after: float,
        hung_up: bool,
        excused: bool = False,
    ) -> RestTimes:
        """Record a contact for *url* that ended in *outcome*; return how long its host must rest.

        The contact took *took* seconds. Failures are counted for the origin and the host of *url*;
        the politeness key *key*, which may be a whole domain, only rests. If the contact is
        *excused*, its failure is not counted. *hung_up* means that the crawler ended the contact
        before the server had finished. *crawl_delay* and *retry_after* are the seconds that the
        host asks for, 0.0 if it does not.
        """
        record = self.records.get(key)
        host, origin = self._host_and_origin(record, url)
        stat = self._record_times(record, host, took)
        had_failed = origin.failures or origin.ready_at
        has_answered = _is_answer(outcome)
        rule = self.retries.rule(outcome)
        failed = not excused and rule.failures > 0
        unproven = not has_answered and host.is_unproven(origin.host)
        # The machine has answered, but nothing answers on this port.
        is_closed = outcome in _CLOSED and not host.proven
        is_alone = failed and (
            unproven
            or is_closed
            or (record.answered not in ("", origin.host) and outcome not in _ABOUT_CRAWLER)
        )
        times = [*record.took, took][-REMEMBERED_TIMES:]

        if not excused:
            self._count_failure(origin, outcome, rule)
            if is_closed or not is_alone:
                self._count_failure(host, outcome, rule)
            host.lookups_failed = 0
            if has_answered:
                host.prove(origin.host)
            if has_answered and not failed:
                record.answered = origin.host
            elif failed and record.answered == origin.host:
                record.answered = ""

        if has_answered:
            record.took = times
            record.slowed = (
                min(record.slowed + 1, _MAX_SLOWED)
                if outcome in (CHALLENGED, WALLED)
                else max(record.slowed - 1, 0)
            )
            if is_document(outcome):
                record.pages += 1

        crawl_delay = self._applied_delay(crawl_delay)
        retry_after = min(retry_after, self.limits.retry_after)
        facts = HostFacts(times, crawl_delay, retry_after, origin.failures)
        wait = 0.0 if excused else rule.wait
        rest = self.policy.rest(host.host, facts)
        if not origin.failures:  # otherwise each failure doubles it
            rest *= 1 << record.slowed
        secs = self._with_jitter(max(rest, wait))

        is_given_up = self._give_up(origin, secs, origins=0 if unproven else 1) | self._give_up(
            host, secs, origins=_ORIGINS_PER_HOST
        )
        origin_rest = secs if is_alone and not is_given_up else 0.0
        origin.ready_at = self.clock() + origin_rest if origin_rest else 0.0
        if is_alone or is_given_up:
            # URLs of an origin that is given up need not wait long until they are given up as well,
            # and the URLs of other origins must not wait because of it.
            facts = HostFacts(record.took if is_alone else times, crawl_delay)
            rest = self.policy.rest(host.host, facts)
            secs = self._with_jitter(rest)

        self._store(record, host)
        if had_failed or origin.failures:
            self.records.put(origin)
        min_rest = self._min_rest(host.host, facts.times, crawl_delay, facts.failures)
        for_all_parts = not is_alone and (failed or retry_after > 0)
        if for_all_parts or outcome in _ABOUT_CRAWLER:
            self.refusals.note(key, outcome, secs)
        return RestTimes(
            secs + _HANG_UP_SECS * hung_up, min_rest, origin_rest, stat, is_alone, for_all_parts
        )

    def shared_rest(self, took: float, *, hung_up: bool) -> float:
        """Return how many seconds an address's clock rests after a contact of *took* seconds.

        *hung_up* as in ``rest_after``.
        """
        return self.policy.rest("", HostFacts((took,))) + _HANG_UP_SECS * hung_up

    def _record_times(self, record: HostRecord, host: HostRecord, took: float) -> str:
        """Record the contact that has just ended; return the stat that counts it.

        The first contact of *host* counts the host. Each later one counts the wait before it: the
        name of the stat contains the previous contact's length in seconds, rounded down to a power
        of four, and the wait, rounded down to a power of two. The result is "" if the previous
        contact was in an earlier run.
        """
        now = self.clock()
        self._began = self._began or now - took
        # From the end of the previous contact to the beginning of this one.
        waited = now - took - record.ended_at
        previous_took = record.lasted
        is_known = waited >= 0 and record.ended_at >= self._began
        is_new = not host.ended_at
        host.ended_at = now
        record.ended_at = now
        record.lasted = took
        if is_new:
            return "hosts/contacted"
        if not is_known:
            return ""

        # ``frexp`` returns the exponent of 2 plus 1; that of 4 is half as large.
        fetch_exponent = (frexp(min(max(previous_took, _SHORTEST), _LONGEST_FETCH))[1] - 1) // 2
        wait_exponent = frexp(min(max(waited, _SHORTEST), _LONGEST_WAIT))[1] - 1
        return _stat_of_wait(fetch_exponent, wait_exponent)

    def min_rest(self, key: str, url: str, *, crawl_delay: float) -> float:
        """Return how many seconds *key* rests at least after a contact for *url* that begins now.

        The rest is not shorter if a crash cuts the contact off.
        """
        record = self.records.get(key)
        host, origin = self._host_and_origin(record, url)
        # If only this origin fails, it backs off alone, and the host rests as usual.
        is_alone = record.answered not in ("", origin.host) or host.is_unproven(origin.host)
        failures = 0 if is_alone else origin.failures
        return self._min_rest(host.host, record.took, self._applied_delay(crawl_delay), failures)

    def _min_rest(
        self, host: str, times: Sequence[float], crawl_delay: float, failures: int
    ) -> float:
        """Return the shortest rest of *host* after its next contact, given the facts about it."""
        # At most four downloads, as the next one is the fifth.
        return self.policy.rest(
            host, HostFacts(times[1 - REMEMBERED_TIMES :], crawl_delay, 0.0, failures)
        )

    def is_too_long(self, crawl_delay: float) -> bool:
        """Return whether *crawl_delay*, in seconds, is longer than POLITENESS_MAX_CRAWL_DELAY."""
        return crawl_delay > self.limits.crawl_delay

    def should_skip(self, crawl_delay: float) -> bool:
        """Return whether hosts with this *crawl_delay* are skipped."""
        return self.limits.long_crawl_delay == "skip" and self.is_too_long(crawl_delay)

    def _applied_delay(self, crawl_delay: float) -> float:
        """Return the delay in seconds that is kept for a host with this *crawl_delay*.

        It is 0.0 if the host is skipped: no further request is sent to it, so its URLs can be given
        up without a wait.
        """
        if not self.is_too_long(crawl_delay) or self.limits.long_crawl_delay == "obey":
            return crawl_delay
        return self.limits.crawl_delay if self.limits.long_crawl_delay == "cap" else 0.0

    def lookup_failed(self, key: str, url: str, *, at_least: float, excused: bool = False) -> float:
        """Record that the name servers failed for the host of *url*; return how long *key* rests.

        *key* backs off without a contact, for at least *at_least* seconds, after which the name
        servers may be queried again. *excused* as in ``rest_after``.
        """
        record = self.records.get(key)
        host, _ = self._host_and_origin(record, url)
        rule = self.retries.rule(_LOOKUP_FAILED)
        wait = 0.0
        if not excused:
            self._count_failure(host, _LOOKUP_FAILED, rule)
            host.lookups_failed += 1
            wait = rule.wait

        secs = self._with_jitter(
            max(self.policy.rest(host.host, HostFacts((), failures=host.failures)), wait)
        )
        if 0 < rule.failures <= host.lookups_failed:
            host.penalty_until = self.clock() + max(secs, self.limits.penalty)
            # The host is given up, so its URLs need not wait until they are given up as well.
            secs = self.policy.rest(host.host, HostFacts(()))
        self._store(record, host)
        return max(secs, at_least)

    def _host_and_origin(self, record: HostRecord, url: str) -> tuple[HostRecord, HostRecord]:
        """Return the records of the host and of the origin of *url*.

        *record* is the record of the politeness key; it may be that of the host, too.
        """
        name, origin = host_and_origin(url)
        host = record if name in (record.host, "") else self.records.get(name)
        # A URL without a host has no origin; it gets a name that is not the name of a host.
        return host, self.records.get(origin or f"//{record.host}")

    def _count_failure(self, target: HostRecord, outcome: str, rule: Rule) -> None:
        """Count *outcome* in the record *target* if it is a failure; a success resets the counts.

        Consecutive failures are counted, and those that had the same outcome as the last one.
        """
        if rule.failures == 0:
            target.failures = 0
            target.failed_with = ""
            target.failed_alike = 0
            target.penalty_until = 0.0
            return
        target.failures += 1
        target.failed_alike = target.failed_alike + 1 if target.failed_with == outcome else 1
        target.failed_with = outcome

    def _give_up(self, target: HostRecord, secs: float, *, origins: int = 1) -> bool:
        """Give up the host or origin of the record *target* if it has failed too often.

        Returns whether it is given up. In that case no request is sent to it for *secs* seconds, or
        for the penalty if that is longer. The limits are multiplied by *origins*; with 0, one
        failure is enough.
        """
        if not target.failures:
            return False
        outcome = target.failed_with
        max_alike = origins * self.retries.rule(outcome).failures
        max_failures = origins * self.retries.max_failures
        is_given_up = target.failed_alike >= max_alike or target.failures >= max_failures
        if is_given_up:
            target.penalty_until = self.clock() + max(secs, self.limits.penalty)
        return is_given_up

    def _with_jitter(self, secs: float) -> float:
        """Return *secs* plus a random jitter."""
        return secs * (1.0 + self.limits.jitter * self.rng.random())

    def _store(self, record: HostRecord, host: HostRecord) -> None:
        """Store *record* and *host*, which may be the same record."""
        self.records.put(record)
        if host is not record:
            self.records.put(host)

    def is_lost(self, host: str) -> bool:
        """Return whether the look-ups of *host* have failed too often to try another one."""
        return self.records.get(host).lookups_failed > self.retries.rule(_LOOKUP_FAILED).tries

    def forgive(self, key: str, url: str) -> None:
        """Clear the failures of the host and the origin of *url*; *key* continues to rest."""
        record = self.records.get(key)
        host, origin = self._host_and_origin(record, url)
        for target in (host, origin):
            target.failures = 0
            target.failed_alike = 0
            target.lookups_failed = 0
            target.failed_with = ""
            target.penalty_until = 0.0
            self.records.put(target)

    def refusal(self, key: str, url: str) -> str:
        """Return the outcome for *url* if its host or origin is given up; "" if it may be fetched.

        *key* is the politeness key of *url*.
        """
        host, origin = self._host_and_origin(self.records.get(key), url)
        until = max(host.penalty_until, origin.penalty_until)
        if not until or until <= self.clock():
            return ""
        failed = origin if until == origin.penalty_until else host
        # The failure itself is the outcome if there was only one, or if it was a wall.
        is_tried_once = failed is origin and host.is_unproven(origin.host)
        if is_tried_once or failed.failed_with in WALLS:
            return failed.failed_with
        return "host_failing"

    def is_final(self, url: str, outcome: str) -> bool:
        """Return whether *url* is not retried after *outcome* because its origin is unproven."""
        if _is_answer(outcome) or not self.retries.rule(outcome).failures:
            return False
        return is_unproven(self.records, url)


def is_unproven(records: HostRecords, url: str) -> bool:
    """Return whether the origin of *url* never answered, although another one of its host did."""
    host, origin = host_and_origin(url)
    record = records.get(host)
    return record.answered != origin and record.is_unproven(origin)


def may_be_closed(records: HostRecords, url: str) -> bool:
    """Return whether *url* has a port that never answered, while another port of its host did."""
    _, origin = host_and_origin(url)
    return origin.count(":") > 1 and is_unproven(records, url)


def _is_answer(outcome: str) -> bool:
    """Return whether *outcome* means that the host answered, with a page or anything else."""
    return outcome.startswith("http_") or outcome in WALLS


@lru_cache(512)
def _stat_of_wait(fetch_exponent: int, wait_exponent: int) -> str:
    """Return the name of the stat that counts certain waits between contacts of a host.

    These are waits of about 2**wait_exponent seconds after contacts of about 4**fetch_exponent
    seconds.
    """
    return f"politeness/waits/{4.0**fetch_exponent:g}/{2.0**wait_exponent:g}"
