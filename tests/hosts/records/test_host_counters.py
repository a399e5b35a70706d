"""Tests of domain counters: counts, estimates, and recovery after a crash."""

import tempfile
from pathlib import Path

import pytest
from disk import file_size_limit
from hypothesis import given
from hypothesis import strategies as st
from records_rig import (
    PatientExecutor,
    damage_of,
    left_behind,
    opened,
    records_in,
    save,
    without_log,
)
from seen_rig import InlineExecutor
from text_tables import each

from webcrawl.hosts.records.host_counters import HostCounter, _with_hash
from webcrawl.storage.record_log import CorruptRecordError


@pytest.fixture
def executor():
    return PatientExecutor()


@pytest.fixture
def records(tmp_path, executor):
    found = opened(tmp_path / "hosts", executor)
    yield found
    executor.run()
    assert damage_of(found) == []
    found.close()


@pytest.fixture
def left(tmp_path, executor):
    """Return a function that opens what a process killed now would leave."""
    made = []

    def take_up():
        made.append(opened(left_behind(tmp_path / "hosts", tmp_path / "copy"), executor))
        return made[-1].domains

    yield take_up
    for one in made:
        one.close()


def count(counters, name, pages):
    counter = counters.find(name)
    counter.pages += pages
    counters.put(name, counter)


def test_counts_survive_the_process_once_they_are_saved(records, executor, left):
    count(records.domains, "a.test", 3)
    records.domains.link("x.test", ["a.test"])
    records.domains.begin_round(4, counted_since=3)
    save(records, executor)
    count(records.domains, "a.test", 1)
    again = left()
    assert again.find("a.test").pages == 3
    assert (again.current_round, again.counted_since) == (4, 3)
    again.link("x.test", ["a.test"])  # known, by the same key
    assert again.find("a.test").in_degree == 1
    assert again.linked == 0


def test_key_of_the_bits_is_written_before_them(tmp_path, executor, left):
    """This holds even if everything about a domain left memory before the first flush."""
    records = records_in(tmp_path / "hosts", executor)
    records.domains.resize(1)
    records.open()
    records.domains.link("x.test", ["a.test"])
    records.domains.find("b.test")
    save(records, executor)
    again = left()
    assert again._state == records.domains._state
    assert again.find("a.test").in_degree == 1
    records.close()


@each("before", 0, 3, 15, 16)
@each("since", 1, 13, 20)
def test_links_are_merged_into_what_is_stored(records, executor, left, before, since):
    """Lists and bitmaps of domains no longer in memory are merged, also after a full disk."""
    without_log(records).domains.resize(1)
    sources = [f"site{n}.test" for n in range(before + since)]
    for source in sources[:before]:
        records.domains.link(source, ["a.test", "b.test"])
    count(records.domains, "a.test", 3)
    save(records, executor)
    for source in sources[before // 2 :]:
        records.domains.link(source, ["a.test", "b.test"])
    with file_size_limit(4096):
        save(records, executor)
    assert records.failure is not None
    save(records, executor)
    for source in sources:
        records.domains.link(source, ["all.test"])
    again = left()
    assert again.find("a.test").pages == 3
    in_degree = records.domains.find("all.test").in_degree
    for name in ("a.test", "b.test"):
        for found in (again, records.domains):
            assert found.find(name).in_degree == in_degree


def test_a_linking_domain_counts_once_and_the_domain_itself_never(records):
    domains = records.domains
    for _ in range(3):
        domains.link("a.test", ["a.test", "b.test", "c.test"])
    domains.link("b.test", ["c.test"])
    assert [domains.find(f"{name}.test").in_degree for name in "abc"] == [0, 1, 2]
    assert domains.linked == 3


@each("key", *range(20))
def test_up_to_fifteen_linking_domains_are_counted_exactly(records, executor, key):
    domains = records.domains
    domains._state.key = key
    for n in range(1, 16):
        for _ in range(2):
            domains.link(f"site{n}.test", ["a.test"])
        assert domains.find("a.test").in_degree == n
    save(records, executor)
    assert domains.linked == 15


@each("linking", 16, 20, 50, 100, 300, 500)
def test_more_are_estimated_and_hardly_ever_too_few(records, linking):
    domains = records.domains
    found = []
    for key in range(60):
        domains._state.key = key
        before = 0
        for n in range(linking):
            domains.link(f"site{n}.test", [f"{key}.test"])
            in_degree = domains.find(f"{key}.test").in_degree
            assert in_degree >= before
            before = in_degree
        found.append(before)
    assert sum(one < linking for one in found) <= 5
    assert max(found) <= linking * 1.6 + 3


def test_in_degree_has_a_ceiling(records):
    domains = records.domains
    for n in range(20_000):
        domains.link(f"site{n}.test", ["a.test"])
    assert domains.find("a.test").in_degree == 1925


@given(marks=st.lists(st.integers(0, 999), max_size=40), data=st.data())
def test_linking_domain_is_known_by_its_hash_alone(marks, data):
    """Noting a few of them, or the bits of many, again changes nothing, in any order."""
    linking = b""
    for mark in marks:
        linking = _with_hash(linking, mark.to_bytes(2))
    assert len(linking) == (2 * len(set(marks)) if len(set(marks)) < 16 else 32)
    again = data.draw(st.permutations(marks))
    for mark in again:
        assert _with_hash(linking, mark.to_bytes(2)) is linking
    other = b""
    for mark in again:
        other = _with_hash(other, mark.to_bytes(2))
    assert HostCounter(linking=other).in_degree == HostCounter(linking=linking).in_degree


def test_each_job_has_a_key_of_its_own(records, tmp_path):
    other = opened(tmp_path / "other", PatientExecutor())
    assert other.domains._state.key != records.domains._state.key
    other.close()


@each("name", "*", "a.test")
def test_damaged_counter_is_reported(records, name):
    records.database.write([(5, name, b"\xc1")])
    with pytest.raises(CorruptRecordError, match="invalid counter of"):
        (records.domains.open if name == "*" else lambda: records.domains.find(name))()


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["count", "link", "log", "store", "reopen"]), st.integers(0, 6)),
        max_size=60,
    ),
    held=st.integers(1, 4),
)
def test_counters_behave_like_a_dictionary(steps, held):
    executor = InlineExecutor()
    with tempfile.TemporaryDirectory() as directory:
        records = opened(Path(directory), executor)
        counters = records.domains
        counters.resize(held)
        pages = {}
        linked = set()
        for step, n in steps:
            if step == "count":
                count(counters, f"{n}.test", 1)
                pages[n] = pages.get(n, 0) + 1
            elif step == "link":
                counters.link("x.test", [f"{n}.test", "x.test"])
                linked.add(n)
            elif step == "reopen":
                records.close()
                records.open()
            else:
                records.database.resize(0 if step == "store" else 8192)
                save(records, executor)
                records.database.resize(8192)
            assert len(counters.caches[0]) <= held
        for n in range(7):
            assert counters.find(f"{n}.test").pages == pages.get(n, 0)
            assert counters.find(f"{n}.test").in_degree == (n in linked)
        assert damage_of(records) == []
        records.close()
