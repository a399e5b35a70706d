"""Outage detection: a failure of the network or the name servers here, not of sites.

When everything fails, no failure says anything about a site: the crawl pauses, no failure counts,
and a probe is made now and then until there is an answer. `HostRelease` reports the end of every
contact and look-up.

The network is gone when enough different hosts that had answered before fail in a row. Hosts that
never answered do not count, as they may be dead, and the last hosts of a crawl often are. Nor do
those that accept a new connection and send nothing, or drop it: a network is there, and this ends
an outage, too. An answer seconds ago shows the same. As long as no host has answered at all, every
host counts: the crawl was begun without a network. While it is gone one host after another is
contacted in its turn, seconds apart, and for seconds after it hosts that never answered still do
not count.

The name servers are gone when they fail to find enough hosts in a row, and then fail to find a host
that they found before either, for which they are queried separately. Hosts with known addresses
would go on answering. Until the name servers have found one name, in this run, they may be some
that know no names: three hosts are enough then, and no name that they do not find is given up.

The last names that were found are kept with the checkpoints, and whether any host has answered. If
none has in any run, the crawl ends after a while: such a pause needs a person, or another start.
"""

from __future__ import annotations

import logging
import math
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from webcrawl.configuration.values import number, positive, whole
from webcrawl.net.walls import WALLS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy.settings import BaseSettings

    from webcrawl.frontier import Entry
    from webcrawl.hosts.politeness.pauses import Pauses

logger = logging.getLogger(__name__)

#: Outcomes of a contact in which nothing came from the host.
SILENT: Final = frozenset(
    {
        "connect_refused",
        "connect_failed",
        "connect_timeout",
        "first_byte_timeout",
        "timeout",
        "connection_lost",
    }
)
# Others that show that something did, besides answers with a status.
_ANSWERED: Final = frozenset(
    {
        "tls_failed",
        "too_slow",
        "incomplete",
        "bad_answer",
        "header_too_large",
        "unwanted_type",
        "too_large",
        *WALLS,
    }
)
_NO_ADDRESS: Final = "dns_failed"
_NOT_FOUND: Final = "dns_not_found"
# Outcomes with which URLs are given up when their hosts do not answer, or are not found.
_OURS: Final = SILENT | {_NO_ADDRESS, _NOT_FOUND, "host_failing", "robots_unreachable"}
# With fewer hosts than this failing in a row, it is the hosts.
_FEWEST: Final = 3
# URLs given up in the run-up to an outage, and contacts that failed in it, that are remembered.
_MOST_LOST: Final = 10_000
# For how long before an outage and after its end failures may be its own, whatever is answered
# meanwhile: networks go, and come back, one part after another.
_MARGIN_SECS: Final = 10.0
_NETWORK: Final = "network"
_NAME_SERVERS: Final = "name service"
# The names of the pauses.
_PAUSES: Final = {_NETWORK: "network", _NAME_SERVERS: "name_servers"}


class _Streak:
    """Hosts that failed in a row, and their outcomes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.hosts: OrderedDict[str, None] = OrderedDict()
        self.outcomes: Counter[str] = Counter()
        # Hosts that answered last, as many as an outage takes: fewer in a small crawl.
        self.answered: OrderedDict[str, None] = OrderedDict()

    def end(self, host: str) -> None:
        """End the streak: *host* has answered."""
        self.answered[host] = None
        self.answered.move_to_end(host)
        if len(self.answered) > self._most:
            self.answered.popitem(last=False)
        if self.hosts:
            self.hosts.clear()
            self.outcomes.clear()

    def add(self, host: str, outcome: str) -> bool:
        """Add *host*, which has failed. True if it is new among several: that may be an outage,
        once."""
        is_new = host not in self.hosts
        self.hosts[host] = None
        self.outcomes[outcome] += 1
        return is_new and len(self.hosts) >= _FEWEST

    @property
    def is_long(self) -> bool:
        """Whether these are as many hosts as make an outage."""
        return len(self.hosts) >= max(_FEWEST, min(self._most, len(self.answered) or self._most))


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageActions:
    """The actions of the detector on the rest of the crawl.

    *count* adds one to a stat; *requeue* puts an entry back into its queue; *forgive* takes a
    politeness key and a URL, and clears the failures of that URL's host and origin; *check* queries
    the name servers for a host, cached or not, and calls back with whether they find it; *forget*
    forgets which names were not found; *end* ends the crawl.
    """

    count: Callable[[str], None]
    requeue: Callable[[Entry], None]
    forgive: Callable[[str, str], None]
    check: Callable[[str, Callable[[bool], None]], None]
    forget: Callable[[], None]
    end: Callable[[], None]


class Outage:
    """Detector of outages: *hosts* failing in a row make one; 0: there are none.

    While it lasts a probe is made every *probe_secs*. The crawl ends *end_secs* after the first one
    if no host has ever answered; 0: never.
    """

    def __init__(
        self,
        *,
        hosts: int,
        probe_secs: float,
        end_secs: float,
        pauses: Pauses,
        actions: OutageActions,
        clock: Callable[[], float],
    ) -> None:
        self._is_off = not hosts
        self._probe_secs = probe_secs
        self._end_secs = end_secs
        self._pauses = pauses
        self._actions = actions
        self._clock = clock
        self._contacts = _Streak(hosts)
        self._lookups = _Streak(hosts)
        self._answered_at = self._back_at = -math.inf
        #: Whether a host has answered, in any run of the job.
        self.has_answered = False
        self._first_at = math.inf
        # Whether the name servers are known, in this run, to know names.
        self._is_proven = False
        # With the times: URLs that were given up, and contacts whose failure counted.
        self._lost: deque[tuple[float, Entry]] = deque(maxlen=_MOST_LOST)
        self._failed: deque[tuple[float, str, str]] = deque(maxlen=_MOST_LOST)
        self._began: dict[str, float] = {}
        self._probe_at = 0.0
        self._is_checking = False
        self._check_at = 0.0

    @classmethod
    def from_settings(cls, settings: BaseSettings, **parts: Any) -> Self:
        """By OUTAGE_HOSTS, OUTAGE_PROBE_SECS and OUTAGE_END_SECS; FatalError for bad values.
        *parts* are the other arguments."""
        return cls(
            hosts=whole(settings, "OUTAGE_HOSTS", at_least=0),
            probe_secs=positive(settings, "OUTAGE_PROBE_SECS"),
            end_secs=number(settings, "OUTAGE_END_SECS", at_least=0),
            **parts,
        )

    def open(self, known_names: Iterable[str], *, has_answered: bool) -> None:
        """Take up the names that earlier runs have found, and whether a host has answered them."""
        self.has_answered = has_answered
        self._lookups.answered.update(dict.fromkeys(known_names))

    @property
    def known_names(self) -> list[str]:
        """The last names that were found, for ``open``."""
        return [*self._lookups.answered]

    def doubts_names(self, *, others: int) -> bool:
        """Whether a name that was not found may exist all the same: as long as none has been found,
        unless the crawl has only a few. *others* are being looked up."""
        if self._is_off:
            return False
        others_may_be_found = not self._is_proven and others > 0
        return others_may_be_found or self._are_unknown or _NAME_SERVERS in self._began

    def contact_ended(
        self,
        host: str,
        outcome: str,
        *,
        url: str,
        has_answered: bool,
        mute_secs: float | None = None,
    ) -> bool:
        """Take in that a contact of *host*, which *has_answered* before or not, for *url* ended in
        *outcome*. *mute_secs* is for how long it has sent nothing over a new connection, if that is
        how. True if that says nothing about the host: the URL is to be tried again as if it had not
        been."""
        if self._is_off:
            return False
        if outcome not in SILENT:
            if outcome.startswith("http_") or outcome in _ANSWERED:
                self._answered_at = self._clock()
                self.has_answered = True
                self._answered(self._contacts, _NETWORK, host)
                if not self._lookups.answered:
                    # The network is there, and hosts that have no names.
                    self._prove()
            return False
        is_excused = False
        accepted_secs = 0.0 if outcome == "connection_lost" else mute_secs
        if accepted_secs is not None:
            if self._clock() - accepted_secs >= self._began.get(_NETWORK, math.inf):
                self._answered(self._contacts, _NETWORK, host)
        elif has_answered or not self._contacts.answered:
            is_excused = self._contacts.add(host, outcome)
            if self._contacts.is_long:
                is_excused = True
                if self._clock() >= self._answered_at + self._probe_secs:
                    self._begin(_NETWORK, self._contacts, except_if=self._may_probe)
        else:
            # An origin that never answered may have only this try.
            is_excused = self._clock() < self._back_at + _MARGIN_SECS
        is_excused = self._excused(is_excused)
        if not is_excused:
            self._failed.append((self._clock(), host, url))
        return is_excused

    def lookup_failed(self, host: str) -> bool:
        """Take in that the name servers failed for *host*. True as for ``contact_ended``."""
        return not self._is_off and self._excused(self._add_lookup(host, _NO_ADDRESS))

    def name_not_found(self, host: str) -> None:
        """Take in that the name servers found no *host*. It says nothing as long as they have found
        no name."""
        if not self._is_off and (self._lookups.answered or not self._is_proven):
            self._add_lookup(host, _NOT_FOUND)

    def _add_lookup(self, host: str, outcome: str) -> bool:
        is_first = self._lookups.add(host, outcome)
        if self._seem_gone and _NAME_SERVERS not in self._began:
            self._ask()
        return is_first

    @property
    def _seem_gone(self) -> bool:
        """Whether the name servers have failed so often that they are probed."""
        return self._lookups.is_long or self._are_unknown

    @property
    def _are_unknown(self) -> bool:
        """Whether the name servers have found none of some hosts yet."""
        return not self._is_proven and len(self._lookups.hosts) >= _FEWEST

    def lookup_worked(self, host: str) -> None:
        """Take in that the name servers found a host."""
        if not self._is_off:
            self._answered(self._lookups, _NAME_SERVERS, host)
            self._prove()

    def _prove(self) -> None:
        """Trust the name servers from now on: names that they did not find so far are looked up
        again."""
        if self._is_proven:
            return
        self._is_proven = True
        self._actions.forget()
        if _NAME_SERVERS in self._began:
            self._end(_NAME_SERVERS)

    def given_up(self, entry: Entry, outcome: str) -> None:
        """Take in that *entry* ended with *outcome*: if that is an outage's, or turns out to be, it
        is requeued."""
        if outcome not in _OURS or entry.extra:
            return
        if self._began and not outcome.startswith("dns_"):  # those end again without a probe
            self._requeue(entry)
        elif self._contacts.hosts or self._lookups.hosts:
            self._lost.append((self._clock(), entry))

    def probed(self) -> None:
        """Note that a host is being contacted or looked up."""
        if self._began:
            self._probe_at = self._clock() + self._probe_secs
            self._actions.count("outage/probes")

    def work(self) -> None:
        """Do a slice of background work: probe name servers that are gone, end the crawl if nothing
        has ever answered."""
        if (
            self._end_secs
            and not self.has_answered
            and self._clock() >= self._first_at + self._end_secs
        ):
            self._actions.end()
        if _NAME_SERVERS in self._began and self._clock() >= self._check_at:
            self._ask()

    def _excused(self, is_first: bool) -> bool:
        excused = is_first or bool(self._began)
        if excused:
            self._actions.count("outage/excused")
        return excused

    def _answered(self, streak: _Streak, name: str, host: str) -> None:
        streak.end(host)
        if name in self._began:
            self._end(name)
        if not (self._contacts.hosts or self._lookups.hosts):
            # What is read of an answer may have been sent before the network went.
            for run_up in (self._lost, self._failed):
                while run_up and run_up[0][0] <= self._clock() - _MARGIN_SECS:
                    run_up.popleft()

    def _ask(self) -> None:
        """Query the name servers for a host that they found before, or else for one that they did
        not; each time for another, as that one may really be gone."""
        if self._is_checking:
            return
        self._is_checking = True
        self._check_at = self._clock() + self._probe_secs
        names = self._lookups.answered or self._lookups.hosts
        host = next(reversed(names))
        names.move_to_end(host, last=False)

        def answered(is_found: bool) -> None:
            self._is_checking = False
            if is_found:
                self.lookup_worked(host)
            elif self._seem_gone:
                self._begin(_NAME_SERVERS, self._lookups)

        self._actions.check(host, answered)

    def _may_probe(self) -> bool:
        return self._clock() >= self._probe_at

    def _begin(
        self, name: str, streak: _Streak, *, except_if: Callable[[], bool] = lambda: False
    ) -> None:
        if name in self._began:
            return
        self._began[name] = self._clock()
        self._first_at = min(self._first_at, self._began[name])
        self._probe_at = self._check_at = self._clock() + self._probe_secs
        outcomes = ", ".join(f"{name} {count}" for name, count in streak.outcomes.most_common(3))
        sentence = (
            f"{len(streak.hosts)} hosts in a row failed ({outcomes}), as if the {name} here were "
            f"gone: that is tried every {self._probe_secs:g} s, and the crawl goes on by itself."
        )
        if name == _NAME_SERVERS and not streak.answered:
            sentence += " No name has ever been found: look at the network, and at DNS_SERVERS."
        self._actions.count("outage/count")
        self._pauses.hold(_PAUSES[name], sentence, except_if=except_if)
        logger.warning("The crawl pauses: %s", sentence)
        while self._failed:
            self._actions.forgive(*self._failed.popleft()[1:])
        while self._lost:
            self._requeue(self._lost.popleft()[1])

    def _requeue(self, entry: Entry) -> None:
        self._actions.forgive(entry.host, entry.url)
        self._actions.requeue(msgspec.structs.replace(entry, attempts=0))

    def _end(self, name: str) -> None:
        secs = self._clock() - self._began.pop(name)
        logger.info("The crawl goes on: the %s is back after %.0f s", name, secs)
        if name == _NAME_SERVERS:
            self._actions.forget()
        else:
            self._back_at = self._clock()
        self._pauses.lift(_PAUSES[name])
