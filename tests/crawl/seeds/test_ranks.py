"""HostRanks against a dict, across restarts, crashes and a full disk."""

import random
import shutil
import tempfile
from pathlib import Path

import pytest
from disk import PowerLoss, flipped, full_disk
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from strategies import examples
from text_tables import each

from webcrawl.crawl.seeds.ranks import HostRanks
from webcrawl.storage.atomic import sync_paths
from webcrawl.storage.record_log import CorruptRecordError, RecordLog


def opened(path, snapshot=None, *, capacity=1 << 20, recent=1000):
    ranks = HostRanks(path=path, capacity=capacity)
    ranks.resize(recent)
    ranks.open(snapshot)
    return ranks


@pytest.fixture
def path(tmp_path):
    return tmp_path / "shards" / "ranks"


@pytest.fixture
def log(path):
    return path / "ranks.log"


@pytest.fixture
def ranks(path):
    ranks = opened(path)
    yield ranks
    ranks.close()


def batches(hosts):
    pairs = [(f"host{n}.test", n + 1) for n in range(hosts)]
    return [pairs[i : i + 7] for i in range(0, hosts, 7)]


# Ranks


def test_a_rank_beyond_32_bits_is_the_last_one(ranks):
    ranks.add_many([("a.test", 10**12), ("b.test", 2**32 - 1)])
    ranks.add_many([("a.test", 10**13)])
    assert ranks.rank("a.test") == ranks.rank("b.test") == 2**32 - 1


# On disk


def test_a_batch_without_news_writes_nothing(ranks, log):
    ranks.add_many([("a.test", 3)])
    size = log.stat().st_size
    assert size == 8 + 8 + 12
    ranks.add_many([])
    ranks.add_many([("a.test", 3), ("a.test", 9), ("b.test", 0)])
    assert log.stat().st_size == size


def test_a_resumed_log_is_to_be_synced_although_it_is_not_written_to(ranks, log):
    """The records after the snapshot may never have been synced, the next snapshot names them."""
    snapshot = ranks.snapshot()
    ranks.add_many([("a.test", 3)])
    ranks.close()
    ranks.open(snapshot)
    assert log in ranks.written()


def test_without_a_snapshot_all_begins_anew(ranks, path):
    ranks.add_many([("a.test", 3)])
    ranks.close()
    ranks = opened(path, None)
    assert ranks.rank("a.test") == 0
    assert len(ranks) == 0
    ranks.close()


def test_damage_before_the_snapshot_is_raised(ranks, path, log):
    ranks.add_many([("a.test", 3)])
    snapshot = ranks.snapshot()
    ranks.close()
    log.write_bytes(flipped(log.read_bytes(), 12, 0x10))
    with pytest.raises(CorruptRecordError, match=r"ranks\.log"):
        opened(path, snapshot)
    log.unlink()
    with pytest.raises(CorruptRecordError, match="gone"):
        opened(path, snapshot)


def test_a_record_that_holds_no_pairs_is_damage(ranks, path, log):
    ranks.close()
    with RecordLog.open(log) as records:
        records.append(b"x" * 13)
    with pytest.raises(CorruptRecordError, match="not pairs of host and rank"):
        opened(path, ranks.snapshot())


def test_a_full_disk_adds_nothing_and_later_there_is_room(ranks, path):
    ranks.add_many([("a.test", 3)])
    with full_disk(40):
        ranks.add_many([("a.test", 1), ("b.test", 4)])
    assert (ranks.rank("a.test"), ranks.rank("b.test"), len(ranks)) == (3, 0, 1)
    ranks.add_many([("a.test", 1), ("b.test", 4)])
    assert (ranks.rank("a.test"), ranks.rank("b.test"), len(ranks)) == (1, 4, 2)


# Dying


@each("seed", *range(4))
def test_a_power_loss_leaves_what_a_published_snapshot_names(tmp_path, monkeypatch, seed):
    rng = random.Random(seed)
    root = tmp_path / "root"
    root.mkdir()
    power = PowerLoss(root, monkeypatch)
    ranks = opened(root / "ranks")
    added = 0
    for n, batch in enumerate(batches(200)):
        ranks.add_many(batch)
        added += len(batch)
        if n % 3 == 0:
            snapshot, published = ranks.snapshot(), added
            sync_paths(ranks.written())
        left = opened(power.lose(tmp_path / str(n), rng) / "ranks", snapshot)
        assert published <= len(left) <= added
        assert [left.rank(f"host{n}.test") for n in range(published)] == [*range(1, published + 1)]
        left.close()
    ranks.close()
    power.close()


# Against a dict

HOSTS = st.integers(0, 40).map("h{}.test".format)
PAIRS = st.lists(st.tuples(HOSTS, st.integers(-1, 50)), max_size=15)


class RanksMachine(RuleBasedStateMachine):
    """Any adding, saving and killing gives what a dict gives that forgets nothing."""

    @initialize(capacity=st.sampled_from([1, 5, 20, 1000]))
    def begin(self, capacity):
        self.capacity = capacity
        self.directory = Path(tempfile.mkdtemp(prefix="ranks-"))
        self.ranks = opened(self.directory, capacity=capacity, recent=3)
        self.snapshot = self.ranks.snapshot()
        self.model = {}

    @rule(pairs=PAIRS)
    def add(self, pairs):
        self.ranks.add_many(pairs)
        for host, rank in pairs:
            if rank > 0 and (host in self.model or len(self.model) < self.capacity):
                self.model[host] = min(rank, self.model.get(host, rank))

    @rule()
    def save(self):
        self.snapshot = self.ranks.snapshot()
        self.ranks.forget()

    @rule(torn=st.binary(max_size=30))
    def kill(self, torn):
        self.ranks.close()
        with (self.directory / "ranks.log").open("ab") as file:
            file.write(torn)
        self.ranks = opened(self.directory, self.snapshot, capacity=self.capacity, recent=3)

    @invariant()
    def same_as_the_dict(self):
        assert len(self.ranks) == len(self.model)
        for n in range(41):
            assert self.ranks.rank(f"h{n}.test") == self.model.get(f"h{n}.test", 0)

    def teardown(self):
        if hasattr(self, "ranks"):
            self.ranks.close()
            shutil.rmtree(self.directory)


TestRanksMachine = RanksMachine.TestCase
TestRanksMachine.settings = examples(40, stateful_step_count=25)
