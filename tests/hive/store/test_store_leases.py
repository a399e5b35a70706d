"""Drones that are stopped at any step in the store while others go on with their shards."""

import itertools
from contextlib import suppress

import pytest
from published_shard import (
    KINDS,
    Living,
    adopted,
    newest_of,
    objects_in,
    store_of,
    url_of,
)
from text_tables import each

from webcrawl.hive.store.store import CheckpointStore
from webcrawl.hive.store.upload import SupersededError

long = [pytest.mark.long, pytest.mark.timeout(1800)]
kinds = pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=long * (kind != "links")) for kind in KINDS]
)
# At every step, or at some of them.
steps = pytest.mark.parametrize("step", [7, pytest.param(1, marks=long)])


class Stopped:
    """The objects of a store, whose user is stopped before its call number *at*, while *meanwhile*
    happens."""

    def __init__(self, objects, at, meanwhile):
        self._objects = objects
        self._calls = itertools.count(1)
        self._at = at
        self._meanwhile = meanwhile
        self.was_stopped = False

    def __getattr__(self, name):
        found = getattr(self._objects, name)
        if not callable(found):
            return found

        def call(*args, **options):
            if name == "delete":
                # One at a time: it may be stopped between two of them.
                for one in args[0]:
                    self._count()
                    found([one])
                return None
            self._count()
            return found(*args, **options)

        return call

    def _count(self):
        if next(self._calls) == self._at:
            self.was_stopped = True
            self._meanwhile()


def stopping(kind, path, patch, at, meanwhile):
    """The store of ``store_of``, for a drone that is `Stopped`."""
    store = CheckpointStore(url=url_of(kind, path, patch))
    store._objects = Stopped(store._objects, at, meanwhile)
    return store


@each("publications", 1, pytest.param(3, marks=long))
@kinds
@steps
def test_a_drone_that_was_stopped_at_any_step_harms_no_later_holder(
    tmp_path, monkeypatch, kind, publications, step
):
    for at in itertools.count(1, step):
        path = tmp_path / f"{at}"
        with monkeypatch.context() as patch:
            store = store_of(kind, path, patch, pack_bytes=4000)
            shard = Living(path / "d0")
            for n in range(3):
                shard.crawl(30 * n)
                shard.save(store)
            shard.crawl(90)
            shard.checkpoint()
            saved = {}

            def another_goes_on(store=store, path=path, saved=saved):
                other = adopted(store, path / "d1")
                for n in range(publications):
                    other.crawl(200 + 30 * n)
                    other.save(store, token=2)
                saved.update(other.contents())
                other.end()

            stopped = stopping(kind, path, patch, at, another_goes_on)
            objects = stopped._objects
            with suppress(SupersededError):
                shard.publish(stopped)
            if not objects.was_stopped:
                shard.end()
                break
            assert newest_of(store).key[0] == 2
            # It wakes up for good, and tries again and again.
            for _ in range(2):
                with pytest.raises(SupersededError):
                    shard.save(store)
            shard.end()
            third = adopted(store, path / "d2", token=3)
            assert third.contents() == saved
            third.save(store, token=3)
            third.save(store, token=3)
            third.end()
            left = {name.rpartition("/")[2].partition("-")[0] for name in objects_in(path)}
            assert left == {"3"}
    assert at > 10


@kinds
@steps
def test_a_fetch_that_was_stopped_at_any_step_ends_with_a_whole_checkpoint(
    tmp_path, monkeypatch, kind, step
):
    """While the shard's holder goes on, and deletes what it does not need."""
    for at in itertools.count(1, step):
        path = tmp_path / f"{at}"
        with monkeypatch.context() as patch:
            store = store_of(kind, path, patch, pack_bytes=4000)
            shard = Living(path / "d0")
            states = {}

            def go_on(store=store, shard=shard, states=states, count=3):
                for _ in range(count):
                    shard.crawl(30 * len(states))
                    shard.save(store)
                    states[1, len(states) + 1] = shard.contents()

            go_on(count=1)
            newest = newest_of(store)
            stopped = stopping(kind, path, patch, at, go_on)
            objects = stopped._objects
            fetched = stopped.fetch(newest, path / "d1/shards/00", token=2, before=0)
            shard.end()
            other = Living(path / "d1")
            assert other.contents() == states[fetched.key]
            other.end()
            if not objects.was_stopped:
                break
    assert at > 4
