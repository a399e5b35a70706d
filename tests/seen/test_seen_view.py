"""Tests that a view of an eliminator's files shows what a restart would return."""

import random

import pytest
from looking import contents
from seen_rig import (
    HeldExecutor,
    bloom_eliminator,
    disk_eliminator,
    drain,
    names,
    publish,
    submit,
)
from strategies import seeds
from text_tables import each

from webcrawl.seen import url_log
from webcrawl.seen.fingerprint import fingerprint
from webcrawl.seen.seen_view import SeenView
from webcrawl.storage.record_log import CorruptRecordError, pack_many

KINDS = {"disk": disk_eliminator, "bloom": bloom_eliminator}


@each("kind", *KINDS)
@each("seed", *seeds(15))
def test_the_view_has_the_urls_that_a_restart_lets_out(opened, tmp_path, kind, seed):
    rng = random.Random(seed)
    path = tmp_path / "seen"
    executor = HeldExecutor()
    one = opened(KINDS[kind], executor, path=path)
    snapshot = publish(one)
    submitted, taken, taken_then = [], set(), set()
    for _ in range(120):
        match rng.randrange(6):
            case 0 | 1 | 2:
                urls = rng.sample(names(200), rng.randrange(1, 8))
                submit(one, urls)
                submitted += urls
            case 3:
                one.add(fingerprint(f"http://alone.test/{rng.randrange(50)}"))
            case 4:
                if rng.random() < 0.3:
                    one.merge()
                executor.step()
                taken |= {payload.decode() for payload in one.take(rng.randrange(1, 6))}
            case 5 if rng.random() < 0.4:
                snapshot = publish(one)
                taken_then = set(taken)
                executor.run()
    before = contents(path)
    view = SeenView(path=path, snapshot=snapshot)
    undecided = [one.payload.decode() for one in view.undecided_entries()]
    for url in dict.fromkeys(submitted):
        fp = fingerprint(url)
        assert view.has(fp) or url in undecided
        found = [(one.fp, one.payload) for one in view.undecided_entries({fp})]
        assert found == ([(fp, url.encode())] if url in undecided else [])
    for url in taken_then:
        assert url not in undecided
    view.close()
    assert contents(path) == before
    _die(one, executor)
    again = opened(KINDS[kind], path=path, snapshot=snapshot)
    assert drain(again) == undecided


def _die(one, executor):
    executor.run()
    one.close()
    if executor.step():  # what closing has left to do
        one.close()


def test_a_url_that_was_not_submitted_is_unknown(opened, tmp_path):
    for kind, make in KINDS.items():
        path = tmp_path / kind
        one = opened(make, path=path)
        submit(one, ["http://a.test/"])
        view = SeenView(path=path, snapshot=publish(one))
        assert not view.has(fingerprint("http://b.test/"))
        assert [*view.undecided_entries({fingerprint("http://b.test/")})] == []
        view.close()


def test_damage_is_reported_with_its_position(opened, tmp_path):
    path = tmp_path / "seen"
    one = opened(path=path)
    submit(one, names(20))
    drain(one)
    snapshot = publish(one)
    one.close()
    for run in path.glob("*.run"):
        run.unlink()
    with pytest.raises(CorruptRecordError, match="missing"):
        SeenView(path=path, snapshot=snapshot)
    with pytest.raises(CorruptRecordError, match="unreadable snapshot"):
        SeenView(path=path, snapshot=b"\xff")


def test_invalid_payloads_are_damage(opened, tmp_path, monkeypatch):
    path = tmp_path / "seen"
    one = opened(path=path)
    monkeypatch.setattr(url_log, "pack_many", lambda items: pack_many(items)[:-1])
    submit(one, names(1))
    view = SeenView(path=path, snapshot=publish(one))
    with pytest.raises(CorruptRecordError, match="not packed items"):
        list(view.undecided_entries())
    view.close()
