"""Rows in Parquet files: read back with DuckDB, after kills and torn writes too."""

import os
from concurrent.futures import Executor, Future

import duckdb
import pyarrow as pa
import pytest
from crash import die_between_lines
from strategies import some_of

from webcrawl.pipelines.parquet import ParquetFiles, read_batches, schema_of

SCHEMA = pa.schema([("n", pa.int32()), ("text", pa.string())])


class SameThread(Executor):
    def submit(self, call, /, *args):
        done = Future()
        done.set_result(call(*args))
        return done


def files(directory, *numbers, **values):
    """Open files with the rows of *numbers*."""
    one = ParquetFiles(directory=directory, executor=SameThread(), clock=lambda: 1.0, **values)
    one.open(SCHEMA)
    if numbers:
        one.write(rows(*numbers))
    return one


def rows(*numbers):
    return [(n, f"row {n}") for n in numbers]


def read(directory, order="n"):
    if not [*directory.glob("*.parquet")]:
        return []
    query = f"select * from read_parquet('{directory}/*.parquet') order by {order}"
    return duckdb.sql(query).fetchall()


def spool(directory):
    (found,) = directory.glob("*.spool.open")
    return found


def kill(one):
    """End the writer as kill -9 would; the path of its spool."""
    os.close(one._lock)
    one._spool.close()
    return one._spool.path


def test_rows_come_back_as_they_were_written(tmp_path):
    types = {"seen": "bool_", "print": "uint64", "seen_at": "time", "tags": "strings"}
    schema = schema_of("url seen print seen_at tags share", **types, share="float64")
    given = [
        ("http://a.test/ü", True, 2**64 - 1, 1_750_000_000_000_001, ["a", "b"], 0.25),
        ("", None, None, None, [], None),
    ]
    one = ParquetFiles(directory=tmp_path / "new" / "rows")
    one.open(schema)
    one.write(given)
    one.close()
    (path,) = (tmp_path / "new" / "rows").iterdir()
    found = duckdb.sql(
        f"select url, seen, print, epoch_us(seen_at), tags, share from read_parquet('{path}')"
    )
    assert found.fetchall() == given
    codecs = duckdb.sql(f"select distinct compression from parquet_metadata('{path}')")
    assert codecs.fetchall() == [("ZSTD",)]


def test_full_spools_become_files_while_rows_come(tmp_path):
    one = ParquetFiles(directory=tmp_path, max_bytes=1500)
    one.open(SCHEMA)
    for n in range(0, 1000, 10):
        one.write(rows(*range(n, n + 10)))
    assert len([*tmp_path.glob("*.parquet")]) >= 5
    one.close()
    assert read(tmp_path) == rows(*range(1000))
    assert not [*tmp_path.glob("*.open")]


def test_row_groups_are_bounded(tmp_path):
    one = files(tmp_path)
    for n in range(4000):
        one.write([(n, "x" * 10_000)])
    one.close()
    query = f"select row_group_num_rows from parquet_metadata('{tmp_path}/*.parquet')"
    sizes = {size for (size,) in duckdb.sql(query).fetchall()}
    assert len(sizes) == 2
    assert 3300 < max(sizes) < 3500  # 32 MiB


def test_spool_cut_at_any_byte_gives_the_rows_before_it(tmp_path):
    one = files(tmp_path / "whole")
    sizes = {}
    for n in range(4):
        one.write(rows(n))
        sizes[one._spool.size] = n
    data = kill(one).read_bytes()
    for end in some_of(range(len(data) + 1), sizes):
        directory = tmp_path / str(end)
        directory.mkdir()
        (directory / "part-1-00000.spool.open").write_bytes(data[:end])
        files(directory)
        whole = max((n + 1 for size, n in sizes.items() if size <= end), default=0)
        assert read(directory) == rows(*range(whole))
        assert len([*directory.iterdir()]) == bool(whole)


def work(directory):
    one = files(directory, 2, max_bytes=1)
    one.write(rows(3))
    one.close()


def test_dying_between_any_two_lines_loses_no_row_and_doubles_none(tmp_path):
    start, out = tmp_path / "start", tmp_path / "out"
    out.mkdir()
    one = files(start, 1)
    with kill(one).open("ab") as file:
        file.write(b"torn")
    last = 1
    left = die_between_lines("tests.pipelines.test_parquet:work", start, out)
    for directory in left:
        before = read(directory)
        files(directory)
        after = read(directory)
        assert set(before) <= set(after)
        assert len(after) >= last
        last = len(after)
        assert after == rows(*range(1, last + 1))
        assert not [*directory.glob("*.open")]
    assert len(left) > 5
    assert last == 3


def test_spool_of_a_living_process_is_left_alone(tmp_path):
    one, other = files(tmp_path, 1), files(tmp_path, 2)
    files(tmp_path)
    assert read(tmp_path) == []
    one.close()
    other.close()
    assert read(tmp_path) == rows(1, 2)


def test_spool_that_cannot_be_converted_is_left_to_the_next_run(tmp_path):
    one = ParquetFiles(directory=tmp_path)
    one.open(SCHEMA)
    one.write(rows(1))
    one.sync()
    in_the_way = tmp_path / spool(tmp_path).name.replace(".spool.open", ".parquet.open")
    in_the_way.mkdir()
    with pytest.raises(IsADirectoryError):
        one.close()
    in_the_way.rmdir()
    files(tmp_path)
    assert read(tmp_path) == rows(1)


def test_rows_of_files_and_of_growing_spools_are_read_while_they_are_written(tmp_path):
    other = files(tmp_path / "other", 0)
    other.write(rows(1))
    one = files(tmp_path, max_bytes=kill(other).stat().st_size)  # two rows are enough
    for n in range(5):
        one.write(rows(n))
    with one._spool.path.open("ab") as file:
        file.write(b"torn")
    batches = [*read_batches(tmp_path, ["text"])]
    assert [text for batch in batches for text in batch["text"].to_pylist()] == [
        f"row {n}" for n in range(5)
    ]
    kill(one)
