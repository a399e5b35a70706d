"""The frontier as its files tell: what is seen is what a restart would hand out."""

import random
import shutil

import msgspec
import pytest
from frontier_rig import Rig, entry, urls_of
from looking import contents

from webcrawl.frontier import Entry, encode
from webcrawl.frontier.rests import stored_rest
from webcrawl.frontier.view import FrontierView, Where
from webcrawl.storage import fifo
from webcrawl.storage.record_log import CorruptRecordError


@pytest.fixture
def rig(tmp_path, clock):
    made = Rig(tmp_path / "frontier", clock)
    yield made
    made.close()


def view_of(rig, *, trust_done=True):
    return FrontierView(path=rig.path, snapshot=rig.published, trust_done=trust_done)


def entries(view):
    return list(view.entries(view.finished_keys()))


def find(view, wanted, *, containing):
    return list(view.find(wanted, view.finished_keys(), containing=containing))


def where(found):
    return found.queue.where, found.queue.name, found.position, found.entry


def places(view):
    return {queue.where.value + queue.name: queue.length for queue in view.queues() if queue.length}


@pytest.mark.parametrize("trust_done", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_the_view_has_what_a_restart_hands_out(tmp_path, clock, seed, trust_done, monkeypatch):
    monkeypatch.setattr("webcrawl.frontier.front_end.CHUNK", 4)
    monkeypatch.setattr("webcrawl.frontier.overflow.CHUNK", 2)
    monkeypatch.setattr("webcrawl.frontier.overflow.SEGMENT_BYTES", 200)
    rng = random.Random(seed)
    rig = Rig(tmp_path / "frontier", clock, queues=3, slice_size=rng.choice((1, 8, 64)))
    rig.publish()
    serial, leases = 0, []

    for _ in range(300):
        match rng.randrange(8):
            case 0 | 1:
                fresh = [
                    entry(f"h{rng.randrange(4)}.test", serial + n, depth=rng.randrange(3))
                    for n in range(rng.randrange(12))
                ]
                rig.push(*fresh)
                serial += len(fresh)
            case 2 | 3:
                lease = rig.next()
                if lease is not None:
                    rig.release(lease.entry.host, fetched=True, took=0.1)
                    leases.append(lease)
            case 4 if leases:
                rig.frontier.finish(leases.pop(rng.randrange(len(leases))))
            case 5 if leases:
                lease = leases.pop()
                again = msgspec.structs.replace(lease.entry, attempts=1)
                rig.frontier.requeue(again)
                rig.frontier.finish(lease)
            case 6 if leases:
                rig.frontier.put_back(leases.pop())
            case 7 if rng.random() < 0.3:
                rig.publish()
    rig.kill()
    before = contents(rig.path)
    seen = entries(view_of(rig, trust_done=trust_done))
    everything = view_of(rig, trust_done=trust_done)
    for found in rng.sample(seen, min(len(seen), 5)):
        same = list(
            find(everything, lambda e, url=found.entry.url: e.url == url, containing=b".test")
        )
        assert where(found) in map(where, same)
    assert contents(rig.path) == before
    rig.start(trust_done=trust_done)
    assert urls_of(found.entry for found in seen) == urls_of(rig.drain())
    rig.close()


def test_each_entry_has_its_place(rig, clock):
    rig.push(*(entry("a.test", n) for n in range(40)), entry("b.test"))
    lease = rig.next()
    rig.push(*(entry("c.test", n, depth=2) for n in range(3)))
    rig.publish()
    rig.frontier.requeue(entry("a.test", 99))
    view = view_of(rig)
    assert places(view) == {
        "leased": 1,
        "host queuea.test": 39,
        "host queueb.test": 1,
        "level5": 3,
        "requeued": 1,
    }
    (found,) = find(view, lambda e: e.url.endswith("/30"), containing=b"a.test")
    assert (found.queue.where, found.queue.name, found.position) == (
        Where.HOST_QUEUE,
        "a.test",
        30,
    )
    (found,) = find(view, lambda e: e.url == "http://c.test/1", containing=b"c.test")
    assert (found.queue.where, found.queue.name, found.position) == (Where.LEVEL, "5", 2)
    (found,) = find(view, lambda e: e.url == lease.entry.url, containing=b"a.test")
    assert found.queue.where is Where.LEASED
    assert find(view, lambda _: True, containing=b"nobody.test") == []


def test_what_is_parked_has_its_reason(rig):
    rig.frontier.parked.push("budget", [encode(entry("a.test", n)) for n in range(600)])
    rig.publish()
    view = view_of(rig)
    assert places(view) == {"parkedbudget": 600}
    (found,) = find(view, lambda e: e.url.endswith("/500"), containing=b"a.test")
    assert (found.queue.where, found.queue.name, found.position) == (Where.PARKED, "budget", 501)
    assert len(entries(view)) == 600


def test_urls_finished_since_the_checkpoint_are_not_counted_as_ahead(rig, clock):
    rig.push(*(entry("a.test", n) for n in range(9)))
    rig.publish()
    for _ in range(4):
        rig.fetch(rig.next())
        clock.advance(1000)
    view = view_of(rig)
    (found,) = find(view, lambda e: e.url.endswith("/7"), containing=b"a.test")
    assert (found.position, found.gone, found.queue.length) == (4, 4, 9)
    assert [(one.position, one.gone) for one in entries(view)] == [(n, 4) for n in range(1, 6)]


def test_the_clock_of_a_host_is_that_of_the_last_word(rig, clock):
    rig.push(entry("a.test", 0), entry("a.test", 1), entry("b.test"))
    first = rig.next()
    rig.publish()
    begun = view_of(rig).times(first.entry.host)
    assert begun.contact == pytest.approx(clock.now)
    rig.release(first.entry.host, fetched=True, at_least=77.0)
    rig.frontier._log.write()
    over = view_of(rig).times(first.entry.host)
    assert (over.contact, over.min_rest) == (0.0, 77.0)
    assert over.ready_at == pytest.approx(clock.now + 77.0)
    assert dict(view_of(rig).hosts())[first.entry.host] == over
    second = rig.next()
    assert second.entry.host == "b.test"
    assert view_of(rig).times("b.test").contact > 0
    assert view_of(rig).times("nobody.test") == (0.0, 0.0, 0.0, 0)


def test_a_host_without_urls_rests_too(rig, clock):
    rig.push(entry("a.test"))
    rig.fetch(rig.next(), took=1.0)
    rig.publish()
    assert view_of(rig).times("a.test").ready_at == pytest.approx(clock.now + 10.0)


def test_a_rest_that_was_put_aside_is_readable(tmp_path, clock):
    rig = Rig(tmp_path / "frontier", clock, remembered=0)
    rig.push(entry("a.test"))
    rig.fetch(rig.next(), took=1.0)
    until, min_rest = stored_rest(rig.records.rests.get("a.test"))
    assert (until, min_rest) == (pytest.approx(clock.now + 10.0), 0.0)
    rig.close()


def test_damage_is_told_with_its_place(rig, monkeypatch):
    rig.push(*(entry("a.test", n) for n in range(2000)))
    rig.publish()
    monkeypatch.setattr(fifo, "SEGMENT_END", b"never")
    assert len(entries(view_of(rig))) == 2000
    for path in rig.path.glob("front/*/*.log"):
        shutil.move(path, path.with_suffix(".gone"))
    with pytest.raises(CorruptRecordError, match="the file is gone"):
        entries(view_of(rig))


def test_a_piece_that_is_none_is_damage(rig):
    rig.push(Entry("http://a.test/", "a.test"))
    rig.publish()
    view = view_of(rig)
    queue = next(q for q in view.queues() if q.length)
    bad = queue._replace(pieces=lambda: iter([b"\1\0\0\0\1"]))
    view.queues = lambda: iter([bad])
    with pytest.raises(CorruptRecordError, match="not packed items"):
        entries(view)
