"""Numbered objects: of those with one key the highest counts, by whatever clock."""

import pytest
from published_shard import KINDS, url_of

from webcrawl.storage.numbered import NumberedObjects, number_of
from webcrawl.storage.object_store import ObjectStore


@pytest.fixture(params=KINDS[1:])
def objects(request, tmp_path, monkeypatch):
    return ObjectStore(url_of(request.param, tmp_path, monkeypatch))


def test_the_highest_number_of_a_key_stays_and_new_numbers_are_higher(objects, clock):
    notes = NumberedObjects(objects, "commands", clock)
    first = notes.add("a", b"1")
    assert number_of(first) == round(clock() * 1e6)
    notes = NumberedObjects(objects, "commands", lambda: clock() - 3600)
    second = notes.add("b", b"2")
    assert number_of(second) == number_of(first) + 1
    third = notes.add("a", b"3")
    assert notes.read({}) == {second: b"2", third: b"3"}
    assert notes.read({second: b"known"}) == {second: b"known", third: b"3"}
    # One that another process has numbered, and one that comes too late.
    notes.add("b", b"4", number=number_of(second) + 9_000_000)
    notes.add("a", b"0", number=7)
    assert [*notes.read({}).values()] == [b"3", b"4"]


def test_other_files_and_other_kinds_are_left_alone(objects, clock):
    notes = NumberedObjects(objects, "commands", clock)
    assert notes.read({}) == {}
    for name in (
        "x",
        "1-2",
        "1-0123456789abcdef.tmp.1",
        "9" * 17 + "-" + "a" * 16,
    ):
        objects.write(f"commands/{name}", b"x")
    command, purge = notes.add("a", b"1"), notes.add("a", b"2", suffix=".txt")
    assert notes.read({}) == {command: b"1", purge: b"2"}
