"""The judge of the shard model: what has really happened, and what may happen next.

The invariant: it knows nothing from the crawl but what the crawl did to the outside (URLs handed
out, hosts contacted, documents processed), and from the disk only which checkpoint is live and
whether an interrupted ``finish`` got into the log.
"""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from shard_process import POLICY, RETRY_TIMES, Attempt

from webcrawl.frontier import done_log, key
from webcrawl.frontier.delay_policy import cut_off
from webcrawl.storage.record_log import read_records

if TYPE_CHECKING:
    from pathlib import Path

    from shard_process import Flight
    from shard_world import World

    from webcrawl.frontier import Entry, Frontier

# Rounding between the clocks.
EPSILON = 1e-5


@dataclass(slots=True)
class Truth:
    """What must be so after any restart.

    *finished*: how often ``finish`` returned for an attempt; *done*: URLs of which nothing more
    is to be fetched; *committed*: by content, the URLs whose documents were finished;
    *rest_until*: time before which a host must not be contacted; *contacts*: the times at which
    those under way began.
    """

    finished: Counter[Attempt] = field(default_factory=Counter)
    done: set[str] = field(default_factory=set)
    committed: dict[int, set[str]] = field(default_factory=dict)
    rest_until: dict[str, float] = field(default_factory=dict)
    contacts: dict[str, float] = field(default_factory=dict)

    def rest(self, host: str, until: float) -> None:
        """*host* must not be contacted before *until*, or later if that was said before."""
        self.rest_until[host] = max(self.rest_until.get(host, 0.0), until)


class _Finishing(NamedTuple):
    """A finish that is being written to the done log at *path*, from byte *at* on."""

    entry: Entry
    content: int | None
    path: Path
    at: int

    def is_logged(self) -> bool:
        name = key(self.entry)
        return any(
            isinstance(record, done_log.Finish) and record.key == name
            for offset, payload in read_records(self.path)
            if offset > self.at
            for record in done_log._decode(payload)
        )


class Judge:
    """All times are true time, which every process and every boot of the machine shares."""

    def __init__(self, world: World) -> None:
        self.truth = Truth()
        self._world = world
        # What each checkpoint promised, by its number.
        self._promised = [Truth()]
        # How often an attempt was put into the frontier: a crash between two lines of a retry
        # leaves both attempts, and a power failure may bring back one that was tried again.
        self._copies: Counter[Attempt] = Counter()
        self._in_process: dict[int, Flight] = {}
        self._finishing: _Finishing | None = None

    # --- URLs

    def handed_out(self, entry: Entry, *, leased: int, now: float) -> None:
        """The frontier gave out *entry*, of which *leased* copies are under way already."""
        attempt = Attempt.of(entry)
        if not entry.attempts:
            self._copies[attempt] = max(self._copies[attempt], 1)
        given = self.truth.finished[attempt] + leased
        assert given < self._copies[attempt], f"{attempt} is handed out once too often"
        assert entry.host not in self.truth.contacts, f"{entry.host} is contacted already"
        early = self.truth.rest_until.get(entry.host, 0.0) - now
        assert early < EPSILON, f"{entry.host} is handed out {early} s early"

    def will_be_tried_again(self, entry: Entry) -> None:
        """Another attempt is about to be put into the frontier."""
        self._copies[Attempt(entry.url, entry.attempts + 1)] += 1

    def begin_finish(self, entry: Entry, content: int | None, frontier: Frontier) -> None:
        """``finish`` is about to be called, and may not return."""
        log = frontier._log._log
        assert log is not None
        self._finishing = _Finishing(entry, content, log.path, log.size)

    def end_finish(self, *, happened: bool) -> None:
        """``finish`` has returned, or was not called after all."""
        finishing, self._finishing = self._finishing, None
        if happened and finishing is not None:
            self._finish(finishing)

    def settle_finish(self) -> None:
        """A finish that did not return is one all the same if it is in the log."""
        self.end_finish(happened=self._finishing is not None and self._finishing.is_logged())

    def _finish(self, finishing: _Finishing) -> None:
        entry, content = finishing.entry, finishing.content
        self.truth.finished[Attempt.of(entry)] += 1
        document = self._world.documents[entry.url]
        fails = RETRY_TIMES if document.status == 503 else document.fails
        if not self._world.is_allowed(entry.url) or entry.attempts >= min(fails, RETRY_TIMES):
            self.truth.done.add(entry.url)
        if content is not None:
            self._in_process.pop(content, None)
            self.truth.committed.setdefault(content, set()).add(entry.url)

    # --- hosts

    def contacted(self, host: str, *, now: float) -> None:
        self.truth.contacts[host] = now

    def left(self, host: str, *, until: float) -> None:
        """The contact is over, and the next must not begin before *until*."""
        del self.truth.contacts[host]
        self.truth.rest(host, until)

    # --- documents

    @property
    def in_process(self) -> set[int]:
        """The contents whose processing has begun and not ended."""
        return set(self._in_process)

    def tested(self, flight: Flight, content: int, *, is_seen: bool) -> None:
        """The content-seen test gave an answer."""
        url = flight.entry.url
        before, now = self.truth.committed.get(content), self._in_process.get(content)
        if is_seen:
            # An attempt that stands in the frontier twice may find itself finished, or under way.
            assert before or now is not None, f"{url} is taken for a duplicate of itself"
        else:
            assert not before, f"{url} is not taken for a duplicate of {before}"
            assert now is None, f"{url} is not taken for a duplicate of one in process"
            self._in_process[content] = flight

    def discarded(self, flight: Flight) -> None:
        """The document of *flight* is not being processed any more."""
        for content, other in [*self._in_process.items()]:
            if other is flight:
                del self._in_process[content]

    # --- checkpoints and restarts

    def promise(self) -> int:
        """The number of a checkpoint that is about to be prepared."""
        self._promised.append(copy.deepcopy(self.truth))
        return len(self._promised) - 1

    def remember(self, number: int) -> None:
        """The power failed: not more is certain than checkpoint *number* promised, 0 for none.

        What came after it may be known or not, the ends of contacts included; so of hosts that
        were being contacted then only the rest before that contact is certain.
        """
        self.truth = copy.deepcopy(self._promised[number])
        self.truth.contacts.clear()
        self._finishing = None

    def restarted(self, *, now: float) -> None:
        """Contacts that were cut off must rest as if they had lasted until now."""
        for host, at in self.truth.contacts.items():
            self.truth.rest(host, now + cut_off(POLICY, now - at))
        self.truth.contacts.clear()
        self._in_process.clear()
