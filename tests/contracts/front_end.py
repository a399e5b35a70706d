"""What the frontier needs of a front end, and what readers of its files need."""

import itertools
import random

import pytest
from disk import full_disk

from webcrawl.frontier import Entry, decode, encode, front_end
from webcrawl.frontier.front_end import MercatorFrontEnd
from webcrawl.frontier.prioritizer import DepthPrioritizer
from webcrawl.frontier.selector import FirstSelector
from webcrawl.storage.fifo import read_fifo
from webcrawl.storage.record_log import unpack_many


def entries(numbers):
    """Encoded entries of URLs with *numbers*, of some hosts, depths and ranks."""
    return [
        encode(Entry(f"http://h{n % 7}.test/{n}", f"h{n % 7}.test", n % 90, n * n % 1009))
        for n in numbers
    ]


def urls(datas):
    return sorted(decode(data).url for data in datas)


def drained(front):
    """All that is popped until the front end is empty."""
    return [front.pop() for _ in range(front.size)]


class FrontEndContract:
    """Subclasses define ``make(path)``: a front end that is not open."""

    def make(self, path):
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch):
        monkeypatch.setattr(front_end, "CHUNK", 3)

    @pytest.fixture
    def path(self, tmp_path):
        return tmp_path / "front"

    def opened(self, path, snapshots=(), count=0):
        """With *count* entries."""
        front = self.make(path)
        front.open(snapshots)
        front.push(entries(range(count)))
        return front

    def test_each_entry_comes_out_once_and_the_size_is_exact(self, path):
        front, rng = self.opened(path), random.Random(1)
        numbers, waiting, popped = itertools.count(), 0, []
        for _ in range(300):
            batch = entries(itertools.islice(numbers, rng.randrange(6)))
            front.push(batch)
            waiting += len(batch)
            for _ in range(rng.randrange(min(waiting, 4) + 1)):
                popped.append(front.pop())
                waiting -= 1
            assert front.size == waiting
        assert urls(popped + drained(front)) == urls(entries(range(next(numbers))))
        with pytest.raises(IndexError):
            front.pop()
        assert front.size == 0

    def test_a_killed_process_is_gone_on_with_from_its_last_snapshot(self, path):
        front = self.opened(path, count=100)
        gone = [front.pop() for _ in range(30)]
        saved = front.snapshot()
        front.written()
        front.forget()
        for _ in range(50):
            front.pop()
        front.push(entries(range(100, 200)))
        front = self.opened(path, saved)
        assert front.size == 70
        assert urls(gone + drained(front)) == urls(entries(range(100)))

    def test_what_no_snapshot_names_leaves_no_file(self, path):
        self.opened(path, count=100)
        front = self.opened(path)
        assert front.size == 0
        assert [one for one in path.rglob("*") if one.is_file()] == []

    def test_files_that_a_snapshot_names_stay_until_a_newer_one_is_published(self, path):
        front = self.opened(path, count=200)
        saved = front.snapshot()
        front.forget()
        drained(front)
        front.push(entries(range(200, 300)))
        front.snapshot()
        assert len(drained(self.opened(path, saved))) == 200

    def test_readers_find_the_entries_in_the_numbered_directories(self, path):
        front = self.opened(path, count=100)
        found = []
        for number, saved in enumerate(front.snapshot(), start=1):
            for piece in read_fifo(path / f"{number:02d}", saved):
                found += unpack_many(piece)
        assert urls(found) == urls(entries(range(100)))

    def test_files_that_were_written_are_named_once_for_the_fsync(self, path):
        front = self.opened(path, count=100)
        front.snapshot()
        assert {*front.written()} >= {one for one in path.rglob("*") if one.is_file()}
        assert front.written() == []

    def test_a_crawl_may_change_to_it_and_from_it(self, path):
        def other():
            return MercatorFrontEnd(
                path=path, prioritizer=DepthPrioritizer(levels=90), selector=FirstSelector()
            )

        front = other()
        front.open(())
        front.push(entries(range(100)))
        front = self.opened(path, front.snapshot())
        front.push(entries(range(100, 200)))
        saved = front.snapshot()
        front = other()
        front.open(saved)
        assert urls(drained(front)) == urls(entries(range(200)))

    def test_a_full_disk_loses_no_entry(self, path):
        front = self.opened(path)
        with full_disk(100):
            front.push(entries(range(1000)))
        assert front.size == 1000
        assert urls(drained(front)) == urls(entries(range(1000)))
