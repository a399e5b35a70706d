"""Claims of shards in a store that drones of different masters share."""

import pytest
from published_shard import FACTS, LIST

from webcrawl.errors import StoreAwayError
from webcrawl.hive.store.store import CheckpointStore


@pytest.fixture
def store(tmp_path):
    store = CheckpointStore(url=str(tmp_path / "store"))
    store.enter(FACTS, LIST)
    return store


def test_the_first_of_two_drones_that_make_the_same_claim_has_it(store):
    assert store.claim({0: 5, 1: 6}, "a") == {0: 0, 1: 0}
    assert store.claim({0: 5, 1: 7}, "b") == {1: 6}
    assert [store.claimant(0, 5), store.claimant(1, 7)] == ["a", "b"]


def test_an_older_claim_is_refused_and_a_newer_one_ends_it(store):
    assert store.claim({0: 5}, "a") == {0: 0}
    assert store.claim({0: 4}, "b") == {}
    assert store.claim({0: 9}, "b") == {0: 5}
    assert store.beat("a") == {0: 9}
    assert [store.claimant(0, token) for token in (4, 5, 9)] == ["", "", "b"]


def test_a_renewal_costs_three_requests_however_many_shards_are_claimed(store):
    store.claim(dict.fromkeys(range(512), 5), "a")
    calls = []

    class Counted:
        def __getattr__(self, name):
            calls.append(name)
            return getattr(objects, name)

    objects, store._objects = store._objects, Counted()
    assert len(store.beat("a")) == 512
    assert calls == ["read", "write", "names"]


def test_no_claim_is_made_in_a_store_that_is_not_mounted(store, tmp_path):
    (tmp_path / "store").rename(tmp_path / "away")
    with pytest.raises(StoreAwayError, match="it is not mounted, or was emptied"):
        store.claim({0: 5}, "a")


def test_other_objects_among_the_claims_are_ignored(store, tmp_path):
    store.claim({0: 5}, "a")
    for name in ("0-9.1a2b.tmp", "README", "0-x", "-1-2", "1-"):
        (tmp_path / "store/claims" / name).touch()
    assert store.beat("a") == {0: 5}


def test_a_heartbeat_differs_from_all_of_earlier_processes(tmp_path, store):
    beats = set()
    for _ in range(3):
        process = CheckpointStore(url=str(tmp_path / "store"))
        for _ in range(3):
            process.beat("a")
            beats |= {*process.heartbeats_of(["a", "b"]).items()}
    assert len(beats) == 9
