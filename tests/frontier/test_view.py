"""Tests that a view of the files shows what a restart would hand out."""

import random
import shutil

import msgspec
import pytest
from frontier_rig import entry, urls_of
from looking import contents
from msgspec.structs import replace
from strategies import seeds
from text_tables import each

from webcrawl.frontier import SUBRESOURCE, Entry, encode
from webcrawl.frontier.rests import stored_rest
from webcrawl.frontier.view import Where
from webcrawl.storage import fifo
from webcrawl.storage.record_log import CorruptRecordError


def find(view, wanted, *, containing=b".test"):
    return list(view.find(wanted, view.finished_keys(), containing=containing))


def where(found):
    return found.queue.where, found.queue.name, found.position


def find_one(view, url):
    (found,) = find(view, lambda entry: entry.url == url)
    return found


def places(view):
    return {queue.where.value + queue.name: queue.length for queue in view.queues() if queue.length}


@each("trust_done", True, False)
@each("seed", *seeds(12))
def test_the_view_has_what_a_restart_hands_out(rig_of, seed, trust_done, monkeypatch):
    monkeypatch.setattr("webcrawl.frontier.front_end.CHUNK", 4)
    monkeypatch.setattr("webcrawl.frontier.overflow.CHUNK", 2)
    monkeypatch.setattr("webcrawl.frontier.overflow.SEGMENT_BYTES", 200)
    rng = random.Random(seed)
    rig = rig_of(queues=3, slice_size=rng.choice((1, 8, 64)))
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
                    rig.release(lease.entry.host)
                    leases.append(lease)
            case 4 if leases:
                rig.finish(leases.pop(rng.randrange(len(leases))))
            case 5 if leases:
                lease = leases.pop()
                rig.retry(lease, msgspec.structs.replace(lease.entry, attempts=1))
            case 6 if leases:
                rig.put_back(leases.pop())
            case 7 if rng.random() < 0.3:
                rig.publish()
    rig.kill()
    before = contents(rig.path)
    seen = rig.entries(trust_done=trust_done)
    everything = rig.view(trust_done=trust_done)
    for found in rng.sample(seen, min(len(seen), 5)):
        same = find(everything, lambda e, url=found.entry.url: e.url == url)
        assert where(found) in map(where, same)
    assert contents(rig.path) == before
    rig.start(trust_done=trust_done)
    assert urls_of(found.entry for found in seen) == urls_of(rig.drain())


def test_the_view_shows_where_each_entry_is(rig):
    rig.push(*(entry("a.test", n) for n in range(40)), entry("b.test"))
    lease = rig.next()
    rig.push(*(entry("c.test", n, depth=2) for n in range(3)))
    rig.publish()
    rig.requeue(entry("a.test", 99))
    view = rig.view()
    assert places(view) == {
        "leased": 1,
        "host queuea.test": 39,
        "host queueb.test": 1,
        "level5": 3,
        "requeued": 1,
    }
    for url, place in {
        "http://a.test/30": (Where.HOST_QUEUE, "a.test", 30),
        "http://c.test/1": (Where.LEVEL, "5", 2),
        lease.entry.url: (Where.LEASED, "", 1),
    }.items():
        assert where(find_one(view, url)) == place
    assert find(view, lambda _: True, containing=b"nobody.test") == []


def test_the_view_shows_why_an_entry_is_parked(rig):
    rig.parked.push("budget", [encode(entry("a.test", n)) for n in range(600)])
    rig.publish()
    assert places(rig.view()) == {"parkedbudget": 600}
    assert where(find_one(rig.view(), "http://a.test/500")) == (Where.PARKED, "budget", 501)
    assert len(rig.entries()) == 600


def test_a_script_of_a_rendered_page_is_not_shown_as_a_waiting_url(rig):
    """A list of URLs to crawl is made of the view, and a page at the same URL may be finished."""
    page = entry("a.test")
    rig.parked.push("full", [encode(page), encode(replace(page, kind=SUBRESOURCE))])
    rig.publish()
    assert [found.entry for found in find(rig.view(), lambda _: True)] == [page]


def test_urls_finished_since_the_checkpoint_are_not_counted_as_ahead(rig, clock):
    rig.fill("a.test", 9)
    rig.publish()
    for _ in range(4):
        rig.fetch(rig.next())
        clock.advance(1000)
    found = find_one(rig.view(), "http://a.test/7")
    assert (found.position, found.gone, found.queue.length) == (4, 4, 9)
    assert [(one.position, one.gone) for one in rig.entries()] == [(n, 4) for n in range(1, 6)]


def test_the_last_record_sets_the_clock_of_a_host(rig, clock):
    rig.push(entry("a.test", 0), entry("a.test", 1), entry("b.test"))
    first = rig.next()
    rig.publish()
    assert rig.view().times(first.entry.host).contact == pytest.approx(clock.now)
    rig.release(first.entry.host, at_least=77.0)
    rig.frontier._log.write()
    over = rig.view().times(first.entry.host)
    assert (over.contact, over.min_rest) == (0.0, 77.0)
    assert over.ready_at == pytest.approx(clock.now + 77.0)
    assert dict(rig.view().hosts())[first.entry.host] == over
    assert rig.next().entry.host == "b.test"
    assert rig.view().times("b.test").contact > 0
    assert rig.view().times("nobody.test") == (0.0, 0.0, 0.0, 0)


def test_a_host_without_urls_rests_too(rig, clock):
    rig.push(entry("a.test"))
    rig.fetch(rig.next(), took=1.0)
    rig.publish()
    assert rig.view().times("a.test").ready_at == pytest.approx(clock.now + 10.0)


def test_a_rest_that_was_put_aside_is_readable(rig_of, clock):
    rig = rig_of(remembered=0)
    rig.push(entry("a.test"))
    rig.fetch(rig.next(), took=1.0)
    until, min_rest = stored_rest(rig.records.rests.get("a.test"))
    assert (until, min_rest) == (pytest.approx(clock.now + 10.0), 0.0)


def test_damage_is_reported_with_its_position(rig, monkeypatch):
    rig.fill("a.test", 2000)
    rig.publish()
    monkeypatch.setattr(fifo, "SEGMENT_END", b"never")
    assert len(rig.entries()) == 2000
    for path in rig.path.glob("front/*/*.log"):
        shutil.move(path, path.with_suffix(".gone"))
    with pytest.raises(CorruptRecordError, match="the file is gone"):
        rig.entries()


def test_an_invalid_piece_is_reported_as_damage(rig):
    rig.push(Entry("http://a.test/", "a.test"))
    rig.publish()
    view = rig.view()
    bad = next(q for q in view.queues() if q.length)._replace(pieces=lambda: iter([b"\1\0\0\0\1"]))
    view.queues = lambda: iter([bad])
    with pytest.raises(CorruptRecordError, match="not packed items"):
        [*view.entries(view.finished_keys())]
