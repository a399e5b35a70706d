"""Rests of hosts without URLs and of shared clocks: found until they are over, whatever happens.

The model visits few hosts behind two addresses, most of them with one URL at a time, so that a
host has no queue between its visits and its rest is in memory, in the host records or in both.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from conftest import FakeClock
from frontier_rig import POLICY, Rig, entry
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from strategies import examples

from webcrawl.frontier.delay_policy import cut_off

if TYPE_CHECKING:
    from collections.abc import Callable

    from webcrawl.frontier import Lease

HOSTS = 6
# A rounding between two clocks, and how far behind a released host's own time may be.
SLACK = 1e-5


class RestsMachine(RuleBasedStateMachine):
    """*rest_until* and *under_way* are true times, by host and by "@address"."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.clock = FakeClock()
        self.serial = 0
        self.leases: dict[str, Lease] = {}
        self.under_way: dict[str, float] = {}
        self.rest_until: dict[str, float] = {}
        self.saved: tuple[dict[str, float], dict[str, float]] = {}, {}
        self.pending: tuple[Callable[[], None], tuple[dict[str, float], dict[str, float]]] | None
        self.pending = None

    @initialize(remembered=st.sampled_from([0, 1, 3]))
    def begin(self, remembered: int) -> None:
        self.limit = remembered
        self.rig = Rig(self.directory / "frontier", self.clock, remembered=remembered)

    # --- visits

    @rule(host=st.integers(0, HOSTS - 1), patient=st.booleans())
    def visit(self, host: int, patient: bool) -> None:
        """Contact whoever may be contacted when there is a URL more of *host*."""
        self.serial += 1
        self.rig.push(entry(f"h{host}.test", self.serial))
        lease = self.rig.next() if patient else self.rig.acquire()
        if lease is None:
            return
        name = lease.entry.host
        address = f"@a{int(name[1]) % 2}"
        assert name not in self.under_way, "handed out while in process"
        assert self.clock.now >= self.rest_until.get(name, 0.0) - SLACK, "handed out too early"
        wait = self.rig.frontier.claim(lease, address[1:])
        if wait:
            assert wait > 0
            self.rig.frontier.put_back(lease)
            self.rig.frontier.release(name, rest=wait)
            self._rests(name, wait)
            return
        assert address not in self.under_way, "claimed by two hosts"
        assert self.clock.now >= self.rest_until.get(address, 0.0) - SLACK, "claimed too early"
        self.leases[name] = lease
        self.under_way[name] = self.under_way[address] = self.clock.now
        self.rig.frontier.finish(lease)

    @precondition(lambda self: self.leases)
    @rule(
        pick=st.integers(0, HOSTS),
        took=st.sampled_from([0.0, 0.1, 2.0]),
        rest=st.sampled_from([0.0, 3.0, 60.0, 3600.0]),
        shared_rest=st.sampled_from([None, 0.0, 1.0, 30.0, 1000.0]),
    )
    def end(self, pick: int, took: float, rest: float, shared_rest: float | None) -> None:
        host = sorted(self.leases)[pick % len(self.leases)]
        self.clock.advance(took)
        self.rig.frontier.release(host, rest=rest, shared_rest=shared_rest)
        self._ended(host, rest, rest if shared_rest is None else shared_rest)

    def _ended(self, host: str, rest: float, shared_rest: float) -> None:
        address = f"@a{int(host[1]) % 2}"
        del self.leases[host]
        for name, seconds in (host, rest), (address, shared_rest):
            del self.under_way[name]
            self._rests(name, seconds)

    def _rests(self, name: str, seconds: float) -> None:
        self.rest_until[name] = max(self.rest_until.get(name, 0.0), self.clock.now + seconds)

    @rule(seconds=st.sampled_from([0.5, 5.0, 100.0, 4000.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(older_than=st.sampled_from([1.0, 50.0]))
    def expire(self, older_than: float) -> None:
        for lease in self.rig.frontier.expire(older_than):
            host = lease.entry.host
            rest = cut_off(POLICY, self.clock.now - self.under_way[host])
            self._ended(host, rest, rest)

    # --- the disk and the crashes

    @rule(how=st.sampled_from(["flush", "write", "save"]))
    def save_rests(self, how: str) -> None:
        assert self.rig.records is not None
        if how == "flush":
            self.rig.records.flush()
        elif how == "write":
            self.rig.executor.run()
        else:
            self.rig.save_rests()

    @precondition(lambda self: self.pending is None)
    @rule(at_once=st.booleans())
    def snapshot(self, at_once: bool) -> None:
        self.pending = self.rig.prepare(), (dict(self.rest_until), dict(self.under_way))
        if at_once:
            self.publish()

    @precondition(lambda self: self.pending is not None)
    @rule()
    def publish(self) -> None:
        assert self.pending is not None
        publish, self.saved = self.pending
        self.pending = None
        publish()

    @rule()
    def crash(self) -> None:
        self.rig.crash()
        self._cut_off()

    @rule(lost=st.booleans())
    def power_failure(self, lost: bool) -> None:
        if lost:
            # Nobody knows of the visits after the last checkpoint any more.
            self.rest_until, self.under_way = map(dict, self.saved)
        self.rig.reboot(lost=lost)
        self._cut_off()

    def _cut_off(self) -> None:
        """Contacts that were cut off rest as if they had lasted until now."""
        for name, at in self.under_way.items():
            self._rests(name, cut_off(POLICY, self.clock.now - at))
        self.under_way = {}
        self.leases = {}
        self.pending = None

    # --- what always holds

    @invariant()
    def sound(self) -> None:
        if hasattr(self, "rig"):
            stats = self.rig.frontier.stats()
            assert stats["frontier/hosts/remembered"] <= self.limit
            assert stats["frontier/hosts/in_process"] == len(self.leases)
            assert stats["frontier/addresses/in_process"] == len(self.under_way) - len(self.leases)
            assert self.rig.frontier.check() == []

    def teardown(self) -> None:
        try:
            if hasattr(self, "rig"):
                self.rig.close()
        finally:
            shutil.rmtree(self.directory)


RestsMachine.TestCase.settings = examples(120, stateful_step_count=40)
TestRests = RestsMachine.TestCase
