import random

import pytest
from contracts.front_end import FrontEndContract
from frontier_rig import entry
from text_tables import each

from webcrawl.frontier import DepthRankPrioritizer, Entry, GeometricSelector, decode, encode
from webcrawl.frontier import front_end as module
from webcrawl.frontier.front_end import MercatorFrontEnd
from webcrawl.frontier.selector import FirstSelector
from webcrawl.storage.fifo import length_of


class TestMercator(FrontEndContract):
    def make(self, path):
        return MercatorFrontEnd(
            path=path,
            prioritizer=DepthRankPrioritizer(levels=5),
            selector=GeometricSelector(rng=random.Random(5)),
        )


class Stuck:
    """Prioritizer that breaks its contract."""

    levels = 3

    def __init__(self, level):
        self._level = level

    def level(self, entry):
        return self._level


def opened(path, prioritizer, snapshots=(), *, kind=MercatorFrontEnd):
    front = kind(path=path, prioritizer=prioritizer, selector=FirstSelector())
    front.open(snapshots)
    return front


def waiting(front):
    """Return how many entries wait in each level."""
    return [length_of(kept) for kept in front.snapshot()]


def test_levels_taken_from_the_prioritizer_later_still_drain(jobdir):
    front = opened(jobdir, DepthRankPrioritizer(levels=8))
    front.push([encode(entry("a.test", depth=3)), encode(entry("b.test"))])
    front = opened(jobdir, DepthRankPrioritizer(levels=2), front.snapshot())
    front.push([encode(entry("c.test", depth=3))])
    assert waiting(front) == [1, 1, 0, 0, 0, 0, 1, 0, 0]
    assert [decode(front.pop()).host[0] for _ in range(front.size)] == ["b", "c", "a"]


def test_levels_of_a_process_that_was_killed_leave_no_files(jobdir, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 2)
    front = opened(jobdir, DepthRankPrioritizer(levels=8))
    front.push([encode(entry("a.test", serial, depth=3)) for serial in range(9)])
    assert [*jobdir.rglob("*.log")]
    front = opened(jobdir, DepthRankPrioritizer(levels=2))
    assert not [*jobdir.rglob("*.log")]
    assert front.size == 0


def test_links_of_soft_errors_go_to_the_last_level(jobdir):
    front = opened(jobdir, Stuck(1))
    front.push([encode(Entry("http://a.test/", "a.test", score=one)) for one in (-1, 0, 100)])
    assert waiting(front) == [2, 0, 1, 0]


@each("level", 0, 4)
def test_level_outside_the_prioritizers_own_range_is_refused(jobdir, level):
    front = opened(jobdir, Stuck(level))
    with pytest.raises(ValueError, match=f"was given level {level}, not within 1 to"):
        front.push([encode(entry("a.test"))])
    assert front.size == 0


class Losing(MercatorFrontEnd):
    def push(self, entries):
        super().push(entries[1:])


class Repeating(MercatorFrontEnd):
    def pop(self):
        data = super().pop()
        super().push([data])
        return data


@each("kind", Losing, Repeating)
def test_a_front_end_that_loses_or_repeats_an_entry_is_detected(jobdir, kind):
    front = opened(jobdir, Stuck(1), kind=kind)
    module.check_entry_counts(front)
    calls = [lambda: front.push([encode(entry("a.test", n)) for n in range(3)]), front.pop]
    with pytest.raises(
        RuntimeError, match=r"FRONTIER_FRONT_END lost or repeated an entry \(\d, not"
    ):
        _ = [call() for call in calls]


class ByUrl:
    """Prioritizer by a letter of the URL; counts its calls."""

    levels = 3

    def __init__(self, *, judges_groups):
        self.judges_groups = judges_groups
        self.calls = 0

    def level(self, entry):
        self.calls += 1
        return 1 + entry.url.endswith("b")


@each("judges_groups calls levels", (False, 5, [2, 3, 0, 0]), (True, 3, [4, 1, 0, 0]))
def test_only_a_prioritizer_that_says_so_judges_a_group_once(jobdir, judges_groups, calls, levels):
    prioritizer = ByUrl(judges_groups=judges_groups)
    front = opened(jobdir, prioritizer)
    # Three groups, of which the last is a single URL too short for a length of its own.
    urls = ["http://a.test/a-path-of-some-length/a", "http://a.test/a-path-of-some-length/b"]
    entries = [Entry(url, "a.test", depth=depth) for depth in (1, 2) for url in urls]
    front.push([encode(one) for one in [*entries, Entry("http://a.test/b", "a.test", depth=1)]])
    assert (prioritizer.calls, waiting(front)) == (calls, levels)
