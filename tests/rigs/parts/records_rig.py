"""Host records in the hands of a test: an executor that works when told, and a killed process."""

import shutil

from seen_rig import HeldExecutor

from webcrawl.hosts.records import HostRecord, HostRecords
from webcrawl.hosts.records.records_reader import RecordsReader


class PatientExecutor(HeldExecutor):
    """Does what was submitted when ``run`` is called."""


def records_in(
    path,
    executor,
    *,
    size=1000,
    robots_size=1000,
):
    """Host records, not open yet."""
    return HostRecords(
        path=path,
        size=size,
        robots_size=robots_size,
        executor=executor,
    )


def opened(path, executor, **sizes):
    """Host records, open; the caller closes them."""
    records = records_in(path, executor, **sizes)
    records.open()
    return records


def without_log(records):
    """Open *records* have no room for a log: each flush stores what is new."""
    records.database.resize(0)
    return records


def left_behind(path, copy):
    """The files of *path* as they are, as a process that is killed now leaves them."""
    return shutil.copytree(path, copy)


def damage_of(records):
    """What ``scrapy job check`` finds wrong in the open file of *records*."""
    with RecordsReader(path=records.database.path) as reader:
        return [*reader.find_damage()]


def put(records, host, pages):
    records.put(HostRecord(host, pages=pages))


def save(records, executor):
    """Write all that was put, as flush and the executor do it in a second or two."""
    records.flush()
    executor.run()
    records.flush()
