"""A directory with the text dataset of crawls, as Hugging Face reads it: ``scrapy dataset``.

::

    DIR/data/train-<job>-<time>-<serial>.parquet    copies of the files of TextDataset
    DIR/README.md     the card: counts by language, purpose and licence. Written by each run
    DIR/ABOUT.md      text of the user, which becomes part of the card
    DIR/originals/    with near-duplicates: all copies, from which the files of data/ are made

A copy has the name of its file, and its time of modification. So each file is there once, however
often the command runs or is killed, and a file that ``scrapy purge`` has changed is copied again.
Copies of files that no longer exist stay. With near-duplicates, the clusters of all copies are
found again in each run, and only files whose rows or clusters have changed are written.
"""

from __future__ import annotations

import json
import re
import shutil
from contextlib import suppress
from glob import escape
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from webcrawl import __version__
from webcrawl.errors import FatalError
from webcrawl.hive.launch.job_directories import jobdirs_of
from webcrawl.pipelines.datasets.clusters import Clusters
from webcrawl.pipelines.work_directory import work_directory
from webcrawl.storage.atomic import make_directory, replacement, write_atomic
from webcrawl.wording import COMMAND

if TYPE_CHECKING:
    from collections.abc import Mapping

_CARD = """\
---
configs:
- config_name: default
  data_files:
  - split: train
    path: data/train-*.parquet
license: other
language: {languages}
---

# {title}

{about}
{rows:,} pages, stored by webcrawl {version}. A page that was processed several times has several
rows, of which the last has the highest `fetched_at`.{note}
"""
MARK = "mark"
DROP = "drop"
_NOTES = {
    "": "",
    MARK: " {:,} rows are near-duplicates of another one: `is_representative` is false.",
    DROP: " {:,} near-duplicates of these rows were left out.",
}
_LANGUAGE = re.compile(r"[a-z]{2,3}")
#: Limits of DuckDB, which then uses the disk. Each thread needs memory.
LIMITS: dict[str, Any] = {"memory_limit": "1GB", "threads": 2}
# Files with the same columns, by the first of them.
_FIRST_FILES = """
    SELECT min(file_name) FROM (
        SELECT file_name, list(name || coalesce(type, '') ORDER BY name) AS columns
        FROM parquet_schema(?) GROUP BY 1
    ) GROUP BY columns ORDER BY 1
"""
_COUNT = """
    SELECT coalesce(value, ''), count(*) FROM (SELECT {} AS value FROM read_parquet(?))
    GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 100
"""
# What is counted, by title and column.
_COUNTED = {
    ("Languages", "language"): "language",
    ("Purposes", "rights"): """regexp_extract(rights, '"purpose":"([a-z]+)"', 1)""",
    ("Licences", "licences"): "unnest(if(len(licences) > 0, licences, ['']))",
}


def text_directories(path: Path, text_dir: str) -> dict[str, Path]:
    """Return the directories with text files of the job or hive *path*, by name of their job.

    *text_dir* is TEXT_DIR. Raises FatalError if there is no crawl in *path*.
    """
    name = path.absolute().name
    if text_dir:  # all drones of a hive write to this directory
        return {name: Path(text_dir)}
    return {
        name if jobdir == path else f"{name}-{jobdir.name}": jobdir / "text"
        for jobdir in jobdirs_of(path)
    }


def lay_out(
    directories: Mapping[str, Path], output: Path, near_duplicates: str = ""
) -> tuple[int, int, int]:
    """Add the finished files in *directories* to the dataset *output*.

    *near_duplicates* is MARK or DROP, or empty to leave them alone. Returns the numbers of rows,
    files and near-duplicates. Raises OSError, and FatalError if there are no files, if one is
    damaged or has other columns than the rest, or if another process is writing to *output*.
    """
    data = output / "data"
    copies = output / "originals" if near_duplicates else data
    for path in (data, copies):
        make_directory(path)
    activity = f"{output} is being made"
    work = output / "dataset.work"
    limits = LIMITS | {"temp_directory": str(work / "spill")}
    with work_directory(work, activity=activity), duckdb.connect(config=limits) as db:
        _change_copies(output, near_duplicates=bool(near_duplicates))
        _add_files(directories, copies, near_duplicates=bool(near_duplicates))
        files = sorted(copies.glob("*.parquet"))
        if not files:
            raise FatalError(
                "The crawl has no finished Parquet file of TextDataset. A file is finished when "
                "it is full, the last one when the crawl ends."
            )
        found = 0
        try:
            _check_columns(db, _parquet_in(copies))
            if near_duplicates:
                refused = work / "refused.jsonl"  # DuckDB needs at least one file
                refused.touch()
                clusters = Clusters(db, files, refused=[refused, *copies.glob("*.jsonl")])
                found = clusters.near_duplicates
                for number, file in enumerate(files):
                    clusters.write(number, data / file.name, drop=near_duplicates == DROP)
            note = _NOTES[near_duplicates].format(found)
            rows = _write_card(db, _parquet_in(data), output, note)
        except duckdb.Error as error:
            raise FatalError(f"The files in {copies} cannot be read: {error}.") from error
    return rows, len(files), found


def _change_copies(output: Path, *, near_duplicates: bool) -> None:
    """Move the copies in *output* to where they belong, as the last run may have been another."""
    data = output / "data"
    originals = output / "originals"
    if near_duplicates:
        for copy in data.glob("*.parquet"):
            if not (originals / copy.name).exists():
                copy.replace(originals / copy.name)
    else:
        for original in originals.glob("*.parquet"):
            _copy(original, data / original.name)
        shutil.rmtree(originals, ignore_errors=True)


def _add_files(directories: Mapping[str, Path], copies: Path, *, near_duplicates: bool) -> None:
    """Add to *copies* what is new in *directories*, with the refused pages for near-duplicates."""
    patterns = ("part-*.parquet", "_left_out*.jsonl")
    for name, directory in directories.items():
        for file in chain.from_iterable(map(directory.glob, patterns[: 1 + near_duplicates])):
            copy = copies / f"train-{name}{file.name.removeprefix('part')}"
            if not copy.exists() or _size_and_time(copy) != _size_and_time(file):
                _copy(file, copy, may_link=near_duplicates)


def _copy(file: Path, copy: Path, *, may_link: bool = False) -> None:
    """Copy *file* with its time of modification, or link it to *copy* if that *may_link*."""
    with replacement(copy) as new:
        new.unlink(missing_ok=True)  # a killed process may have left a link
        if may_link:
            with suppress(OSError):  # on another file system, or one without links
                new.hardlink_to(file)
                return
        shutil.copy2(file, new)


def _size_and_time(path: Path) -> tuple[int, int]:
    state = path.stat()
    return state.st_size, state.st_mtime_ns


def _parquet_in(directory: Path) -> str:
    """Return a pattern that matches the Parquet files in *directory* only."""
    return f"{escape(str(directory))}/*.parquet"


def _check_columns(db: duckdb.DuckDBPyConnection, files: str) -> None:
    """Raise FatalError if *files* do not all have the same columns."""
    # One file for each set of columns.
    first, *others = db.execute(_FIRST_FILES, [files]).fetchall()
    if others:
        raise FatalError(
            f"{others[0][0]} has other columns than {first[0]}: another version of TextDataset "
            "wrote it. Move one of them away, and the part-*.parquet of the crawl that it copies, "
            f'or write all rows again with "{COMMAND} replay".'
        )


def _write_card(db: duckdb.DuckDBPyConnection, files: str, output: Path, note: str) -> int:
    """Write the card of the dataset *output*, which has *files*, and return its number of rows.

    *note* says what was done about near-duplicates.
    """
    columns = db.execute("SELECT * FROM read_parquet(?) LIMIT 0", [files]).description or []
    present = {column[0] for column in columns}
    # Files of an older version may lack a column that is counted.
    counts = {
        title: db.execute(_COUNT.format(expression), [files]).fetchall()
        for (title, column), expression in _COUNTED.items()
        if column in present
    }
    rows: int = db.execute("SELECT count(*) FROM read_parquet(?)", [files]).fetchall()[0][0]
    about = output / "ABOUT.md"
    # Hugging Face accepts only language codes. The value of a page without a language is empty.
    codes = [value for value, _ in counts.get("Languages", []) if _LANGUAGE.fullmatch(value)]
    card = _CARD.format(
        languages=json.dumps(codes),
        title=output.absolute().name,
        about=about.read_text("utf-8") if about.exists() else "",
        rows=rows,
        note=note,
        version=__version__,
    )
    for title, table in counts.items():
        card += f"\n## {title}\n\n| | pages |\n|---|---|\n"
        for value, number in table:
            cell = " ".join(value.split()).replace("|", "%7C")  # a "|" would end the cell
            card += f"| {cell or '(not stated)'} | {number:,} |\n"
    write_atomic(output / "README.md", card.encode())
    return rows
