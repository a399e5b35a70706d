"""Admission: the gates that each new URL must pass, and the passes over parked URLs.

A gate is a rule that makes a URL wait, for example because its domain is over a budget, or because
its pattern looks like a trap. The URL may still be fetched later. It is parked in the frontier
under the gate's name (frontier/parked.py) and checked again in passes; nothing is dropped. Gates
are consulted

(a) when URLs come from the eliminator: ``push``, for a batch that keeps its order; (b) when a URL
is about to be fetched: ``stops``, as budgets fill up while URLs wait; (c) in a pass: ``work``,
slice by slice.

There are three kinds of pass. After a restart all parked URLs are checked, as settings may have
changed. When the state of a gate has changed, its own URLs are checked; this may depend on how soon
there is something to fetch. Once nothing else is left to fetch, the URLs of gates that can release
more are checked.

The invariant: a crawl does not end while a gate can release more, or will decide soon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.frontier import Supply, decode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from webcrawl.frontier import Entry, Frontier

# Number of entries that a pass checks in one call.
_PASS_ENTRIES = 64


class Gate:
    """A rule that makes URLs wait. Subclasses define at least ``name`` and ``holds``.

    It is called in the reactor's thread for each URL of the crawl, so it may take a microsecond or
    two and must not access the disk.
    """

    name: str
    """Reason for which URLs are parked: a lower-case word, used in stats
    (``frontier/parked/<name>``) and as a directory name."""

    spares_visits = True
    """Whether the gate is skipped for URLs that are being visited again."""

    may_outlive_crawl = True
    """Whether the crawl may end while this gate holds URLs. False if it will decide soon."""

    def holds(self, entry: Entry) -> bool:
        """Return whether *entry*, on its way to the frontier, must wait."""
        raise NotImplementedError

    def stops(self, entry: Entry) -> bool:
        """Return whether *entry*, about to be fetched, must wait after all."""
        return self.holds(entry)

    def let_in(self, entry: Entry) -> None:
        """Record that no gate holds *entry*, so that it is sent to the frontier."""

    def let_out(self, entry: Entry) -> None:
        """Record that a gate stopped *entry*, which had been admitted earlier."""

    def needs_pass(self, supply: Supply) -> bool:  # noqa: ARG002  # for subclasses
        """Return whether this gate's parked URLs should be checked again now.

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
        lets_pass: Callable[[str, Entry], bool] = lambda _gate, _entry: False,
    ) -> None:
        """Create the admission of URLs to *frontier* through *gates*.

        *lets_pass* is called with the name of a gate and a URL, and returns whether a command of
        the user exempts the URL from that gate.
        """
        #: Called with the entries of visits that are due; returns those that should be made.
        self.select_visits: Callable[[list[bytes]], list[bytes]] = lambda batch: batch
        self._frontier = frontier
        self._gates = gates
        self._lets_pass = lets_pass
        self._gates_of_visits = [gate for gate in gates if not gate.spares_visits]
        # Gates that need to know which URLs are admitted.
        self._counting = [gate for gate in gates if type(gate).let_in is not Gate.let_in]
        self._counting_visits = [gate for gate in self._counting if not gate.spares_visits]

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
        admitted: list[bytes] = []
        held: dict[str, list[bytes]] = {}
        for data in batch:
            entry = decode(data)
            gates = self._gates_of_visits if entry.history else self._gates
            for gate in gates:
                if gate.holds(entry) and not self._lets_pass(gate.name, entry):
                    held.setdefault(gate.name, []).append(data)
                    break
            else:
                for gate in self._counting_visits if entry.history else self._counting:
                    gate.let_in(entry)
                admitted.append(data)
        return admitted, held

    def stops(self, entry: Entry) -> str:
        """Return the name of the gate that stops *entry*, about to be fetched; "" if none does."""
        gates = self._gates_of_visits if entry.history else self._gates
        for gate in gates:
            if gate.stops(entry) and not self._lets_pass(gate.name, entry):
                self.let_out(entry)
                return gate.name
        return ""

    def refusal(self, entry: Entry) -> str:
        """Return the name of the gate that stops *entry*, which was not admitted; "" if none."""
        for gate in self._gates:
            if gate.stops(entry) and not self._lets_pass(gate.name, entry):
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
        if parked.due:
            supply = Supply.NOW  # the pass may still admit something
        parked.begin_pass([gate.name for gate in self._gates if gate.needs_pass(supply)])

        if supply is Supply.NONE and not parked.due:
            gates = self._gates_to_relax()
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
