"""Check of the host records: SQLite's file and its write-ahead log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from webcrawl.hosts.records.database import FILE
from webcrawl.hosts.records.records_reader import RecordsReader
from webcrawl.hosts.records.wal import wal_damage
from webcrawl.storage.record_log import CorruptRecordError

if TYPE_CHECKING:
    from pathlib import Path

    from webcrawl.jobs.check.findings import Findings

_RECORDS: Final = (
    "what is known of some hosts is lost: their speed, robots.txt, rests, budgets and traps"
)
_LATEST: Final = "what was learned of hosts last is lost"
_POWER: Final = "the machine went down before it was written: SQLite leaves it out"


def check_hosts(path: Path, findings: Findings, *, trusted: bool) -> None:
    """The host records in the directory *path*; *trusted* as in ``Checkpoint``."""
    file = path / FILE
    damage = wal_damage(file)
    if damage is not None:
        log = file.with_name(file.name + "-wal")
        if trusted:
            findings.add(log, damage.offset, damage.what, _LATEST)
        else:
            findings.note(log, damage.offset, damage.what, _POWER)
    try:
        with RecordsReader(path=path) as records:
            for what in records.damaged():
                findings.add(file, 0, what, _RECORDS)
    except CorruptRecordError as error:
        findings.add(file, 0, error.why, _RECORDS)
    if file.exists():
        findings.on_progress(file.stat().st_size)
