"""Checks the simple parts: outbox, ranks of the seeds, host records, and logs of JSON lines."""

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
from webcrawl.storage.line_log import numbered_files

if TYPE_CHECKING:
    from pathlib import Path

    from webcrawl.jobs.check.findings import Findings

_MESSAGES_LOST = "links to other drones are lost here, but HIVE_STORE has them"
_RANKS_LOST = "links to some hosts of the seed list are fetched later than their rank requires"
_RECORDS_LOST = "records of some hosts are lost: their speed, robots.txt, pauses, budgets and traps"
_READ_TO_TORN_PAGE = "SQLite reads this log of host records up to the first torn or damaged page"
_LEARNED_AGAIN = "host facts after that are learned again"

_LOGS = ("logs/info.jsonl", "logs/critical.jsonl", "logs/stats.jsonl", "logs/refused.jsonl")
# No longer lines are ever written: see crawl/lease/outcome_log.py and critical_errors.py.
_MAX_LINE_BYTES = 1 << 20
_LINE_LOST = "the result for that URL cannot be shown; the crawl itself does not read it"
_JOURNAL_UNREADABLE = "no crawl can start here until the file is repaired or deleted"
_CUT_OFF = "the next start cuts it off; it was being written when the process or the machine died"

_decode_line = json_decoder(dict[str, msgspec.Raw])


def check_outbox(path: Path, snapshot: bytes, findings: Findings) -> None:
    """Check the messages in the outbox in the directory *path*, which are for other shards.

    These are the messages in *snapshot* and those written since.
    """
    for file, end in segments_of(path, snapshot):
        findings.records(file, _MESSAGES_LOST, _decode_messages, end=end)


def _decode_messages(record: bytes) -> None:
    """Raise ValueError if *record* does not consist of valid messages."""
    for message in messages_of(record):
        decode(message)


def check_table(path: Path, snapshot: bytes, findings: Findings) -> None:
    """Check the table of ranks in the directory *path*, up to its size in *snapshot* and beyond."""
    size = decode_ranks(snapshot).size_bytes
    file = log_of(path)
    findings.records(file, _RANKS_LOST, _parse_pairs, end=size)
    findings.records(file, _RANKS_LOST, _parse_pairs, start=size)  # since the checkpoint


def _parse_pairs(record: bytes) -> None:
    """Raise ValueError if *record* does not consist of pairs of host and rank."""
    if len(record) % PAIR.itemsize:
        raise ValueError("not pairs of host and rank")


def check_hosts(path: Path, findings: Findings) -> None:
    """Check the host records in the directory *path*, as SQLite reads them.

    SQLite takes damage in its log for a torn end, so that is only noted.
    """
    file = path / FILE
    log = file.with_name(file.name + "-wal")
    if log.exists() and log.stat().st_size:
        findings.note(log, 0, _READ_TO_TORN_PAGE, _LEARNED_AGAIN)
    with findings.catch_errors(file, _RECORDS_LOST), RecordsReader(path=path) as records:
        for problem in records.find_damage():
            findings.add(file, 0, problem, _RECORDS_LOST)
    if file.exists():
        findings.on_progress(file.stat().st_size)


def check_logs(jobdir: Path, findings: Findings) -> None:
    """Check each line in the logs of the job in *jobdir*, and its control journal."""
    for name in _LOGS:
        current_file = jobdir / name
        for file in (*numbered_files(current_file), current_file):
            if file.exists():
                may_be_torn = file == current_file or not findings.trusted
                _check_log(file, findings, may_be_torn=may_be_torn)
    for problem in damaged_lines(jobdir):
        findings.add(jobdir / JOURNAL, 0, problem, _JOURNAL_UNREADABLE)


def _check_log(path: Path, findings: Findings, *, may_be_torn: bool) -> None:
    """Check each line of the log file *path*.

    If *may_be_torn*, an incomplete last line is only noted. That is the case for the file that is
    appended to, and after a power failure for any file.
    """
    offset = 0
    with path.open("rb") as file:
        while line := file.readline(_MAX_LINE_BYTES):
            findings.on_progress(len(line))
            problem = _line_damage(line)
            # If nothing can be read after an incomplete line, it is the last one.
            if problem and may_be_torn and not line.endswith(b"\n") and not file.read(1):
                findings.note(path, offset, "the last line is incomplete", _CUT_OFF)
            elif problem:
                findings.add(path, offset, problem, _LINE_LOST)
            offset += len(line)


def _line_damage(line: bytes) -> str:
    """Return what is wrong with *line*, or "" if it is a complete JSON object."""
    if not line.endswith(b"\n"):
        return "incomplete line"
    try:
        _decode_line(line)
    except UndecodableError as error:
        return f"line is not a JSON object ({error})"
    return ""
