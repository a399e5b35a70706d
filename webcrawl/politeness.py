"""What each host has shown so far, and the rest that follows from it.

The dispatcher tells of every contact that ended; the answer is how long the host rests. What is
learned stays in the host's record (hosts/), so a restart begins where this process ended. The
invariant: no host rests shorter than the policy says; jitter only adds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from webcrawl.errors import FatalError
from webcrawl.frontier.politeness import REMEMBERED_TIMES, HostFacts
from webcrawl.setting_values import number
from webcrawl.urls.politeness_key import KEYS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from scrapy.settings import BaseSettings

    from webcrawl.frontier import DelayPolicy
    from webcrawl.hosts import HostRecord
    from webcrawl.retry_policy import RetryPolicy

# A server notices some milliseconds later that we hung up, and for it the pause begins then.
_HANG_UP_SECS = 0.1
_LOOKUP_FAILED = "dns_failed"
_LONG_CRAWL_DELAY = ("skip", "cap", "obey")


class Profile(NamedTuple):
    """Ready-made politeness: a key, and the values of LargestDelay. Seconds but *factor*."""

    key: str
    factor: float
    floor: float
    ceiling: float
    unmeasured: float


PROFILES = {
    # "10 times as long as it took us to download a URL" (section 3.1); the floor is ours.
    "mercator": Profile("host", factor=10.0, floor=3.0, ceiling=120.0, unmeasured=0.0),
    # "A given domain is not crawled more than once in 70 seconds."
    "nielsen": Profile("domain", factor=0.0, floor=70.0, ceiling=120.0, unmeasured=0.0),
    # The average time itself, "at least 15 seconds", and a minute until five are known.
    "mischel": Profile("host", factor=1.0, floor=15.0, ceiling=120.0, unmeasured=60.0),
}


def profile_of(settings: BaseSettings) -> Profile:
    """POLITENESS_PROFILE, with those of POLITENESS_KEY, _DELAY_FACTOR, _MIN_DELAY, _MAX_DELAY and
    _UNMEASURED_DELAY that are set in place of its own, and pauses of DOWNLOAD_DELAY at least.
    FatalError with one sentence."""
    name = settings.get("POLITENESS_PROFILE")
    if name not in PROFILES:
        raise FatalError(f"POLITENESS_PROFILE must be {' or '.join(PROFILES)}, not {name!r}.")
    profile = PROFILES[name]
    key = settings.get("POLITENESS_KEY") or profile.key
    if key not in KEYS:
        raise FatalError(f"POLITENESS_KEY must be {' or '.join(KEYS)}, not {key!r}.")

    def value(setting: str, default: float) -> float:
        if settings.get(setting) is None:
            return default
        return number(settings, setting, at_least=0)

    chosen = Profile(
        key,
        value("POLITENESS_DELAY_FACTOR", profile.factor),
        value("POLITENESS_MIN_DELAY", profile.floor),
        value("POLITENESS_MAX_DELAY", profile.ceiling),
        value("POLITENESS_UNMEASURED_DELAY", profile.unmeasured),
    )
    if chosen.ceiling < chosen.floor:
        raise FatalError(
            f"POLITENESS_MAX_DELAY is {chosen.ceiling:g}, below the floor of {chosen.floor:g} that "
            "POLITENESS_MIN_DELAY or the profile sets."
        )
    delay = number(settings, "DOWNLOAD_DELAY", at_least=0)
    return chosen._replace(floor=max(chosen.floor, delay), ceiling=max(chosen.ceiling, delay))


def longest_crawl_delay(settings: BaseSettings) -> float:
    """Seconds of Crawl-delay beyond which a host is let alone: POLITENESS_MAX_CRAWL_DELAY where
    POLITENESS_LONG_CRAWL_DELAY is "skip", infinite with "cap" and "obey". FatalError otherwise."""
    what = settings.get("POLITENESS_LONG_CRAWL_DELAY")
    if what not in _LONG_CRAWL_DELAY:
        allowed = " or ".join(_LONG_CRAWL_DELAY)
        raise FatalError(f"POLITENESS_LONG_CRAWL_DELAY must be {allowed}, not {what!r}.")
    longest = number(settings, "POLITENESS_MAX_CRAWL_DELAY", at_least=0)
    return longest if what == "skip" else math.inf


class Records(Protocol):
    """Where what is learned of hosts is kept; see hosts.HostRecords."""

    def get(self, host: str) -> HostRecord: ...
    def put(self, record: HostRecord) -> None: ...


class Rest(NamedTuple):
    """How long a host rests, and *least*, what a next contact that is cut off must be followed
    by; *shared* is the rest of the clock of its address. Seconds."""

    secs: float
    least: float
    shared: float


class Politeness:
    """Rests, and which hosts are beyond patience. Times in seconds; see the settings."""

    def __init__(
        self,
        *,
        policy: DelayPolicy,
        records: Records,
        wall: Callable[[], float],
        rng: random.Random,
        jitter: float,
        longest_crawl_delay: float,
        long_crawl_delay: str,
        longest_retry_after: float,
        retries: RetryPolicy,
        penalty: float,
        address_scale: float,
    ) -> None:
        self._policy = policy
        self._records = records
        self._wall = wall
        self._rng = rng
        self._jitter = jitter
        self._longest_crawl_delay = longest_crawl_delay
        self._long_crawl_delay = long_crawl_delay
        self._longest_retry_after = longest_retry_after
        self._retries = retries
        self._penalty = penalty
        self._address_scale = address_scale

    @classmethod
    def from_settings(cls, settings: BaseSettings, **parts: Any) -> Politeness:
        """*parts* are policy, records, retries, wall and rng. FatalError with one sentence."""
        return cls(
            jitter=number(settings, "POLITENESS_JITTER", at_least=0),
            longest_crawl_delay=number(settings, "POLITENESS_MAX_CRAWL_DELAY", at_least=0),
            long_crawl_delay=settings["POLITENESS_LONG_CRAWL_DELAY"],
            longest_retry_after=number(settings, "POLITENESS_MAX_RETRY_AFTER_SECS", at_least=0),
            penalty=number(settings, "POLITENESS_PENALTY_SECS", at_least=0),
            address_scale=number(settings, "POLITENESS_ADDRESS_SCALE", at_least=0),
            **parts,
        )

    def after(
        self,
        key: str,
        host: str,
        *,
        took: float,
        outcome: str,
        crawl_delay: float,
        retry_after: float,
        hung_up: bool,
        excused: bool = False,
    ) -> Rest:
        """A contact of *took* seconds has ended in *outcome*: the rest, and the record updated. If
        it is *excused* its failure is not the host's.

        *host* is the name that was contacted: patience is with names, and *key*, which may stand
        for a whole domain, only rests. *hung_up* says that we ended it, before the server was
        through.
        """
        record = self._records.get(key)
        tried = self._tried(record, host)
        times = [*record.took, took][-REMEMBERED_TIMES:]
        if not excused:
            self._note(record, tried, outcome)
            tried.lookups_failed = 0
        if outcome.startswith("http_"):
            record.took = times
            if outcome.startswith("http_2"):
                record.pages += 1
        crawl_delay = self._honoured(crawl_delay)
        retry_after = min(retry_after, self._longest_retry_after)
        facts = HostFacts(times, crawl_delay, retry_after, record.failures)
        noticed = _HANG_UP_SECS * hung_up
        wait = 0.0 if excused else self._retries.rule(outcome).wait
        secs = self._rest(record, tried, facts, wait=wait) + noticed
        return Rest(
            secs,
            least=self._least(times, crawl_delay, record.failures),
            shared=self._policy.rest(HostFacts((took,))) * self._address_scale + noticed,
        )

    def least(self, key: str, *, crawl_delay: float) -> float:
        """What a contact that begins now must at least be followed by, also if it is cut off."""
        record = self._records.get(key)
        return self._least(record.took, self._honoured(crawl_delay), record.failures)

    def _least(self, times: Sequence[float], crawl_delay: float, failures: int) -> float:
        # Four downloads at most: the next one is the fifth.
        return self._policy.rest(
            HostFacts(times[1 - REMEMBERED_TIMES :], crawl_delay, 0.0, failures)
        )

    def is_too_long(self, crawl_delay: float) -> bool:
        """Whether a Crawl-delay is longer than what is honoured in full."""
        return crawl_delay > self._longest_crawl_delay

    def _honoured(self, crawl_delay: float) -> float:
        """What of a Crawl-delay is kept; 0.0 of one that is too long: who is skipped is asked for
        nothing more, and its URLs need not wait to be told."""
        if not self.is_too_long(crawl_delay) or self._long_crawl_delay == "obey":
            return crawl_delay
        return self._longest_crawl_delay if self._long_crawl_delay == "cap" else 0.0

    def lookup_failed(
        self, key: str, host: str, *, at_least: float, excused: bool = False
    ) -> float:
        """The name servers could not tell the address of *host*: *key* backs off without a contact,
        *at_least* until they would be asked again. Excused as in ``after``."""
        record = self._records.get(key)
        tried = self._tried(record, host)
        wait = 0.0
        if not excused:
            self._note(record, tried, _LOOKUP_FAILED)
            tried.lookups_failed += 1
            wait = self._retries.rule(_LOOKUP_FAILED).wait
        facts = HostFacts((), failures=record.failures)
        return max(self._rest(record, tried, facts, wait=wait), at_least)

    def _note(self, record: HostRecord, tried: HostRecord, outcome: str) -> None:
        """Count failures in a row: of the key whatever they are, of the host their kinds, too."""
        failed = self._retries.rule(outcome).failures > 0
        record.failures = record.failures + 1 if failed else 0
        if tried is not record:
            tried.failures = tried.failures + 1 if failed else 0
        if not failed:
            tried.failed_with, tried.failed_alike, tried.penalty_until = "", 0, 0.0
        elif tried.failed_with == outcome:
            tried.failed_alike += 1
        else:
            tried.failed_with, tried.failed_alike = outcome, 1

    def _is_beyond_patience(self, tried: HostRecord) -> bool:
        outcome = tried.failed_with
        return tried.failures > 0 and (
            tried.failed_alike >= self._retries.rule(outcome).failures
            or tried.failures >= self._retries.most_failures(outcome)
        )

    def _tried(self, record: HostRecord, host: str) -> HostRecord:
        """The record of *host*, of which *record* is the one of its key."""
        return record if host in (record.host, "") else self._records.get(host)

    def _rest(
        self, record: HostRecord, tried: HostRecord, facts: HostFacts, *, wait: float
    ) -> float:
        """By the policy and at least *wait*, with jitter; both records are saved, *tried* is that
        of the host."""
        now = self._wall()
        secs = max(self._policy.rest(facts), wait) * (1.0 + self._jitter * self._rng.random())
        if self._is_beyond_patience(tried):
            # Nothing is asked of it until the penalty is over, so its URLs need not wait for long
            # to be told; nor need the other hosts of a domain.
            tried.penalty_until = now + max(secs, self._penalty)
            secs = self._policy.rest(facts._replace(failures=0))
            if tried is not record:
                record.failures = 0
        record.ready_at = now + secs
        self._records.put(record)
        if tried is not record:
            self._records.put(tried)
        return secs

    def is_lost(self, host: str) -> bool:
        """Whether a host that cannot be found right now has been looked up often enough."""
        return self._records.get(host).lookups_failed > self._retries.rule(_LOOKUP_FAILED).tries

    def forgive(self, key: str, host: str) -> None:
        """Try *host* anew, whatever it has failed with; what it must rest, it rests."""
        record = self._records.get(key)
        tried = self._tried(record, host)
        for one in (record, tried):
            one.failures = one.failed_alike = one.lookups_failed = 0
            one.failed_with, one.penalty_until = "", 0.0
            self._records.put(one)

    def is_failing(self, host: str) -> bool:
        """Whether a host has failed so often in a row that nothing is asked of it for a while."""
        record = self._records.get(host)
        return record.failures > 0 and self._wall() < record.penalty_until
