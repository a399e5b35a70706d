"""Repair of parts with one file of a fixed name: tables, host records, logs of lines.

What is left is written aside and takes the place of the file at once.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from webcrawl.crawl.seeds.ranks import RanksSnapshot, log_of
from webcrawl.hosts.records.database import FILE, Database
from webcrawl.hosts.records.records_reader import RecordsReader
from webcrawl.jobs.check.files import (
    MAX_LINE_BYTES,
    check_hosts,
    check_log,
    check_table,
    damage_of,
    log_files,
    parse_pairs,
)
from webcrawl.storage.atomic import make_directory, replacing, sync_path
from webcrawl.storage.record_log import CorruptRecordError, RecordLog
from webcrawl.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from webcrawl.hosts.records.database import Fact
    from webcrawl.jobs.check.mending import Mending


def mend_table(path: Path, snapshot: bytes, mending: Mending) -> bytes:
    """The snapshot to publish for the table of ranks in *path*; *snapshot* itself if it is
    sound."""
    if not mending.damaged_by(partial(check_table, path, snapshot)):
        return snapshot
    make_directory(path)
    file = log_of(path)
    mending.put_aside(file)
    with replacing(file) as aside, RecordLog.open(aside, size=0) as log:
        for record in mending.records(file, f"ranks in {{}} bytes of {file.name}", parse_pairs):
            log.append(record.payload)
        size = log.size
    return msgspec.msgpack.encode(RanksSnapshot(size))


def mend_hosts(path: Path, mending: Mending) -> None:
    """Host records: every row that can be read goes into a new file."""
    if not mending.damaged_by(partial(check_hosts, path)):
        return
    file = path / FILE
    beside = [file.with_name(file.name + suffix) for suffix in ("-wal", "-shm")]
    for one in (file, *beside):
        mending.put_aside(one)
    new = path.with_name(path.name + ".tmp")
    shutil.rmtree(new, ignore_errors=True)
    database = Database(path=new)
    database.open()
    with closing(database):
        saved = database.write(_readable(path))
    mending.lost(f"what was known of hosts, but for {saved:,} records of all kinds that were saved")
    for one in beside:
        one.unlink(missing_ok=True)
    sync_path(new / FILE)
    (new / FILE).replace(file)
    shutil.rmtree(new)
    sync_path(path)


def _readable(path: Path) -> Iterator[Fact]:
    """The rows from the first on up to one that cannot be read, and from the last one back."""
    try:
        with RecordsReader(path=path) as records:
            yield from records.readable()
    except (CorruptRecordError, sqlite3.Error):
        return


def mend_logs(jobdir: Path, mending: Mending) -> None:
    """The logs for people: lines that are none are taken out."""
    for file, is_active in log_files(jobdir):
        if mending.damaged_by(partial(check_log, file, may_be_torn=is_active)):
            _mend_log(file, mending)


def _mend_log(path: Path, mending: Mending) -> None:
    mending.put_aside(path)
    lost = 0
    with replacing(path) as aside, path.open("rb") as old, aside.open("wb") as new:
        while line := old.readline(MAX_LINE_BYTES):
            if damage_of(line):
                lost += 1
            else:
                new.write(line)
    mending.lost(f"{counted(lost, 'line')} of {path.name}")
