"""Test of the whole frontier against a simple model, with crashes and power failures."""

import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from conftest import FakeClock
from frontier_rig import POLICY, Rig, entry
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from strategies import examples

from webcrawl.frontier import (
    Entry,
    back_queue,
    decode,
    encode,
    front_end,
    overflow,
    parked,
)
from webcrawl.frontier import snapshot as frontier_snapshot
from webcrawl.frontier.delay_policy import cut_off
from webcrawl.frontier.domain_share import DomainShares
from webcrawl.frontier.done_log import read_done_log
from webcrawl.frontier.recovery import replay
from webcrawl.frontier.snapshot import FrontierSnapshot, decode_snapshot


class Event(NamedTuple):
    """Something that happened to *entry*: pushed, requeued or finished (with *note*)."""

    kind: str
    entry: Entry
    note: bytes = b""


class Saved(NamedTuple):
    """What a snapshot promises: who waits, how far *events* had come, who rests until when."""

    waiting: Counter
    events: int
    rest_until: dict
    contacts: dict
    promised: dict
    parked: dict


REASONS = ("budget", "trap")
PICK = st.integers(0, 9)
has_contacts = precondition(lambda self: self.contacts)
has_leases = precondition(lambda self: self.leases)


def domain_of(host):
    """Return the domain of a host: two hosts each, of h0.test to h4.test."""
    return str(int(host[1]) // 2)


def name_of(entry):
    return entry.url, entry.attempts


class FrontierMachine(RuleBasedStateMachine):
    """Model of the frontier. Its times are true time, shared by all processes and clocks."""

    def __init__(self):
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        for module, name, value in (
            (front_end, "CHUNK", 3),
            (back_queue, "INLINE", 2),
            (overflow, "CHUNK", 2),
            (parked, "CHUNK", 2),
            (frontier_snapshot, "_PIECE", 40),
            (overflow, "SEGMENT_BYTES", 150),
        ):
            self.patch.setattr(module, name, value)
        self.directory = Path(tempfile.mkdtemp())
        self.clock = FakeClock()
        self.serial = 0
        # Parked ones too.
        self.waiting = Counter()
        # In their order, by reason; after a crash also such as have been finished.
        self.parked = {}
        # How many of them the pass under way has still to look at.
        self.due = {}
        self.leases = {}
        self.contacts = {}
        # The shared clocks among them as "@key".
        self.rest_until = {}
        # host in process -> the shared clock it holds, and since when.
        self.claims = {}
        # host in process -> the rest that must follow in any case.
        self.promised = {}
        self.events = []
        self.saved = Saved(Counter(), 0, {}, {}, {}, {})
        self.pending = None

    @initialize(
        queues=st.integers(1, 3),
        more=st.integers(0, 3),
        slice_size=st.sampled_from([1, 3, 64]),
        remembered=st.sampled_from([None, 0, 1, 2]),
        workers=st.integers(1, 5),
    )
    def begin(self, queues, more, slice_size, remembered, workers):
        self.ceiling = queues + more
        self.workers = workers
        self.spills = remembered is not None
        self.rig = Rig(
            self.directory / "frontier",
            self.clock,
            queues=queues,
            max_queues=self.ceiling,
            slice_size=slice_size,
            levels=4,
            remembered=remembered,
            shares=lambda: DomainShares(domain_of=domain_of, workers=workers, max_busy=1),
        )

    # --- what a crawl does

    @rule(
        batch=st.lists(
            st.tuples(st.integers(0, 4), st.integers(0, 2), st.sampled_from([0, 1, 500])),
            min_size=1,
            max_size=20,
        ),
        twice=st.booleans(),
    )
    def push(self, batch, twice):
        entries = []
        for host, depth, rank in batch:
            self.serial += 1
            entries.append(entry(f"h{host}.test", self.serial, depth=depth, rank=rank))
        if twice:
            entries.append(entries[0])
        self.rig.push(*entries)
        for each in entries:
            self.waiting[name_of(each)] += 1
            self.events.append(Event("push", each))

    @rule()
    def acquire(self):
        lease = self.rig.acquire()
        if lease is not None:
            self._took(lease)
        elif self.rig.ready_at() is None:
            names = set(+self.waiting) - self._parked()
            full = {domain_of(host) for host in self.contacts}
            hosts = {url.split("/")[2] for url, _ in names}
            free = {host for host in hosts if domain_of(host) not in full}
            busy_all = len(self.contacts) >= min(self.ceiling, self.workers)
            assert not free or busy_all, f"{free} could be fetched"

    @rule()
    def acquire_patiently(self):
        lease = self.rig.next()
        if lease is not None:
            self._took(lease)

    def _parked(self):
        return {name for names in self.parked.values() for name in names}

    def _took(self, lease):
        host = lease.entry.host
        assert name_of(lease.entry) not in self._parked(), "handed out while parked"
        assert self.waiting[name_of(lease.entry)] > 0, "handed out more often than pushed"
        assert host not in self.contacts, "handed out while in process"
        assert self.clock.now >= self.rest_until.get(host, 0.0) - 1e-6, "handed out too early"
        self.waiting[name_of(lease.entry)] -= 1
        self.contacts[host] = self.leases[lease.id] = lease, self.clock.now

    @has_contacts
    @rule(
        pick=PICK,
        fetched=st.booleans(),
        took=st.sampled_from([0.0, 0.1, 2.0, 30.0]),
        at_least=st.sampled_from([0.0, 0.0, 5.0, 600.0]),
        shared_rest=st.sampled_from([None, 0.0, 1.0, 7.0, 500.0]),
    )
    def release(self, pick, fetched, took, at_least, shared_rest):
        host = sorted(self.contacts)[pick % len(self.contacts)]
        self.rig.release(
            host, fetched=fetched, took=took, at_least=at_least, shared_rest=shared_rest
        )
        rest = max(cut_off(POLICY, took), at_least) if fetched else at_least
        self._released(host, rest, rest if shared_rest is None else shared_rest)

    def _released(self, host, rest, shared_rest):
        del self.contacts[host]
        self.promised.pop(host, None)
        self._rests(host, rest)
        if host in self.claims:
            self._rests(self.claims.pop(host)[0], shared_rest)

    @has_contacts
    @rule(pick=PICK, min_rest=st.sampled_from([0.0, 40.0, 1000.0]))
    def promise(self, pick, min_rest):
        host = sorted(self.contacts)[pick % len(self.contacts)]
        self.rig.contacts.promise(host, min_rest)
        self.promised[host] = max(self.promised.get(host, 0.0), min_rest)

    @has_contacts
    @rule(pick=PICK, address=st.integers(0, 1))
    def claim(self, pick, address):
        host = sorted(self.contacts)[pick % len(self.contacts)]
        lease = self.contacts[host][0]
        name = f"@a{address}"
        if host in self.claims:
            if self.claims[host][0] == name:
                assert self.rig.contacts.claim(lease, name[1:]) == 0.0
            else:
                with pytest.raises(ValueError, match="holds the shared clock"):
                    self.rig.contacts.claim(lease, name[1:])
            return
        is_held = name in {held for held, _ in self.claims.values()}
        wait = self.rig.contacts.claim(lease, name[1:])
        if not wait:
            assert not is_held, "claimed by two"
            assert self.clock.now >= self.rest_until.get(name, 0.0) - 1e-6, "claimed too early"
            self.claims[host] = name, self.clock.now
            return
        assert wait > 0
        if lease.id in self.leases:
            self._put_back(lease)
        self.rig.frontier.contacts.release(host, rest=wait)
        self._released(host, wait, 0.0)

    def _rests(self, host, seconds):
        self.rest_until[host] = max(self.rest_until.get(host, 0.0), self.clock.now + seconds)

    def _pick_lease(self, pick):
        return self.leases[sorted(self.leases)[pick % len(self.leases)]][0]

    @has_leases
    @rule(pick=PICK, noted=st.booleans())
    def finish(self, pick, noted):
        lease = self._pick_lease(pick)
        note = b"note%04d" % len(self.events) if noted else b""
        self.rig.finish(lease, note=note)
        del self.leases[lease.id]
        self.events.append(Event("finish", lease.entry, note))
        for again in (self.rig.finish, self.rig.put_back):
            with pytest.raises(LookupError):
                again(lease)

    @has_leases
    @rule(pick=PICK)
    def put_back(self, pick):
        self._put_back(self._pick_lease(pick))

    def _put_back(self, lease):
        self.rig.put_back(lease)
        del self.leases[lease.id]
        self.waiting[name_of(lease.entry)] += 1

    @has_leases
    @rule(pick=PICK)
    def requeue(self, pick):
        old = self._pick_lease(pick).entry
        again = msgspec.structs.replace(old, attempts=old.attempts + 1)
        if name_of(again) in self._parked():
            return
        self.rig.requeue(again)
        self.waiting[name_of(again)] += 1
        self.events.append(Event("requeue", again))

    # --- what waits for a reason

    @rule(count=st.integers(1, 9), host=st.integers(0, 4), reason=st.sampled_from(REASONS))
    def park(self, count, host, reason):
        for _ in range(count):
            self.serial += 1
            new = entry(f"h{host}.test", self.serial)
            self.rig.parked.push(reason, [encode(new)])
            self.waiting[name_of(new)] += 1
            self.parked.setdefault(reason, []).append(name_of(new))
            self.events.append(Event("push", new))

    @has_leases
    @rule(pick=PICK, reason=st.sampled_from(REASONS))
    def park_leased(self, pick, reason):
        lease = self._pick_lease(pick)
        name = name_of(lease.entry)
        alike = [other for other, _ in self.leases.values() if name_of(other.entry) == name]
        if self.waiting[name] or len(alike) > 1 or name in self._parked():
            return  # of two that are the same, the finish of one hides whichever is met first
        self.rig.park(lease, reason)
        del self.leases[lease.id]
        self.waiting[name] += 1
        self.parked.setdefault(reason, []).append(name)

    @rule(reasons=st.sets(st.sampled_from(REASONS)))
    def begin_pass(self, reasons):
        self.rig.parked.begin_pass(sorted(reasons))
        for reason in sorted(reasons):
            # Reasons are taken in the order of their first pass, also one for which nothing waits.
            if reason in self.rig.parked.counts:
                self.due[reason] = len(self.parked.get(reason, []))

    @rule(
        limit=st.integers(1, 9),
        every=st.integers(1, 3),
        again=st.sampled_from(REASONS),
        breaks=st.booleans(),
    )
    def reconsider(self, limit, every, again, breaks):
        reason = next((reason for reason, due in self.due.items() if due), "")
        count = min(limit, self.due[reason]) if reason else 0
        names = self.parked[reason][:count] if reason else []
        waiting = [name for name in names if self.waiting[name]]

        def sort(entries):
            assert [name_of(decode(data)) for data in entries] == waiting
            if breaks:
                raise RuntimeError("a rule broke")
            return entries[::every], {again: [d for i, d in enumerate(entries) if i % every]}

        if breaks and reason:
            with pytest.raises(RuntimeError):
                self.rig.parked.reconsider(limit, sort)
            self.parked[reason][:count] = waiting
            self.due[reason] += len(waiting) - count
            return
        assert self.rig.parked.reconsider(limit, sort) == count
        if reason:
            del self.parked[reason][:count]
            self.due[reason] -= count
            self.parked.setdefault(again, [])
            self.parked[again] += [name for i, name in enumerate(waiting) if i % every]

    @rule(limit=st.integers(1, 50))
    def refill(self, limit):
        assert self.rig.refill(limit) <= limit

    @rule(seconds=st.sampled_from([0.01, 1.0, 3.0, 50.0, 700.0]))
    def time_passes(self, seconds):
        self.clock.advance(seconds)

    @rule(older_than=st.sampled_from([0.5, 10.0, 100.0]))
    def expire(self, older_than):
        now = self.clock.now
        expired = {
            lease.id
            for lease, at in [*self.leases.values(), *self.contacts.values()]
            if now - at > older_than
        }
        assert {lease.id for lease in self.rig.expire(older_than)} == expired
        for host, (lease, at) in [*self.contacts.items()]:
            if lease.id in expired:
                shared = cut_off(POLICY, now - at)
                self._released(host, max(shared, self.promised.get(host, 0.0)), shared)
        for number in expired & self.leases.keys():
            self.waiting[name_of(self.leases.pop(number)[0].entry)] += 1

    # --- checkpoints, and what makes them necessary

    @precondition(lambda self: self.pending is None)
    @rule()
    def snapshot(self):
        waiting = self.waiting + Counter(name_of(lease.entry) for lease, _ in self.leases.values())
        saved = Saved(
            waiting,
            len(self.events),
            dict(self.rest_until),
            self._under_way(),
            dict(self.promised),
            {reason: [*names] for reason, names in self.parked.items()},
        )
        self.pending = self.rig.prepare(), saved

    @precondition(lambda self: self.pending is not None)
    @rule()
    def encode_more(self):
        self.rig.encode_more()

    @precondition(lambda self: self.pending is not None)
    @rule()
    def publish(self):
        publish, self.saved = self.pending
        self.pending = None
        publish()

    def _under_way(self):
        """Return the contacts of hosts and of shared clocks, and since when."""
        return {host: at for host, (_, at) in self.contacts.items()} | dict(self.claims.values())

    @precondition(lambda self: self.spills)
    @rule(how_far=st.integers(0, 2))
    def save_rests(self, how_far):
        if how_far == 2:
            self.rig.save_rests()
        elif how_far == 1:
            self.rig.executor.run()
        else:
            self.rig.records.flush()

    @rule()
    def crash(self):
        self._cut_off(self._under_way(), self.promised)
        self.rig.crash()
        since = self.events[self.saved.events :]
        assert self.rig.notes == [event.note for event in since if event.note]
        assert self._journaled() == [event.entry for event in since if event.kind == "requeue"]
        self._recover(since)

    @rule(lost=st.booleans())
    def power_failure(self, lost):
        if lost:
            # Nobody knows of the visits after the last checkpoint any more.
            self.rest_until = dict(self.saved.rest_until)
            self._cut_off(self.saved.contacts, self.saved.promised)
        else:
            self._cut_off(self._under_way(), self.promised)
        self.rig.reboot(lost=lost)
        assert self.rig.notes == []
        since = [event for event in self.events[self.saved.events :] if event.kind == "push"]
        self._recover(since + [Event("requeue", entry) for entry in self._journaled()])

    def _cut_off(self, contacts, promised):
        for host, at in contacts.items():
            self._rests(host, max(cut_off(POLICY, self.clock.now - at), promised.get(host, 0.0)))

    def _journaled(self):
        """Return the requeued entries that recovery found in the log."""
        published = self.rig.published
        first = 1 if published is None else decode_snapshot(published).segment
        found = replay(read_done_log(self.rig.frontier._log.path, first), since=FrontierSnapshot())
        return [decode(one.data) for one in found.requeued]

    def _recover(self, since):
        """Submit again what the caller pushed; *since* is what counts from now on."""
        for held in (self.leases, self.contacts, self.claims, self.promised, self.due):
            held.clear()
        self.pending = None
        self.parked = {reason: [*names] for reason, names in self.saved.parked.items()}
        self.events[self.saved.events :] = since
        self.rig.push(*(event.entry for event in since if event.kind == "push"))
        waiting = Counter(self.saved.waiting)
        for event in since:
            waiting[name_of(event.entry)] += -1 if event.kind == "finish" else 1
        assert min(waiting.values(), default=0) >= 0
        self.waiting = waiting

    # --- what always holds

    @invariant()
    def sound(self):
        frontier = self.rig.frontier
        assert len(frontier.leases) == len(self.leases)
        assert frontier.parked.size == sum(map(len, self.parked.values()))
        assert frontier.parked.due == sum(self.due.values())
        total = self.waiting.total() + frontier.finished.size
        assert len(frontier) + frontier.parked.size == total
        stats = frontier.stats()
        for reason in REASONS:
            assert stats.get(f"frontier/parked/{reason}", 0) == len(self.parked.get(reason, []))
        assert stats["frontier/hosts/in_process"] == len(self.contacts)
        assert stats["frontier/addresses/in_process"] == len(self.claims)
        if self.spills:
            assert stats["frontier/hosts/remembered"] <= 2

    def teardown(self):
        try:
            if hasattr(self, "rig"):
                self._finish_the_crawl()
                self.rig.close()
        finally:
            self.patch.undo()
            shutil.rmtree(self.directory)

    def _finish_the_crawl(self):
        for host in [*self.contacts]:
            self.rig.release(host)
            self._released(host, cut_off(POLICY, 0.0), cut_off(POLICY, 0.0))
        for lease, _ in self.leases.values():
            self.rig.finish(lease)
        self._drain()
        parked = self.rig.parked
        parked.begin_pass(REASONS)
        while parked.reconsider(3, lambda entries: (entries, {})):
            pass
        self.parked.clear()
        self._drain()
        assert parked.size == 0
        assert self.waiting.total() == 0, f"{+self.waiting} never came out"
        sizes = self.rig.stats()
        names = ("waiting", "queues/spilled", "hosts/ready", "hosts/held", "hosts/snoozed")
        assert not any(sizes[f"frontier/{name}"] for name in names)

    def _drain(self):
        while (lease := self.rig.next()) is not None:
            self._took(lease)
            self.rig.fetch(lease)
            del self.contacts[lease.entry.host]
            self._rests(lease.entry.host, cut_off(POLICY, 0.1))


FrontierMachine.TestCase.settings = examples(150, stateful_step_count=50)
TestFrontier = FrontierMachine.TestCase
