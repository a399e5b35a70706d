"""Files of lines, sorted beyond memory."""

import random

import pytest

from webcrawl.errors import FatalError
from webcrawl.pipelines.sorting import sorted_lines


def test_lines_of_all_files_are_sorted_by_bytes_beyond_memory(tmp_path):
    chance = random.Random(1)
    lines = [b"%040x \xc3\xa9 B\n" % chance.getrandbits(160) for _ in range(20_000)]
    lines += [b"a\n", b"B\n", b"\xc3\xa9\n", b"a\n"]
    paths = [tmp_path / "one", tmp_path / "a name with spaces"]
    paths[0].write_bytes(b"".join(lines[::2]))
    paths[1].write_bytes(b"".join(lines[1::2]))
    beside = tmp_path / "beside"
    beside.mkdir()
    assert list(sorted_lines(paths, directory=beside, feature="A test", memory="64K")) == sorted(
        lines
    )
    assert list(beside.iterdir()) == []


@pytest.mark.cures("{} needs the command sort: install coreutils.")
def test_sort_that_fails_or_is_not_there_is_one_sentence(tmp_path, monkeypatch):
    with pytest.raises(FatalError, match=r"^A test could not be sorted: sort: .*nothing: No such"):
        list(sorted_lines([tmp_path / "nothing"], directory=tmp_path, feature="A test"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FatalError, match=r"^A test needs the command sort: install coreutils\.$"):
        list(sorted_lines([tmp_path], directory=tmp_path, feature="A test"))
    monkeypatch.undo()
    (tmp_path / "one").write_text("b\na\n")
    lines = sorted_lines([tmp_path / "one"], directory=tmp_path, feature="A test")
    assert list(lines) == [b"a\n", b"b\n"]
