"""The history of a process: counts and gauges over time, in a file of bounded size."""

import doctest
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_tables import each

from webcrawl.crawl.lease.outcome_log import NAMES, is_given_up
from webcrawl.doctor import history
from webcrawl.doctor.diagnosis import Cause, Diagnosis
from webcrawl.doctor.history import DAY, HOUR, KINDS, MINUTE, ROWS, History, kind_of, read_series
from webcrawl.doctor.record import Record
from webcrawl.states import State

T0 = 1_800_000_000
RECORD = Record(state=State("running"), diagnosis=Diagnosis(Cause.POLITENESS, 0.0, ""), waiting=6)


def test_the_examples_of_docstrings_are_true():
    result = doctest.testmod(history)
    assert (result.failed, result.attempted > 0) == (0, True)


def test_every_outcome_has_a_kind():
    assert {kind_of(name) for name in NAMES if is_given_up(name)} <= {*KINDS}
    assert {kind_of(name) for name in NAMES if not is_given_up(name)} == {""}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("history")


@given(
    st.lists(st.lists(st.integers(0, 40 * DAY), min_size=1, max_size=20), min_size=1, max_size=4)
)
def test_each_interval_has_the_pages_of_its_time_over_all_runs(directory, runs):
    """Runs follow each other. Each sample finds one page more."""
    path = directory / "history"
    path.unlink(missing_ok=True)
    ats = []
    for number, moments in enumerate(runs):
        run = [T0 + 41 * DAY * number + at for at in sorted(moments)]
        writer = History(path, at=run[0] - 1)
        for pages, at in enumerate(run, start=1):
            writer.add(at, {"outcome/http_200": pages}, RECORD, lag=0.5)
        ats += run
    assert path.stat().st_size < 1_400_000
    for secs, number in ROWS.items():
        series = read_series([directory], secs)
        until = ats[-1] // secs * secs
        starts = [at // secs * secs for at in ats]
        truth = Counter(at for at in starts if at > until - number * secs)
        assert dict(zip(series.at, series.columns["pages"], strict=True)) == truth
        assert series.columns["waiting"] == pytest.approx(6.0)
        assert series.columns["lag"] == pytest.approx(0.5)


def test_intervals_are_joined_and_drones_added_up(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        writer = History(tmp_path / name / "history", at=T0 - 60)
        for minute in range(120):
            free = {"free disk": {"a": 7.0, "b": 9.0}[name]}
            writer.add(T0 + MINUTE * minute, {"outcome/http_404": 2 * minute}, RECORD, **free)
    jobdirs = [tmp_path / name for name in "abc"]  # the last one has no history yet
    series = read_series(jobdirs, MINUTE, every=60)
    assert series.secs == HOUR
    assert series.columns["not found"].tolist() == [4 * 59, 4 * 60]
    assert series.rates["not found"] == pytest.approx([4 * 59 / 3600, 4 / 60])
    assert series.columns["waiting"] == pytest.approx([12.0, 12.0])
    assert series.columns["free disk"] == pytest.approx([7.0, 7.0])
    assert len(series.since(T0 + HOUR).at) == 1


@each("damage", b"", b"another version", bytes(1 << 20))
def test_a_file_of_another_version_is_replaced(tmp_path, damage):
    path = tmp_path / "history"
    path.write_bytes(damage)
    assert len(read_series([tmp_path], MINUTE).at) == 0
    History(path, at=T0 - 1).add(T0, {}, RECORD)
    assert read_series([tmp_path], DAY).at.tolist() == [T0 // DAY * DAY]


def test_a_row_that_a_power_failure_has_damaged_is_left_out(tmp_path):
    path = tmp_path / "history"
    writer = History(path, at=T0 - 1)
    for minute in range(3):
        writer.add(T0 + MINUTE * minute, {}, RECORD)
    data = bytearray(path.read_bytes())
    place = history._places(T0 + MINUTE)[MINUTE]
    data[place : place + 8] = b"\xff" * 8
    path.write_bytes(data)
    assert read_series([tmp_path], MINUTE).at.tolist() == [T0, T0 + 2 * MINUTE]
