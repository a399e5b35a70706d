import pytest
from text_tables import each

from webcrawl.frontier import Entry, FrontierSizes, decode, encode, overflow
from webcrawl.frontier.back_end import BackEnd
from webcrawl.frontier.domain_share import DomainShares
from webcrawl.frontier.rests import HostClocks


@pytest.fixture
def opened(jobdir, clock):
    """Return a function that opens back ends in one directory."""

    def make(members=(), *, limit=10, ceiling=10, parts_of=lambda _: 1):
        made = BackEnd(
            path=jobdir,
            clock=clock,
            remembered=HostClocks(clock=clock, limit=1000, store=None),
            sizes=FrontierSizes(queues=limit, max_queues=ceiling),
            soon=10.0,
            shares=DomainShares(),
            parts_of=parts_of,
            should_go_last=lambda _: False,
        )
        made.open([*members], limit)
        return made

    return make


@pytest.fixture
def back(opened):
    return opened()


def push(back, host, name):
    back.route(lambda: encode(Entry(name.decode(), host)), 1, drop=None)


def take(back, clock):
    """Hand out the first host in line."""
    queue = back.line.first_ready(clock())
    data = back.pop(queue)
    back.line.begin(queue, clock())
    return queue.host, decode(data).url.encode()


def give(back, host, rest, clock):
    back.end(back.find_in_process(host), clock() + rest, clock())


def take_all(back, clock, hosts):
    """Push two entries for each host and hand out one."""
    for host in hosts:
        flood(back, host, 2)
    for _ in hosts:
        take(back, clock)


def test_hosts_are_handed_out_in_the_order_of_their_times(back, clock):
    take_all(back, clock, "abc")
    for host, rest in (("c", 1), ("a", 3), ("b", 2)):
        give(back, host, rest, clock)
    assert back.line.earliest(clock()) == clock() + 1
    assert back.line.first_ready(clock()) is None
    assert (back.line.ready, back.line.snoozed) == (0, 3)
    clock.advance(3)
    assert [take(back, clock)[0] for _ in range(3)] == ["c", "b", "a"]
    assert back.line.earliest(clock()) is None


def test_hosts_of_the_same_time_keep_the_order_of_their_release(back, clock):
    take_all(back, clock, "abcde")
    for host in "badce":
        give(back, host, 5, clock)
    clock.advance(5)
    assert [take(back, clock)[0] for _ in range(5)] == list("badce")


def test_no_call_wakes_more_hosts_than_it_should(opened, clock):
    back = opened(limit=500, ceiling=500)
    names = [f"h{number}" for number in range(200)]
    take_all(back, clock, names)
    for name in names:
        give(back, name, 1, clock)
    clock.advance(1)
    assert back.line.first_ready(clock()) is not None
    assert (back.line.ready, back.line.snoozed) == (64, 136)
    assert [take(back, clock)[0] for _ in names] == names


def test_host_put_back_without_room_gets_a_queue_all_the_same(opened, clock):
    back = opened(limit=1, ceiling=1)
    push(back, "a.test", b"1")
    take(back, clock)
    give(back, "a.test", 5, clock)
    push(back, "b.test", b"1")
    assert not back.has_room()
    assert not back.grow()
    back.push_front(Entry("1", "a.test"))
    assert back.limit == 2


def flood(back, host, count, first=0):
    for serial in range(first, first + count):
        push(back, host, b"%d" % serial)


def publish(back):
    back.snapshot()
    back.overflows.forget()


def drain(back, clock):
    out = []
    while back.size:
        host, data = take(back, clock)
        out.append(data)
        give(back, host, 0, clock)
    return out


def files_in(path):
    return sorted(file for file in path.rglob("*") if file.is_file())


def test_overflow_is_made_when_the_list_is_full_and_emptied_after_publication(back, clock, jobdir):
    flood(back, "flood.test", 200)
    assert back.sizes()["frontier/queues/spilled"] == 1
    (file,) = files_in(jobdir)
    (snapshot,) = back.snapshot().members
    assert {*back.overflows.written()} >= {file, file.parent, file.parent.parent, jobdir}
    back.overflows.forget()
    assert len(snapshot.items) == 16
    assert len(drain(back, clock)) == 200
    assert back.sizes()["frontier/queues/spilled"] == 0
    # The published snapshot still names it, and so would a forget() that belongs to it.
    back.overflows.forget()
    assert files_in(jobdir) == [file]
    back.snapshot()
    assert files_in(jobdir) == [file]
    back.overflows.forget()
    assert files_in(jobdir) == []


def numbers_in(path):
    """Return the numbers of the overflows that have files."""
    return {int(file.stem) >> 20 for file in files_in(path)}


def test_numbers_of_drained_queues_are_reused(back, opened, clock, jobdir):
    for turn in range(5):
        for host in "abc":
            flood(back, host, 100)
        assert numbers_in(jobdir) == {1, 2, 3}, turn
        assert sorted(drain(back, clock)) == sorted(b"%d" % n for n in range(100) for _ in "abc")
        publish(back)
        assert files_in(jobdir) == []
    flood(back, "d", 100)
    # What no snapshot names is free for the next process too.
    again = opened()
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
    publish(back)
    assert len(files_in(jobdir)) == 4
    for host in "abc":
        flood(back, host, 100)
    # Two were empty, the third was emptied for its new owner.
    assert numbers_in(jobdir) == {1, 2, 3, 4, 5, 6}
    for _ in range(2):
        publish(back)
    assert len(files_in(jobdir)) == 3
    assert len(drain(back, clock)) == 300


def test_directory_of_a_queue_that_drained_before_any_checkpoint_is_synced(back, clock, jobdir):
    """The directory will be reused, and a file is only as durable as its directory's entry."""
    flood(back, "a", 100)
    (directory,) = jobdir.glob("*/")
    drain(back, clock)
    back.snapshot()
    assert {*back.overflows.written()} >= {directory, jobdir}


def test_table_larger_than_the_new_limit_is_restored_completely(back, opened):
    for host in "abcdef":
        push(back, host, b"1")
    small = opened(back.snapshot().members, limit=2, ceiling=3)
    assert small.sizes()["frontier/hosts/ready"] == small.limit == 6


@each("rested", "h#7", "h", ids=["a part", "all parts"])
def test_a_host_no_longer_divided_waits_for_its_parts_to_rest(opened, clock, rested):
    parts = 4
    back = opened(parts_of=lambda _: parts)
    push(back, "h", b"/0")
    parts = 1
    push(back, "h", b"/own")
    back.remembered.remember(rested, clock() + 60, 0.0, now=clock())

    def hand_out():
        while (queue := back.line.first_ready(clock())) is not None:
            if not back.divert(queue, decode(back.pop(queue)), clock()):
                back.line.begin(queue, clock())
                return queue.host
        return None

    assert hand_out() is None
    clock.advance(60)
    assert hand_out() == "h"
