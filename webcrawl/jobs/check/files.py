"""Check of the simple parts: outbox, ranks of the seeds, host records, logs of lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from webcrawl.configuration.decoding import UndecodableError, json_decoder
from webcrawl.crawl.job.control_journal import JOURNAL, damaged_lines
from webcrawl.crawl.seeds.ranks import PAIR, decode_ranks, log_of
from webcrawl.hive.bus.messages import decode
from webcrawl.hive.bus.outbox import messages_of, segments_of
from webcrawl.hosts.records.database import FILE
from webcrawl.hosts.records.records_reader import RecordsReader
from webcrawl.storage.line_log import numbered

if TYPE_CHECKING:
    from pathlib import Path

    from webcrawl.jobs.check.findings import Findings

_MESSAGES = (
    "links to other drones are lost; delete this directory, and the drone fetches its shards "
    "from HIVE_STORE, which has them"
)
_RANKS = "links to some hosts of the seed list are fetched later than their rank requires"
_RECORDS = "records of some hosts are lost: their speed, robots.txt, pauses, budgets and traps"
_LOG = "SQLite reads this log of host records up to the first torn or damaged page"
_FOUND_AGAIN = "host facts after that are learned again"

_LOGS = ("logs/info.jsonl", "logs/critical.jsonl", "logs/stats.jsonl", "logs/refused.jsonl")
#: No longer lines are written: see crawl/lease/outcome_log.py, critical_errors.py.
_MAX_LINE_BYTES = 1 << 20
_LINE = "the result for that URL cannot be shown; the crawl itself does not read it"
_JOURNAL = "no crawl can start here until the file is repaired or deleted"
_CUT = "the next start cuts it off; it was being written when the process or the machine died"

_decode_line = json_decoder(dict[str, msgspec.Raw])


def check_outbox(path: Path, snapshot: bytes, findings: Findings) -> None:
    """Check the messages for other shards of a hive in the outbox in the directory *path*.

    Those as of *snapshot* and those written since.
    """
    for file, end in segments_of(path, snapshot):
        findings.records(file, _MESSAGES, _decode_messages, end=end)


def _decode_messages(record: bytes) -> None:
    for message in messages_of(record):
        decode(message)


def check_table(path: Path, snapshot: bytes, findings: Findings) -> None:
    """Check the table of ranks in the directory *path* as of *snapshot*."""
    size = decode_ranks(snapshot).size_bytes
    file = log_of(path)
    findings.records(file, _RANKS, _parse_pairs, end=size)
    if file.exists():
        findings.records(file, _RANKS, _parse_pairs, start=size)


def _parse_pairs(record: bytes) -> None:
    """Raise ValueError if *record* does not consist of pairs of host and rank."""
    if len(record) % PAIR.itemsize:
        raise ValueError("not pairs of host and rank")


def check_hosts(path: Path, findings: Findings) -> None:
    """Check the host records in the directory *path* as SQLite reads them.

    SQLite takes damage in its log for a torn end.
    """
    file = path / FILE
    log = file.with_name(file.name + "-wal")
    if log.exists() and log.stat().st_size:
        findings.note(log, 0, _LOG, _FOUND_AGAIN)
    with findings.catching(file, _RECORDS), RecordsReader(path=path) as records:
        for what in records.damaged():
            findings.add(file, 0, what, _RECORDS)
    if file.exists():
        findings.on_progress(file.stat().st_size)


def check_logs(jobdir: Path, findings: Findings) -> None:
    """Check each line of each log of the job."""
    for name in _LOGS:
        active = jobdir / name
        for file in (*numbered(active), active):
            if file.exists():
                may_be_torn = file == active or not findings.trusted
                _check_log(file, findings, may_be_torn=may_be_torn)
    for what in damaged_lines(jobdir):
        findings.add(jobdir / JOURNAL, 0, what, _JOURNAL)


def _check_log(path: Path, findings: Findings, *, may_be_torn: bool) -> None:
    """Check each line of one file.

    The last line may be torn in the file that is being appended to, and after a power failure in
    any file.
    """
    offset = 0
    with path.open("rb") as file:
        while line := file.readline(_MAX_LINE_BYTES):
            findings.on_progress(len(line))
            what = _damage_of(line)
            if what and may_be_torn and not line.endswith(b"\n") and not file.read(1):
                findings.note(path, offset, "the last line is incomplete", _CUT)
            elif what:
                findings.add(path, offset, what, _LINE)
            offset += len(line)


def _damage_of(line: bytes) -> str:
    """Return what is damaged in *line*, or ""."""
    if not line.endswith(b"\n"):
        return "incomplete line"
    try:
        _decode_line(line)
    except UndecodableError as error:
        return f"line is not a JSON object ({error})"
    return ""
