"""Whole crawls through the faults that seeds draw: nothing is lost, no host hurried."""

from collections import Counter

import pytest
from fault_rig import KINDS, REVISITING, Fault, FaultRig, Scenario, go_through, go_through_seed
from text_tables import each

# The N-th call of each kind fails, for every N of these.
_CALLS = ("open", "write", "fsync", "unlink", "replace", "mkdir")
_RARE_CALLS = ("create", "truncate", "rmdir", "rename", "link")
_SMALL = Scenario(
    1,
    {"hosts": 1, "mean_pages": 1, "max_pages": 3},
    {"CHECKPOINT_INTERVAL_SECS": 0.4, "CHECKPOINTS_KEPT_INTERVAL_SECS": 1},
    has_faults=False,
)
_STEP = 233
# A process that hangs ends much sooner: see warm.run.
_LONG = (pytest.mark.long, pytest.mark.timeout(3600))
_FIRST_SEEDS = (*range(0, 2000, 100), REVISITING)


@each(
    "seed",
    *(4, 11),
    # The first three with these have each kind of fault and of key, and parts.
    long=(2, 5, 6, *range(7, 11)),
)
def test_a_job_is_whole_after_the_faults_of(tmp_path, seed):
    go_through_seed(tmp_path, seed)


def test_no_visit_is_lost_or_early_after_faults(tmp_path):
    go_through_seed(tmp_path, 20_140)  # a clock that is set, a power failure, no file


@each("first", *[pytest.param(seed, marks=_LONG) for seed in _FIRST_SEEDS])
def test_a_job_is_whole_after_the_faults_of_a_hundred_seeds(tmp_path, first):
    hit = Counter()
    for seed in range(first, first + 100):
        directory = tmp_path / str(seed)
        directory.mkdir()
        go_through_seed(directory, seed, hit)
    assert {fault.kind for fault in hit} == set(KINDS)


@pytest.fixture(scope="module")
def counts(tmp_path_factory):
    """How often a small crawl makes each kind of call."""
    with FaultRig(tmp_path_factory.mktemp("counts"), _SMALL) as rig:
        _, told = rig.live(Fault())
    counts = Counter()
    for call, _, count in told.calls:
        counts[call] += count
    assert sorted(counts) == sorted(_CALLS + _RARE_CALLS)
    return counts


def _let_fail(directory, call, number):
    directory.mkdir()
    hit = Counter()
    go_through(directory, [Fault("broken", call, "", number)], _SMALL, hit=hit)
    return hit.total()


@each("call", *_CALLS, long=_RARE_CALLS)
def test_some_calls_of_each_kind_may_fail(tmp_path, counts, call):
    numbers = range(1, counts[call] + 1, _STEP)
    assert sum(_let_fail(tmp_path / str(number), call, number) for number in numbers)


@each("call", *[pytest.param(call, marks=_LONG) for call in _CALLS + _RARE_CALLS])
def test_every_call_may_fail(tmp_path, counts, call):
    for number in range(1, counts[call] + 1):
        assert _let_fail(tmp_path / str(number), call, number)
