"""Outage detection: recognizes failures of the local network or the name servers, not of sites.

When everything fails, no failure says anything about a site. So the crawl pauses, failures during
the pause are not counted, and a probe is made now and then until there is an answer. `HostRelease`
reports the end of every contact and look-up. Failures before the pause are counted: the summary of
the crawl names the command that fetches their URLs again.

The network is considered down when enough different hosts that had answered before fail in a row.
Hosts that never answered do not count, as they may be dead, and the last hosts of a crawl often
are. Hosts that accept a connection and then send nothing, or drop it, do not count either: they
show that the network works, and so they also end an outage. As long as no host has answered at all,
every host counts, because the crawl was started without a network. During the outage one host after
another is contacted, a few seconds apart.

The name servers are considered down when they fail to find enough hosts in a row, and then also
fail to find a host that they found before. Hosts with known addresses may still answer in the
meantime. "No such name" is an answer and is believed.

As long as no name was found and no host has answered, one failed look-up is enough, and "no such
name" is believed only after a probe has shown that the name servers work.

While a processing module blocks the event loop, answers are not read in time. So no outage begins
then, or within the following minute.

Checkpoints store the last names that were found, and whether any host has answered. If no host has
answered in any run, the crawl ends after a while: someone must look at such a machine, or the crawl
must be started again.
"""

from __future__ import annotations

import logging
import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Self

from scrapy.settings import BaseSettings

from webcrawl.clock import TimeSource
from webcrawl.configuration.values import number, whole_number
from webcrawl.hosts.politeness.pauses import Pauses
from webcrawl.net.walls import WALLS

logger = logging.getLogger(__name__)

#: Outcomes of a contact in which the host sent nothing.
SILENT = frozenset(
    {
        *("connect_refused", "connect_failed", "connect_timeout", "connection_lost"),
        *("first_byte_timeout", "timeout"),
    }
)
#: Outcomes that URLs may have had just before an outage was noticed.
OF_OUTAGES = SILENT | {
    *("dns_failed", "dns_not_found", "host_failing", "robots_unreachable"),
}
# Outcomes, besides answers with a status, in which the host sent something.
_ANSWERED = frozenset(
    {
        *("tls_failed", "too_slow", "incomplete", "bad_answer", "header_too_large"),
        *("unwanted_type", "too_large", *WALLS),
    }
)
# If fewer consecutive hosts fail, the hosts are to blame.
_MIN_HOSTS = 3
# For this many seconds after the event loop was late, it may be the cause of failures.
_LATE_SECS = 60.0
# Seconds between two probes in an outage.
_PROBE_SECS = 5.0


@dataclass(eq=False)
class _Streak:
    """Consecutive hosts whose contacts, or look-ups, failed.

    With *max_hosts* of them, or fewer in a small crawl, there is an outage of *service*. *pause* is
    the name of the pause for this outage.
    """

    service: str
    pause: str
    max_hosts: int
    hosts: OrderedDict[str, None] = field(default_factory=OrderedDict)
    outcomes: Counter[str] = field(default_factory=Counter)
    # The last hosts that answered. As many failures make an outage, so a small crawl needs fewer.
    answered: OrderedDict[str, None] = field(default_factory=OrderedDict)
    # When the outage began.
    began: float = math.inf

    def add(self, host: str, outcome: str) -> None:
        """Add *host*, which has failed."""
        self.hosts[host] = None
        self.outcomes[outcome] += 1

    @property
    def is_long(self) -> bool:
        """Return whether enough hosts have failed for an outage."""
        # A small crawl does not have *max_hosts* hosts that could fail.
        crawled_hosts = len(self.answered) or self.max_hosts
        return len(self.hosts) >= max(_MIN_HOSTS, min(self.max_hosts, crawled_hosts))

    def end(self) -> None:
        """Forget the failures, because a host has answered."""
        self.hosts.clear()
        self.outcomes.clear()
        self.began = math.inf

    def remember(self, host: str) -> None:
        """Add *host* to the last hosts that answered."""
        self.answered[host] = None
        self.answered.move_to_end(host)
        if len(self.answered) > self.max_hosts:
            self.answered.popitem(last=False)


@dataclass(kw_only=True, eq=False)
class Outage:
    """Detects outages: one begins when that many different *hosts* fail in a row; 0 disables it.

    During an outage a probe is made every *probe_secs* seconds. If no host has ever answered, the
    crawl ends *end_secs* seconds after the first outage began; 0 means never. *count* adds one to
    a stat, and *end* ends the crawl. *check* queries the name servers for a host, even if it is
    cached, and calls its second argument with whether they work. *forget* forgets what they have
    answered.
    """

    hosts: int
    probe_secs: float
    end_secs: float
    pauses: Pauses
    count: Callable[[str], None]
    check: Callable[[str, Callable[[bool], None]], None]
    forget: Callable[[], None]
    end: Callable[[], None]
    clock: TimeSource

    def __post_init__(self) -> None:
        self._contacts = _Streak("network", "network", self.hosts)
        self._lookups = _Streak("name service", "name_servers", self.hosts)
        #: Whether a host has answered, in any run of the job.
        self.has_answered = False
        # When the first outage since the last one that ended began.
        self._first_outage_at = math.inf
        # Until when the event loop may be the cause of failures, because it was late.
        self._late_until = -math.inf
        # When the next host may be contacted in an outage.
        self._probe_at = 0.0
        # When the name servers may be queried again in an outage, and whether they are being
        # queried now.
        self._check_at = 0.0
        self._is_checking = False

    @classmethod
    def from_settings(cls, settings: BaseSettings, **parts: Any) -> Self:
        """Build from OUTAGE_HOSTS and OUTAGE_END_SECS; *parts* are the other arguments.

        Raises FatalError for a bad value.
        """
        return cls(
            hosts=whole_number(settings, "OUTAGE_HOSTS", at_least=0),
            probe_secs=_PROBE_SECS,
            end_secs=number(settings, "OUTAGE_END_SECS", at_least=0),
            **parts,
        )

    def open(self, known_names: Iterable[str], *, has_answered: bool) -> None:
        """Restore the names that earlier runs found, and whether any host has answered in them."""
        self.has_answered = has_answered
        for name in known_names:
            self._lookups.remember(name)

    @property
    def known_names(self) -> list[str]:
        """The last names that the name servers found, to be stored and passed to ``open``."""
        return [*self._lookups.answered]

    def contact_ended(
        self, host: str, outcome: str, *, has_answered: bool, mute_secs: float | None
    ) -> bool:
        """Record that a contact with *host* ended in *outcome*; return whether to ignore a failure.

        If True is returned, the failure says nothing about the host, and the URL is retried as if
        it had not been tried. *has_answered* tells whether the host had answered before. If the
        contact ended because the host sent nothing over a new connection, *mute_secs* is for how
        many seconds.
        """
        if not self.hosts:
            return False

        if outcome not in SILENT:
            if outcome.startswith("http_") or outcome in _ANSWERED:
                self.note_answer()
                self._contacts.remember(host)
                self._end(self._contacts)
            return False

        # For how many seconds the host had accepted the connection; None if it did not accept it.
        accepted_secs = 0.0 if outcome == "connection_lost" else mute_secs
        if accepted_secs is not None:
            # The network works, unless the connection is older than the outage.
            if self.clock() - accepted_secs >= self._contacts.began:
                self._end(self._contacts)
        elif has_answered or not self._contacts.answered:
            self._contacts.add(host, outcome)
            if self._contacts.is_long:
                self._begin(self._contacts)
        return self._excuse()

    @property
    def is_untried(self) -> bool:
        """Whether no name was found and no host has answered yet, in any run of the job."""
        return self.hosts > 0 and not (self._lookups.answered or self.has_answered)

    def note_answer(self) -> None:
        """Record that a host has answered, to this process or another one of the crawl."""
        if self.is_untried:
            self._end(self._lookups)
        self.has_answered = True

    def lookup_failed(self, host: str, outcome: str = "dns_failed") -> bool:
        """Record that the name servers failed for *host*; return whether to ignore this failure.

        The *outcome* is "dns_not_found" if they denied that it exists. See ``contact_ended``.
        """
        if not self.hosts:
            return False
        self._lookups.add(host, outcome)
        self._probe_at = self.clock() + self.probe_secs
        if self.is_untried and outcome == "dns_failed":
            self._begin(self._lookups)
        # These names may really have no address, so a query decides whether an outage begins.
        elif (self.is_untried or self._lookups.is_long) and math.isinf(self._lookups.began):
            self._query_name_servers()
        return self._excuse()

    def lookup_worked(self, host: str) -> None:
        """Record that the name servers found *host*."""
        if self.hosts:
            self._lookups.remember(host)
            self._end(self._lookups)

    def note_late_loop(self) -> None:
        """Record that the event loop is late."""
        self._late_until = self.clock() + _LATE_SECS

    def note_contact(self) -> None:
        """Record that a host is being contacted or looked up; in an outage this is a probe."""
        if self._is_on:
            self._probe_at = self.clock() + self.probe_secs
            self.count("outage/probes")

    def work(self) -> None:
        """Probe name servers that are down, and end the crawl if nothing has ever answered.

        Called regularly in the background.
        """
        is_over = self.clock() >= self._first_outage_at + self.end_secs
        if self.end_secs and is_over and not self.has_answered:
            self.end()
        if self._lookups.began < math.inf and self.clock() >= self._check_at:
            self._query_name_servers()

    @property
    def _is_on(self) -> bool:
        """Return whether there is an outage now."""
        return min(self._contacts.began, self._lookups.began) < math.inf

    def _excuse(self) -> bool:
        """Count a failure as excused if there is an outage now; return whether there is one."""
        if self._is_on:
            self.count("outage/excused")
        return self._is_on

    def _query_name_servers(self) -> None:
        """Query the name servers for a host that they found before; if none, for one that failed.

        A different host is used each time, as one of them may really be gone.
        """
        if self._is_checking:
            return

        self._is_checking = True
        self._check_at = self.clock() + self.probe_secs
        names = self._lookups.answered or self._lookups.hosts
        host = next(reversed(names))
        names.move_to_end(host, last=False)  # so that the next query is for another one

        def handle_answer(works: bool) -> None:
            self._is_checking = False
            if works:
                self.lookup_worked(host)
            elif self.is_untried or self._lookups.is_long:
                self._begin(self._lookups)

        self.check(host, handle_answer)

    def _begin(self, streak: _Streak) -> None:
        """Begin an outage because of *streak*, unless it has begun or the event loop was late."""
        now = self.clock()
        is_late = now < self._late_until and not self.is_untried
        if streak.began < math.inf or is_late:
            return

        streak.began = now
        self._first_outage_at = min(self._first_outage_at, now)
        self._probe_at = now + self.probe_secs
        self._check_at = self._probe_at

        outcomes = ", ".join(f"{name} {count}" for name, count in streak.outcomes.most_common(3))
        count = len(streak.hosts)
        sentence = (
            f"{count} host{'s in a row' * (count > 1)} failed ({outcomes}): the {streak.service} "
            f"seems to be down. It is tried every {self.probe_secs:g} s; "
            "the crawl will continue automatically."
        )
        if streak is self._lookups and not streak.answered:
            sentence += " No host name was ever found: check the network and DNS_SERVERS."
        self.count("outage/count")
        logger.warning("The crawl pauses: %s", sentence)

        def may_probe() -> bool:
            # Name servers are probed with a name that they found before. If there is none, the host
            # that failed may be to blame, so others are tried.
            needs_host = streak is self._contacts or self.is_untried
            return needs_host and self.clock() >= self._probe_at

        self.pauses.hold(streak.pause, sentence, except_if=may_probe)

    def _end(self, streak: _Streak) -> None:
        """End *streak*, and the outage that it has led to, if any."""
        if streak.began < math.inf:
            secs = self.clock() - streak.began
            logger.info("The crawl continues: the %s is back after %.0f s", streak.service, secs)
            self.pauses.lift(streak.pause)
            self._first_outage_at = math.inf
            if streak is self._lookups:
                self.forget()
        streak.end()
