import msgspec
import pytest

from webcrawl.frontier import Entry, FrontierSizes, decode, encode, overflow
from webcrawl.frontier.back_end import BackEnd
from webcrawl.frontier.back_queue import QueueState
from webcrawl.frontier.domain_share import DomainShares
from webcrawl.frontier.rests import HostClocks
from webcrawl.storage.fifo import segment_file


def back_end(
    path,
    clock,
    *,
    limit=10,
    ceiling=10,
    parts_of=lambda _: 1,
):
    remembered = HostClocks(clock=clock, limit=1000, store=None)
    return BackEnd(
        path=path,
        clock=clock,
        remembered=remembered,
        sizes=FrontierSizes(queues=limit, max_queues=ceiling),
        soon=10.0,
        shares=DomainShares(),
        parts_of=parts_of,
    )


def hosts(back):
    """How many have a queue."""
    states = ("ready", "held", "snoozed", "in_process")
    return sum(back.sizes()[f"frontier/hosts/{state}"] for state in states)


@pytest.fixture
def back(jobdir, clock):
    found = back_end(jobdir, clock)
    found.open([])
    return found


def push(back, host, name):
    back.route(lambda: encode(Entry(name.decode(), host)), 1, drop=None)


def take(back, now):
    """Hand out the first host in line."""
    queue = back.first_ready(now)
    assert queue is not None
    data = back.pop(queue)
    back.begin(queue, now)
    return queue.host, decode(data).url.encode()


def give(back, host, ready_at, now):
    back.end(back.find_in_process(host), ready_at, now)


def test_hosts_are_handed_out_in_the_order_of_their_times(back, clock):
    for host in "abc":
        push(back, host, b"1")
        push(back, host, b"2")
    for _ in "abc":
        take(back, clock())
    give(back, "c", clock() + 1, clock())
    give(back, "a", clock() + 3, clock())
    give(back, "b", clock() + 2, clock())
    assert back.earliest() == clock() + 1
    assert back.first_ready(clock()) is None
    assert (back.ready, back.sizes()["frontier/hosts/snoozed"], back.in_process) == (0, 3, 0)
    clock.advance(3)
    assert [take(back, clock())[0] for _ in range(3)] == ["c", "b", "a"]
    assert back.earliest() is None


def test_hosts_of_the_same_time_keep_the_order_of_their_release(back, clock):
    for host in "abcde":
        push(back, host, b"1")
        push(back, host, b"2")
    for _ in "abcde":
        take(back, clock())
    for host in "badce":
        give(back, host, clock() + 5, clock())
    clock.advance(5)
    assert [take(back, clock())[0] for _ in range(5)] == list("badce")


def test_no_call_wakes_more_hosts_than_it_should(jobdir, clock):
    back = back_end(jobdir, clock, limit=500, ceiling=500)
    back.open([])
    for number in range(200):
        push(back, f"h{number}", b"1")
        push(back, f"h{number}", b"2")
    for _ in range(200):
        take(back, clock())
    for number in range(200):
        give(back, f"h{number}", clock() + 1, clock())
    clock.advance(1)
    assert back.first_ready(clock()) is not None
    assert (back.ready, back.sizes()["frontier/hosts/snoozed"]) == (64, 136)
    assert [take(back, clock())[0] for _ in range(200)] == [f"h{n}" for n in range(200)]


def test_host_put_back_without_room_gets_a_queue_all_the_same(jobdir, clock):
    back = back_end(jobdir, clock, limit=1, ceiling=1)
    back.open([])
    push(back, "a.test", b"1")
    take(back, clock())
    give(back, "a.test", clock() + 5, clock())
    push(back, "b.test", b"1")
    assert not back.has_room()
    assert not back.grow()
    back.push_front(Entry("1", "a.test"))
    assert back.limit == 2
    assert back.check() == []


def flood(back, host, count, first=0):
    for serial in range(first, first + count):
        push(back, host, b"%d" % serial)


def drain(back, clock):
    out = []
    while back.size:
        host, data = take(back, clock())
        out.append(data)
        give(back, host, clock(), clock())
    return out


def files_in(path):
    return sorted(file for file in path.rglob("*") if file.is_file())


def test_body_is_made_when_the_list_overflows_and_emptied_after_publication(back, clock, jobdir):
    flood(back, "flood.test", 200)
    assert back.spilled == 1
    (file,) = files_in(jobdir)
    (snapshot,) = back.snapshot().members
    assert {*back.overflows.written()} >= {file, file.parent, file.parent.parent, jobdir}
    back.overflows.forget()
    assert len(snapshot.items) == 16
    assert len(drain(back, clock)) == 200
    assert back.spilled == 0
    # The published snapshot still names it, and so would a forget() that belongs to it.
    back.overflows.forget()
    assert files_in(jobdir) == [file]
    back.snapshot()
    assert files_in(jobdir) == [file]
    back.overflows.forget()
    assert files_in(jobdir) == []


def test_queue_that_spills_again_leaves_the_published_files_alone(back, clock, jobdir):
    flood(back, "flood.test", 100)
    kept = [*back.snapshot().members]
    drain(back, clock)
    flood(back, "flood.test", 100, first=1000)
    assert len(files_in(jobdir)) == 2

    again = back_end(jobdir, clock)
    again.open(kept)
    assert again.check() == []
    assert len(files_in(jobdir)) == 1
    assert drain(again, clock) == [b"%d" % serial for serial in range(100)]


def numbers_in(path):
    """The numbers of the overflows that have files."""
    return {int(file.stem) >> 20 for file in files_in(path)}


def test_numbers_of_drained_queues_are_used_again(back, clock, jobdir):
    for turn in range(5):
        for host in "abc":
            flood(back, host, 100)
        assert numbers_in(jobdir) == {1, 2, 3}, turn
        assert sorted(drain(back, clock)) == sorted(b"%d" % n for n in range(100) for _ in "abc")
        back.snapshot()
        back.overflows.forget()
        assert files_in(jobdir) == []
    flood(back, "d", 100)
    # What no snapshot names is free for the next process too.
    again = back_end(jobdir, clock)
    again.open([])
    assert files_in(jobdir) == []
    for host in "abc":
        flood(again, host, 100)
    # Of the one that had a file; what had none is not known to have been used.
    assert len(numbers_in(jobdir)) == 3
    flood(again, "d", 100)
    assert len(numbers_in(jobdir)) == 4


def test_one_call_empties_a_bounded_number_of_overflows(back, clock, jobdir, monkeypatch):
    monkeypatch.setattr(overflow, "_EMPTIED_PER_CALL", 2)
    for host in "abcdef":
        flood(back, host, 100)
    drain(back, clock)
    back.snapshot()
    back.overflows.forget()
    assert len(files_in(jobdir)) == 4
    for host in "abc":
        flood(back, host, 100)
    # Two were empty, the third was emptied for its new owner.
    assert numbers_in(jobdir) == {1, 2, 3, 4, 5, 6}
    for _ in range(2):
        back.snapshot()
        back.overflows.forget()
    assert len(files_in(jobdir)) == 3
    assert back.check() == []
    assert len(drain(back, clock)) == 300


def test_directory_of_a_queue_that_drained_before_any_checkpoint_is_synced(back, clock, jobdir):
    """It will be used again, and a file is only as durable as the name of its directory."""
    flood(back, "a", 100)
    (directory,) = jobdir.glob("*/")
    drain(back, clock)
    back.snapshot()
    assert {*back.overflows.written()} >= {directory, jobdir}


def test_queue_with_a_directory_of_its_own_is_read_there_until_it_has_drained(back, clock, jobdir):
    """As overflows were before 2026-11-22."""
    for host in "ab":
        flood(back, host, 100)
    flood(back, "e", 40)  # all in memory: nothing is on disk
    of_a, of_b, of_e = back.snapshot().members
    old = jobdir / "01/00000001"
    old.mkdir()
    first = of_a.overflow.head_segment
    segment_file(jobdir / "01", first).rename(segment_file(old, 0))
    of_a, of_e = (
        msgspec.structs.replace(
            one, overflow=msgspec.structs.replace(one.overflow, head_segment=0, tail_segment=0)
        )
        for one in (of_a, of_e)
    )
    unnamed = segment_file(jobdir / "09/00000009", 7)
    unnamed.parent.mkdir(parents=True)
    unnamed.write_bytes(b"of another time")

    again = back_end(jobdir, clock)
    again.open([of_a, of_b, of_e])
    assert again.check() == []
    assert not unnamed.exists()
    for host in "acd":
        flood(again, host, 100, first=100)
    kept = [*again.snapshot().members]
    again = back_end(jobdir, clock)
    again.open(kept)
    assert sorted(drain(again, clock)) == sorted(
        b"%d" % n
        for n in [*range(200), *range(100), *range(40), *range(100, 200), *range(100, 200)]
    )
    again.snapshot()
    again.overflows.forget()
    assert files_in(jobdir) == []


def test_table_larger_than_the_new_limit_is_taken_over_whole(back, clock, jobdir):
    for host in "abcdef":
        push(back, host, b"1")
    small = back_end(jobdir, clock, limit=2, ceiling=3)
    small.open([*back.snapshot().members])
    assert hosts(small) == small.limit == 6
    assert small.check() == []


def test_the_count_of_the_tests_notices_each_broken_invariant(back, clock):
    for host in "abcdef":
        flood(back, host, 2)
    for _ in "abc":
        take(back, clock())
    give(back, "a", clock() + 5, clock())
    give(back, "b", clock() + 5, clock())
    assert back.check() == []
    table = back._table
    table["a"].ready_at += 1
    table["b"].state = QueueState.READY
    table["c"].state = QueueState.SNOOZED
    table["d"].items.clear()
    table["e"].host = "x"
    table["f"].overflow = back.overflows.take()
    back._ready.append(table["f"])
    back.limit = 5
    assert {problem.partition(":")[0] for problem in back.check()} == {
        "hosts",
        "the line",
        "the heap",
        "times",
        "in process",
        "waiting entries",
        "spilled",
        "empty queues",
        "empty overflows",
        "queues beyond the limit",
    }


@pytest.mark.parametrize("rested", ["h#7", "h"], ids=["a part", "all parts"])
def test_a_host_undivided_again_waits_for_parts_without_urls(jobdir, clock, rested):
    parts = 4
    back = back_end(jobdir, clock, parts_of=lambda _: parts)
    back.open([])
    push(back, "h", b"/0")
    parts = 1
    push(back, "h", b"/own")
    back.remembered.remember(rested, clock() + 60, 0.0, now=clock())

    def hand_out(now):
        for _ in range(20):
            queue = back.first_ready(now)
            if queue is None:
                return ""
            if not back.diverts(queue, decode(back.pop(queue)), now):
                back.begin(queue, now)
                return queue.host
        raise AssertionError

    assert hand_out(clock()) == ""
    clock.advance(60)
    assert hand_out(clock()) == "h"
