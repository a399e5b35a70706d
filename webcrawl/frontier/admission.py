"""Admission: the gates that a new URL passes, and the passes over what they have parked.

A gate is a rule by which a URL waits now and may be fetched later: its domain is beyond a budget,
its pattern looks like a trap. What a gate holds is parked in the frontier under the gate's name
(frontier/parked.py) and looked at again in passes; nothing is dropped. Gates are asked

(a) when URLs come from the eliminator: ``push``, as a batch that keeps its order;
(b) when a URL is about to be fetched: ``stops``, as budgets fill up while URLs wait;
(c) in a pass: ``work``, slice by slice.

A pass is made over everything after a restart, as settings may have changed; over what one gate
holds when it has news, which may depend on how soon there is something to fetch; and over that of a
gate that relents, once nothing else is left to fetch.
The invariant: a crawl does not end while a gate may relent, or will have news soon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.frontier import Supply, decode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from webcrawl.frontier import Entry, Frontier

# Entries of a pass that are looked at between two looks at the clock.
_PASS_ENTRIES = 64


class Gate:
    """A rule by which URLs wait. A subclass has at least ``name`` and ``holds``.

    Called in the reactor's thread for each URL of the crawl: a microsecond or two, no disk.
    """

    name: str
    """What URLs wait for because of it: a word in lower case, in stats (``frontier/parked/<name>``)
    and as the name of a directory."""

    spares_visits = True
    """Whether URLs that were finished before, and are visited again, pass it unseen."""

    may_outlive_crawl = True
    """Whether a crawl may end while it holds something. False: it will have news of it soon."""

    def holds(self, entry: Entry) -> bool:
        """Whether *entry*, on its way to the frontier, must wait."""
        raise NotImplementedError

    def stops(self, entry: Entry) -> bool:
        """Whether *entry*, about to be fetched, must wait after all."""
        return self.holds(entry)

    def let_in(self, entry: Entry) -> None:
        """No gate holds *entry*: it goes to the frontier."""

    def let_out(self, entry: Entry) -> None:
        """A gate has stopped *entry*, which had been let in: it does not wait in the frontier any
        more."""

    def needs_pass(self, supply: Supply) -> bool:  # noqa: ARG002  # for those who go by it
        """Whether what it holds should be looked at again now. Asked all the time; True once.

        *supply* is how soon there is something else to fetch."""
        return False

    @property
    def can_release_more(self) -> bool:
        """Whether, when nothing else is left to fetch, it would let in more of what it holds.

        Not for ever: a crawl ends only when all gates say no.
        """
        return False

    def release_more(self) -> None:
        """Nothing else is left to fetch. What it holds is looked at again after this."""

    def stats(self) -> dict[str, int]:
        """Under their names in the crawl's statistics."""
        return {}


class Admission:
    """The gates in their order: the first one that holds a URL is what the URL waits for."""

    def __init__(
        self,
        *,
        frontier: Frontier,
        gates: Sequence[Gate],
        lets_pass: Callable[[str, str], bool] = lambda _gate, _url: False,
    ) -> None:
        """*lets_pass* says of the name of a gate and a URL whether a command lets it pass."""
        #: Gets visits that are due, and returns those that are to be made.
        self.take_over: Callable[[list[bytes]], list[bytes]] = lambda batch: batch
        self._frontier = frontier
        self._gates = gates
        self._lets_pass = lets_pass
        self._gates_of_visits = [gate for gate in gates if not gate.spares_visits]
        # Those that take note of what is let in.
        self._counting = [gate for gate in gates if type(gate).let_in is not Gate.let_in]
        self._counting_visits = [gate for gate in self._counting if not gate.spares_visits]

    def open(self) -> None:
        """The frontier is open: whatever waits there from an earlier process is looked at again."""
        self._frontier.parked.begin_pass(self._frontier.parked.counts)

    def push(self, batch: Sequence[bytes]) -> None:
        """New URLs as encoded entries: to the frontier with them, or parked. As durable as
        ``Frontier.push`` is; OSError loses none of those that were taken over."""
        if not self._gates:
            self._frontier.push(batch)
            return
        free, held = self._sort(batch)
        for reason, entries in held.items():
            self._frontier.parked.push(reason, entries)
        self._frontier.push(free)

    def _sort(self, batch: Sequence[bytes]) -> tuple[list[bytes], dict[str, list[bytes]]]:
        """Those of *batch* that nothing holds, and the others by what holds them."""
        free: list[bytes] = []
        held: dict[str, list[bytes]] = {}
        for data in batch:
            entry = decode(data)
            gates = self._gates_of_visits if entry.history else self._gates
            for gate in gates:
                if gate.holds(entry) and not self._lets_pass(gate.name, entry.url):
                    held.setdefault(gate.name, []).append(data)
                    break
            else:
                for gate in self._counting_visits if entry.history else self._counting:
                    gate.let_in(entry)
                free.append(data)
        return free, held

    def stops(self, entry: Entry) -> str:
        """The reason for which *entry*, about to be fetched, must wait; "" without one."""
        gates = self._gates_of_visits if entry.history else self._gates
        for gate in gates:
            if gate.stops(entry) and not self._lets_pass(gate.name, entry.url):
                for other in gates:
                    other.let_out(entry)
                return gate.name
        return ""

    @property
    def may_admit(self) -> bool:
        """Whether something that is parked may yet be fetched in this crawl. O(gates)."""
        counts = self._frontier.parked.counts
        waits = any(counts.get(gate.name) for gate in self._gates if not gate.may_outlive_crawl)
        return waits or bool(self._frontier.parked.due) or bool(self._relenting())

    @property
    def postponed(self) -> dict[str, int]:
        """URLs that are parked, and will be let in once nothing else is left to fetch, by reason.
        O(gates)."""
        counts = self._frontier.parked.counts
        return {gate.name: counts[gate.name] for gate in self._relenting()}

    def _relenting(self) -> list[Gate]:
        counts = self._frontier.parked.counts
        return [gate for gate in self._gates if counts.get(gate.name) and gate.can_release_more]

    def work(self, supply: Supply) -> bool:
        """Go on with the pass by a few entries; whether there is more to do.

        *supply* is how soon there is something to fetch: gates relent when there is nothing but
        what is parked.
        """
        parked = self._frontier.parked
        if parked.due:
            supply = Supply.NOW  # as far as one can tell
        parked.begin_pass([gate.name for gate in self._gates if gate.needs_pass(supply)])
        if supply is Supply.NONE and not parked.due:
            relenting = self._relenting()
            for gate in relenting:
                gate.release_more()
            parked.begin_pass([gate.name for gate in relenting])
        moved = parked.reconsider(_PASS_ENTRIES, self._sort)
        return moved + self._frontier.due.work(_PASS_ENTRIES, self._sort_due) > 0

    def _sort_due(self, batch: list[bytes]) -> tuple[list[bytes], dict[str, list[bytes]]]:
        """As ``_sort``; what is held waits with all that is parked."""
        free, held = self._sort(self.take_over(batch))
        for reason, entries in held.items():
            self._frontier.parked.push(reason, entries)
        return free, {}

    def stats(self) -> dict[str, int]:
        """Those of all gates."""
        return {name: value for gate in self._gates for name, value in gate.stats().items()}
