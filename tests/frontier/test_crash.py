"""Tests of the frontier after crashes and power failures, and with every file cut anywhere."""

import random
from collections import Counter

import msgspec
import pytest
from disk import file_size_limit
from frontier_rig import POLICY, entry, urls_of
from strategies import some_of
from text_tables import each

from webcrawl.frontier import back_queue, front_end, key, overflow
from webcrawl.frontier.delay_policy import cut_off
from webcrawl.frontier.done_log import Result
from webcrawl.frontier.snapshot import decode_snapshot
from webcrawl.storage.record_log import CorruptRecordError


@pytest.fixture
def small(monkeypatch):
    """Return queues that spill after a few entries, so that small tests have many files."""
    monkeypatch.setattr(front_end, "CHUNK", 3)
    monkeypatch.setattr(back_queue, "INLINE", 2)
    monkeypatch.setattr(overflow, "CHUNK", 2)


def visit(rig, **rest):
    """Fetch the next entry: release its host and finish it."""
    lease = rig.next()
    rig.release(lease.entry.host, **rest)
    rig.finish(lease)


def assert_rests(rig, seconds):
    assert rig.acquire() is None
    assert rig.ready_at() == pytest.approx(rig.clock() + seconds, abs=1e-3)


# --- what a restart keeps


def test_leased_entries_are_the_next_of_their_host_after_a_crash(rig):
    rig.fill("a.test", 5)
    for _ in range(3):
        rig.next()
        rig.release("a.test")
    rig.publish()
    rig.crash()
    assert [found.url for found in rig.drain()] == [f"http://a.test/{n}" for n in range(5)]


def test_finished_entries_in_the_back_end_are_skipped_a_slice_at_a_time(rig_of):
    rig = rig_of(slice_size=4)
    rig.fill("a.test", 11)
    rig.refill_all()
    rig.publish()
    rig.drain()
    rig.crash()
    rig.clock.advance(100)
    skipped = []
    for _ in range(3):
        assert rig.ready_at() <= rig.clock()
        assert rig.acquire() is None
        skipped.append(rig.stat("skipped"))
    assert skipped == [4, 8, 11]
    assert rig.ready_at() is None
    assert rig.drain() == []


def test_a_restart_tells_which_entries_were_finished(rig):
    rig.fill("a.test", 2)
    rig.publish()
    leases = [rig.next()]
    rig.release("a.test")
    rig.finish(leases[0])
    leases.append(rig.next())
    rig.crash()
    assert [key(lease.entry) in rig.frontier.finished for lease in leases] == [True, False]


def test_crawl_counts_are_recovered_from_the_done_log(rig):
    def fetch(outcome, *, fetched=True, **counted):
        lease = rig.next()
        rig.release("a.test", fetched=fetched)
        rig.finish(lease, result=Result(outcome, **counted))

    rig.fill("a.test", 6)
    fetch("http_200", received=1000)
    rig.publish()
    fetch("http_200", received=300_000, is_duplicate=True)
    fetch("", received=5)  # it is tried again
    fetch("timeout")
    fetch("robots_denied", fetched=False)  # nothing was sent
    counts = {
        "contacts": 4,
        "fetch/bytes": 301_005,
        "content/duplicates": 1,
        "outcome/http_200": 2,
        "outcome/timeout": 1,
        "outcome/robots_denied": 1,
    }
    for happens in (lambda: None, rig.crash, rig.crash, rig.publish, rig.crash):
        happens()
        assert rig.counts.crawl == counts, happens
    rig.fetch(rig.next())
    rig.reboot()
    rig.crash()  # what was finished is fetched again, what was sent stays sent
    assert rig.counts.crawl == counts | {"contacts": 5}


def test_number_of_queues_and_counters_survive(rig_of):
    rig = rig_of(queues=1, max_queues=50)

    def stats():
        found = rig.stats()
        return [found[f"frontier/{name}"] for name in ("queues", "popped", "leased", "back")]

    rig.spread(20)
    for _ in range(7):
        rig.next()
    rig.publish()
    assert stats() == [7, 7, 7, 0]
    rig.crash()
    assert stats() == [7, 7, 0, 7]
    rig.drain()
    rig.publish()
    rig.crash()
    assert stats()[0] >= 7
    rig._options["max_queues"] = 4
    rig.crash()
    assert stats()[0] == 4


# --- politeness across a restart


@each("waiting", 1, 0)
@each("restart", "crash", "reboot")
def test_a_host_continues_to_rest_after_a_restart(rig, restart, waiting):
    rig.fill("a.test", 1 + waiting)
    rig.fetch(rig.next(), took=4.0)
    rig.publish()
    rig.clock.advance(10)
    getattr(rig, restart)()
    rig.push(entry("a.test", 2))
    assert_rests(rig, 30.0)


@each("snapshot_during", False, True)
def test_no_host_is_contacted_soon_after_contacts_were_forgotten(rig, snapshot_during):
    rig.push(entry("a.test", 1), entry("b.test", 1), entry("c.test", 1))
    rig.refill(9)
    while (lease := rig.acquire()) is not None:
        rig.push(entry(lease.entry.host, 2))
        rig.fetch(lease)
    rig.publish()
    rig.kill()
    rig.unknown = {"unlogged_rest": 60.0}
    state = msgspec.structs.replace(decode_snapshot(rig.published), unlogged_until=rig.clock())
    rig.published = msgspec.msgpack.encode(state)
    rig.start()
    rig.push(entry("new.test", 1))
    rig.refill(9)
    rig.clock.advance(20)
    if snapshot_during:
        rig.publish()
        rig.crash()
        rig.refill(9)
    rig.clock.advance(39.9)
    rig.push(entry("newer.test", 1))
    rig.refill(9)
    assert rig.acquire() is None
    rig.clock.advance(0.2)
    assert len([*iter(rig.acquire, None)]) == 5


@each("snapshot_after", False, True)
@each("waiting", 1, 2)
def test_crawl_delay_of_a_released_host_holds_for_the_next_contact(rig, snapshot_after, waiting):
    rig.fill("a.test", waiting)
    rig.publish()
    visit(rig, at_least=60.0)
    if snapshot_after:
        rig.publish()
    rig.crash()
    rig.push(entry("a.test", 9))
    rig.next()
    rig.crash()
    rig.push(entry("a.test", 9))
    assert_rests(rig, 60.0)


@each("is_forbidden", False, True)
@each("snapshot_during", False, True)
def test_crawl_delay_of_a_host_holds_for_a_contact_that_was_cut_off(
    rig, snapshot_during, is_forbidden
):
    """An earlier URL that robots.txt forbids says nothing about the host's pauses."""
    rig.fill("a.test", 4)
    rig.publish()
    rig.next()
    rig.release("a.test", at_least=60.0)
    if is_forbidden:
        rig.next()
        rig.release("a.test", fetched=False)
    rig.next()
    if snapshot_during:
        rig.publish()
    # The second time the frontier itself has not seen that delay in this life.
    for _ in range(2):
        rig.crash()
        assert_rests(rig, 60.0)
        rig.next()


@each("is_trusted", True, False)
def test_a_retry_is_queued_once_even_if_its_first_try_is_unknown(rig, is_trusted):
    rig.push(entry("a.test", 1), entry("b.test", 1))
    rig.publish()
    for attempts in (1, 2):
        lease = rig.next()
        rig.release(lease.entry.host)
        rig.retry(lease, msgspec.structs.replace(lease.entry, attempts=attempts))
    rig.requeue(entry("c.test", 1))
    for _ in range(2):
        rig.kill()
        rig.start(trust_done=is_trusted)
        is_trusted = True
    assert sorted(found.host for found in rig.drain()) == ["a.test", "b.test", "c.test"]


def test_a_retry_is_queued_once_even_if_its_queue_cannot_be_written(small, rig):
    rig.push(entry("a.test", 1))
    lease = rig.next()
    # Three stay in memory, and the third of the others has them written.
    rng = random.Random(1)  # its bytes cannot be compressed
    for _ in range(5):
        rig.push(msgspec.structs.replace(entry("b.test", 1), extra=rng.randbytes(9000)))
    rig.publish()
    again = msgspec.structs.replace(lease.entry, attempts=1)
    with file_size_limit(9000), pytest.raises(OSError, match="File too large"):
        rig.retry(lease, again)
    rig.release("a.test")
    for happens in (lambda: None, rig.publish, rig.crash):
        happens()
        assert (len(rig.frontier), len(rig.leases)) == (6, 0)
    assert again in rig.drain()


@each("more", 1, 0)
@each("snapshot_after", False, True)
def test_a_clock_set_back_while_the_machine_is_down_prolongs_no_rest(rig, snapshot_after, more):
    rig.fill("a.test", 1 + more)
    rig.publish()
    visit(rig, at_least=600.0)
    if snapshot_after:
        rig.publish()
    rig.kill()
    rig.clock.now -= 900
    rig.start(trust_done=False)
    rig.push(entry("a.test", 9))
    assert_rests(rig, 600.0)


def test_contact_from_the_future_rests_as_if_it_had_just_begun(rig):
    """The wall clock was set back by an hour while the process was down."""
    rig.clock.now += 7200  # it never gets below 0
    rig.fill("a.test", 2)
    rig.publish()
    rig.next()
    rig.kill()
    rig.clock.now -= 3600
    rig.start()
    assert_rests(rig, cut_off(POLICY, 0.0))


def test_a_host_rests_its_own_delay_after_unrecorded_contacts(rig):
    """Requests sent to hosts after the snapshot are unknown."""
    rig.push(*(entry(host, n) for host in ("a.test", "slow.test") for n in range(2)))
    for _ in range(2):
        lease = rig.next()
        rest = 30.0 if lease.entry.host == "slow.test" else 1.0
        rig.frontier.contacts.release(lease.entry.host, rest=rest, min_rest=rest)
        rig.finish(lease)
    rig.publish()
    rig.kill()
    rig.clock.now += 100
    rig.unknown = {"unlogged_rest": 5.0}
    rig.frontier = rig._new()
    now = rig.clock()
    rig.frontier.open(rig.published, unlogged_until=now)
    assert_rests(rig, 5.0)
    rig.clock.now += 5.0
    assert rig.acquire().entry.host == "a.test"
    assert rig.ready_at() == pytest.approx(now + 30.0)
    # A host of which the frontier knows nothing, and the caller a Crawl-delay.
    rig.push(entry("c.test", 1))
    lease = rig.next()
    assert rig.contacts.promise("c.test", 12.0) == pytest.approx(7.0)
    rig.put_back(lease)
    rig.frontier.contacts.release("c.test", rest=7.0)
    rig.clock.now += 7.0
    rig.next()
    assert rig.contacts.promise("c.test", 12.0) == 0.0


@each("deaths", 1, 2)
def test_an_unrecorded_crawl_delay_applies_from_the_restart_on(rig, deaths):
    """The process had read robots.txt, and the next one knows it from the host's record."""
    rig.push(entry("a.test", 1))
    rig.publish()
    rig.next()
    for _ in range(deaths):
        rig.crash()
    now = rig.clock()
    lease = rig.next()
    assert rig.contacts.promise("a.test", 12.0) == pytest.approx(now + 12.0 - rig.clock())
    rig.put_back(lease)
    rig.frontier.contacts.release("a.test", rest=now + 12.0 - rig.clock())
    rig.next()
    assert rig.contacts.promise("a.test", 12.0) == 0.0


@each("snapshot_after", False, True)
def test_a_cut_off_contact_may_go_on_at_the_server_for_a_while(rig, snapshot_after):
    """This holds however soon the crawl is back; further restarts do not delay it."""
    rig.unknown = {"cut_off_rest": 60.0}
    rig.fill("a.test", 2)
    rig.publish()
    rig.next()
    for rest in (60.0, 40.0, 20.0):
        rig.crash()
        assert_rests(rig, rest)
        if snapshot_after:
            rig.publish()
        rig.clock.advance(20.0)
    assert rig.acquire() is not None


# --- files that are cut


class Wreck:
    """A frontier killed some time after its snapshot was published, to be damaged at will."""

    def __init__(self, rig):
        self.rig = rig
        rig.push(*(entry(f"h{n % 3}.test", n, depth=n % 3) for n in range(36)))
        for _ in range(4):
            rig.fetch(rig.next())
        rig.publish()
        self.synced = {path: len(data) for path, data in files_of(rig.path).items()}
        self.later = [entry("h1.test", n) for n in range(100, 116)]
        rig.push(*self.later)
        rig.refill_all()
        for number in range(4):
            rig.fetch(rig.next(), note=b"note %03d" % number)
        rig.requeue(entry("r.test"))
        rig.next()
        self.files = files_of(rig.path)
        rig.kill()

    def restart(self, cut=None, size=0):
        """Start from the files as they were at the crash, with *cut* shortened to *size*."""
        for path in files_of(self.rig.path):
            if path not in self.files:
                path.unlink()
        for path, data in self.files.items():
            path.write_bytes(data[:size] if path == cut else data)
        self.rig.start()

    def drain(self):
        """Finish everything that is left, when the caller submits its discoveries again."""
        self.rig.push(*self.later)
        return urls_of(self.rig.drain())


def files_of(path):
    return {file: file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def test_cutting_a_queue_file_never_loses_an_entry_silently(rig, small):
    """A cut beyond what the snapshot names changes nothing; an earlier one is detected."""
    wreck = Wreck(rig)
    wreck.restart()
    sizes = len(rig.frontier), len(rig.entries())
    everything = wreck.drain()
    rig.kill()
    harmless = reported = 0
    for path, data in wreck.files.items():
        if path.is_relative_to(rig.path / "done"):
            continue
        synced = wreck.synced.get(path, 0)
        # The tail and the last frames before it, and a sample of the rest.
        tail = some_of(range(max(synced - 100, 0), len(data)), [synced])
        for cut in [*some_of(range(0, max(synced - 100, 0), 11)), *tail]:
            try:
                wreck.restart(path, cut)
                found = len(rig.frontier), len(rig.entries())
            except CorruptRecordError:
                assert cut < synced, path
                reported += 1
            else:
                assert found == sizes
                harmless += 1
                if cut % 50 == 0:
                    assert wreck.drain() == everything
            rig.kill()
    assert min(harmless, reported) > 30
    wreck.restart()


def test_no_cut_of_the_done_log_loses_an_entry_or_repeats_a_finished_one(rig, small):
    wreck = Wreck(rig)
    wreck.restart()
    assert len(rig.notes) == 4
    unfinished = Counter(wreck.drain())
    rig.kill()
    outcomes = set()
    for path in wreck.files:
        if not path.is_relative_to(rig.path / "done"):
            continue
        for cut in some_of(range(len(wreck.files[path]))):
            wreck.restart(path, cut)
            notes = len(rig.notes)
            again = Counter(wreck.drain()) - unfinished
            gone = unfinished - Counter({"http://r.test/0": 1})
            outcomes.add((notes, len(again)))
            assert again.total() == 4 - notes, "as many are repeated as finish records are gone"
            assert not gone - unfinished
            rig.kill()
    assert outcomes == {(notes, 4 - notes) for notes in range(5)}
    wreck.restart()


def test_missing_file_is_reported_as_damage(rig, small):
    wreck = Wreck(rig)
    missed = 0
    for path in wreck.synced:
        wreck.restart()
        rig.kill()
        path.unlink(missing_ok=True)
        try:
            rig.start()
            rig.entries()
        except CorruptRecordError:
            missed += 1
        rig.kill()
    assert missed >= 3
    wreck.restart()
