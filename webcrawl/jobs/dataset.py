"""A directory with the text dataset of crawls, as Hugging Face reads it: ``scrapy dataset``.

::

    DIR/data/train-<job>-<time>-<serial>.parquet    copies of the files of TextDataset
    DIR/README.md     the card: counts by language, purpose and licence. Written by each run
    DIR/ABOUT.md      text of the user, which becomes part of the card

A copy has the name of its file, and its time of modification. So each file is there once, however
often the command runs or is killed, and a file that ``scrapy purge`` has changed is copied again.
Copies of files that no longer exist stay.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from webcrawl import __version__
from webcrawl.errors import FatalError
from webcrawl.hive.launch.job_directories import jobdirs_of
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
rows, of which the last has the highest `fetched_at`.
"""
_LANGUAGE = re.compile(r"[a-z]{2,3}")
_MEMORY_LIMIT = "1GB"
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


def lay_out(directories: Mapping[str, Path], output: Path) -> tuple[int, int]:
    """Add the finished files in *directories* to the dataset *output*.

    Returns the numbers of its rows and files. Raises OSError, and FatalError if it has no files, if
    one is damaged or has other columns than the rest, or if another process is writing to it.
    """
    data = output / "data"
    make_directory(data)
    activity = f"{output} is being made"
    work = output / "dataset.work"
    with work_directory(work, activity=activity), duckdb.connect() as db:
        for name, directory in directories.items():
            for file in directory.glob("part-*.parquet"):
                copy = data / file.name.replace("part", f"train-{name}", 1)
                if not copy.exists() or _size_and_time(copy) != _size_and_time(file):
                    with replacement(copy) as new:
                        shutil.copy2(file, new)  # also copies the time of modification
        count = len([*data.glob("*.parquet")])
        if not count:
            raise FatalError(
                "The crawl has no finished Parquet file of TextDataset. A file is finished when "
                "it is full, the last one when the crawl ends."
            )
        db.execute(f"SET memory_limit = '{_MEMORY_LIMIT}'")
        try:
            rows = _write_card(db, f"{data}/*.parquet", output)
        except duckdb.Error as error:
            raise FatalError(f"The files in {data} cannot be read: {error}.") from error
    return rows, count


def _size_and_time(path: Path) -> tuple[int, int]:
    state = path.stat()
    return state.st_size, state.st_mtime_ns


def _write_card(db: duckdb.DuckDBPyConnection, files: str, output: Path) -> int:
    """Write the card of the dataset *output*, which has *files*, and return its number of rows."""
    # One file for each set of columns; all files should have the same.
    first, *others = db.execute(_FIRST_FILES, [files]).fetchall()
    if others:
        raise FatalError(
            f"{others[0][0]} has other columns than {first[0]}: another version of TextDataset "
            "wrote it. Move one of them away, and the part-*.parquet of the crawl that it copies, "
            f'or write all rows again with "{COMMAND} replay".'
        )
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
        version=__version__,
    )
    for title, table in counts.items():
        card += f"\n## {title}\n\n| | pages |\n|---|---|\n"
        for value, number in table:
            cell = " ".join(value.split()).replace("|", "%7C")  # a "|" would end the cell
            card += f"| {cell or '(not stated)'} | {number:,} |\n"
    write_atomic(output / "README.md", card.encode())
    return rows
