"""Admission: the gates that each new URL must pass, and the passes over parked URLs.

A gate is a rule that makes a URL wait, for example because its domain is over a budget, or because
its pattern looks like a trap. The URL may still be fetched later. It is parked in the frontier
under the gate's name (frontier/parked.py) and checked again in passes; nothing is dropped.

A gate judges the links of a page to one origin as a group, and may let in some of them and hold
the others. The result is the same as if it judged each URL in the order of the batch. Gates are
consulted

(a) when URLs come from the eliminator: ``push``, for a batch that keeps its order; (b) when a URL
is about to be fetched: ``stop``, as budgets fill up while URLs wait; (c) in a pass: ``work``,
slice by slice.

There are three kinds of pass. After a restart all parked URLs are checked, as settings may have
changed. When the state of a gate has changed, its own URLs are checked; this may depend on how soon
there is something to fetch. Once nothing else is left to fetch, the URLs of gates that can release
more are checked.

The invariant: a crawl does not end while a gate can release more, or will decide soon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from webcrawl.frontier import SUBRESOURCE, Entry, Frontier, Supply, decode
from webcrawl.frontier.groups import Group, groups_of

# Number of entries that a pass checks in one call.
_PASS_ENTRIES = 64


class Gate:
    """A rule that makes URLs wait. Subclasses have a name and define ``must_wait`` or ``room``.

    It is called in the reactor's thread for each group of URLs, so it may take a few microseconds
    and must not access the disk.
    """

    #: Reason for which URLs are parked: a lower-case word, used in stats
    #: (``frontier/parked/<name>``) and as a directory name.
    name: str

    #: Whether parked URLs that are being visited again, and parked subresources, skip the gate.
    #:
    #: Before they are fetched, subresources pass all gates.
    spares_visits = True

    #: Whether it may hold a URL that it has let in, when the URL is about to be fetched.
    stops_admitted = True

    #: Whether the crawl may end while this gate holds URLs. False if it will decide soon.
    may_outlive_crawl = True

    #: Whether it releases more only once no other gate can.
    is_last_resort = False

    #: Whether it holds no URL at present, so that it need not be asked.
    is_idle = False

    def tells_apart(self, entry: Entry) -> bool:  # noqa: ARG002  # for subclasses
        """Return whether it matters to this gate which URL of the group of *entry* it is.

        Then each URL is judged as if it was a group of its own.
        """
        return False

    def must_wait(self, entry: Entry) -> bool:
        """Return whether all URLs of the group of *entry* must wait. If not, all may be let in."""
        raise NotImplementedError

    def room(self, entry: Entry) -> float:
        """Return how many URLs of the group of *entry* may be let in now; below 1, they must wait.

        Each URL that is let in takes 1 of it.
        """
        return 0 if self.must_wait(entry) else math.inf

    def note_held(self, entry: Entry, count: int) -> None:
        """Record that *count* URLs of the group of *entry* wait because of this gate."""

    def hold(self, entry: Entry) -> bool:
        """Hold the single URL *entry* if it must wait; return whether it must."""
        is_held = self.room(entry) < 1
        if is_held:
            self.note_held(entry, 1)
        return is_held

    def stop(self, entry: Entry) -> bool:
        """Hold *entry*, about to be fetched, if it must wait after all; return whether it must.

        Called only if the gate ``stops_admitted``.
        """
        return self.hold(entry)

    def let_in(self, entry: Entry, count: int = 1) -> None:
        """Record that no gate holds *count* URLs of the group of *entry*, sent to the frontier."""

    def let_out(self, entry: Entry) -> None:
        """Record that a gate stopped *entry*, which had been admitted earlier."""

    def advance(self, supply: Supply) -> bool:  # noqa: ARG002  # for subclasses
        """Do what is due by now; return whether this gate's parked URLs should be checked again.

        It is called often, and returns True once for each pass. *supply* tells how soon there is
        something else to fetch.
        """
        return False

    @property
    def can_release_more(self) -> bool:
        """Return whether this gate would admit more of its URLs once nothing else is left to fetch.

        It must become False eventually, as a crawl ends only when it is False for all gates.
        """
        return False

    def release_more(self) -> None:
        """Relax the rule because nothing else is left to fetch; another pass is then made."""

    def stats(self) -> dict[str, int]:
        """Return the gate's statistics, by their names in the crawl's stats."""
        return {}


class Admission:
    """All gates, in order. A URL is parked under the name of the first gate that holds it."""

    def __init__(
        self,
        *,
        frontier: Frontier,
        gates: Sequence[Gate],
        may_pass: Callable[[str, Entry], bool] = lambda _gate, _entry: False,
    ) -> None:
        """Create the admission of URLs to *frontier* through *gates*.

        *may_pass* is called with the name of a gate and a URL, and returns whether a command of
        the user exempts the URL from that gate.
        """
        #: Called with the entries of visits that are due; returns those that should be made.
        self.select_visits: Callable[[list[bytes]], list[bytes]] = lambda batch: batch
        self._frontier = frontier
        self._gates = gates
        self._may_pass = may_pass
        self._gates_of_visits = [gate for gate in gates if not gate.spares_visits]
        # Those that may tell the URLs of a group apart.
        self._distinguishing_gates = [
            gate for gate in gates if type(gate).tells_apart is not Gate.tells_apart
        ]

    def open(self) -> None:
        """Start a pass over all URLs that an earlier process parked. The frontier must be open."""
        self._frontier.parked.begin_pass(self._frontier.parked.counts)

    def push(self, batch: Sequence[bytes]) -> None:
        """Send new URLs, given as encoded entries, to the frontier, or park them.

        They are as durable as after ``Frontier.push``. If OSError is raised, none that was accepted
        is lost.
        """
        if not self._gates:
            self._frontier.push(batch)
            return

        admitted, held = self._classify(batch)
        for reason, entries in held.items():
            self._frontier.parked.push(reason, entries)
        self._frontier.push(admitted)

    def _classify(self, batch: Sequence[bytes]) -> tuple[list[bytes], dict[str, list[bytes]]]:
        """Split *batch* into admitted entries and, by gate name, those that a gate holds."""
        # The name of the gate that holds each entry; "" for those that are admitted.
        reasons = [""] * len(batch)
        gates = [gate for gate in self._gates if not gate.is_idle]
        distinguishing_gates = [gate for gate in self._distinguishing_gates if not gate.is_idle]
        for group in groups_of(batch):
            # Visits and subresources skip the gates that spare them.
            passes_all = not group.first.history and group.first.kind != SUBRESOURCE
            judges = gates if passes_all else self._gates_of_visits
            if any(gate.tells_apart(group.first) for gate in distinguishing_gates):
                for index in group.indexes:
                    self._judge(Group(decode(batch[index]), [index]), judges, reasons)
            else:
                self._judge(group, judges, reasons)

        admitted: list[bytes] = []
        held: dict[str, list[bytes]] = {}
        for data, reason in zip(batch, reasons, strict=True):
            (held.setdefault(reason, []) if reason else admitted).append(data)
        return admitted, held

    def _judge(self, group: Group, gates: Sequence[Gate], reasons: list[str]) -> None:
        """Ask *gates* about *group*; set *reasons*, by index, to the gates that hold its URLs."""
        entry = group.first
        left = len(group.indexes)
        while left:
            # The gate with the least room decides how many are let in before all are asked again.
            count = left
            for gate in gates:
                room = gate.room(entry)
                if room >= count:
                    continue
                if room >= 1:
                    count = int(room)
                elif not self._may_pass(gate.name, entry):
                    gate.note_held(entry, left)
                    for index in group.indexes[-left:]:
                        reasons[index] = gate.name
                    return
            for gate in gates:
                gate.let_in(entry, count)
            left -= count

    def stop(self, entry: Entry) -> str:
        """Stop *entry*, about to be fetched, if a gate does; return its name, "" if none does."""
        gates = self._gates_of_visits if entry.history else self._gates
        for gate in gates:
            if gate.stops_admitted and gate.stop(entry) and not self._may_pass(gate.name, entry):
                # A subresource came directly from the renderer, so no gate has admitted it.
                if entry.kind != SUBRESOURCE:
                    self.let_out(entry)
                return gate.name
        return ""

    def let_out(self, entry: Entry) -> None:
        """Tell all gates that *entry*, which was admitted, is parked."""
        for gate in self._gates_of_visits if entry.history else self._gates:
            gate.let_out(entry)

    @property
    def may_admit(self) -> bool:
        """Return whether some parked URLs may still be fetched in this crawl. O(gates)."""
        counts = self._frontier.parked.counts
        waits = any(counts.get(gate.name) for gate in self._gates if not gate.may_outlive_crawl)
        return waits or bool(self._frontier.parked.due) or bool(self._gates_to_relax())

    @property
    def postponed(self) -> dict[str, int]:
        """Parked URLs that will be admitted once nothing else is left, by reason. O(gates)."""
        counts = self._frontier.parked.counts
        return {gate.name: counts[gate.name] for gate in self._gates_to_relax()}

    def _gates_to_relax(self) -> list[Gate]:
        """Return the gates that hold URLs and would admit more of them now."""
        counts = self._frontier.parked.counts
        return [gate for gate in self._gates if counts.get(gate.name) and gate.can_release_more]

    def work(self, supply: Supply) -> bool:
        """Continue the passes over parked URLs by a few entries; return whether any was checked.

        *supply* tells how soon there is something to fetch. When only parked URLs are left, gates
        that can release more of them do so. Visits that are due are admitted, too.
        """
        parked = self._frontier.parked
        # A pass that is under way may admit URLs: gates should not act as if nothing was left.
        if parked.due:
            supply = Supply.NOW
        parked.begin_pass([gate.name for gate in self._gates if gate.advance(supply)])

        if supply is Supply.NONE and not parked.due:
            gates = self._gates_to_relax()
            gates = [gate for gate in gates if not gate.is_last_resort] or gates
            for gate in gates:
                gate.release_more()
            parked.begin_pass([gate.name for gate in gates])

        checked = parked.reconsider(_PASS_ENTRIES, self._classify)
        return checked + self._frontier.due.work(_PASS_ENTRIES, self._classify_due) > 0

    def _classify_due(self, batch: list[bytes]) -> tuple[list[bytes], dict[str, list[bytes]]]:
        """Split the due visits in *batch* like ``_classify``, but park those that are held."""
        admitted, held = self._classify(self.select_visits(batch))
        for reason, entries in held.items():
            self._frontier.parked.push(reason, entries)
        return admitted, {}

    def stats(self) -> dict[str, int]:
        """Return the statistics of all gates."""
        return {name: value for gate in self._gates for name, value in gate.stats().items()}
