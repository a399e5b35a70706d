"""Check of the simplest parts: outbox, table of the seeds, host records, logs of lines."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

import msgspec

from webcrawl.crawl.seeds.ranks import PAIR, RanksSnapshot, log_of
from webcrawl.hive.bus.messages import MessageError, decode
from webcrawl.hive.bus.outbox import messages_of, segments_of
from webcrawl.hosts.records.database import FILE
from webcrawl.hosts.records.records_reader import RecordsReader
from webcrawl.hosts.records.wal import wal_damage
from webcrawl.jobs.check.findings import NO_SNAPSHOT
from webcrawl.storage.line_log import numbered
from webcrawl.storage.record_log import HEADER_SIZE, CorruptRecordError

if TYPE_CHECKING:
    from pathlib import Path

    from webcrawl.jobs.check.findings import Findings

_MESSAGES: Final = (
    "links to other shards are lost: without this directory the drone takes its shards from "
    "HIVE_STORE, which has them"
)
_RANKS: Final = "links to some hosts of the seed list are fetched later than their rank says"
_RECORDS: Final = (
    "what is known of some hosts is lost: their speed, robots.txt, rests, budgets and traps"
)
_LATEST: Final = "what was learned of hosts last is lost"

LOGS: Final = ("logs/info.jsonl", "logs/critical.jsonl", "logs/stats.jsonl", "logs/refused.jsonl")
#: Longer ones nobody writes: see crawl/lease/outcome_log.py, critical_errors.py.
MAX_LINE_BYTES: Final = 1 << 20
_LINE: Final = "what became of that URL is not told; the crawl itself does not read it"
_CUT: Final = "the next start cuts it off: it was being written when the process or the power died"

_decode_line = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def check_outbox(path: Path, snapshot: bytes, findings: Findings) -> None:
    """The messages for other shards of a hive: in the outbox in the directory *path* as of
    *snapshot*, and written since."""
    try:
        segments = segments_of(path, snapshot)
    except CorruptRecordError as error:
        findings.add(path, 0, error.why, NO_SNAPSHOT)
        return
    for file, end in segments:
        for frame in findings.frames(file, _MESSAGES, start=HEADER_SIZE, end=end):
            try:
                for message in messages_of(frame.payload):
                    decode(message)
            except MessageError as error:
                findings.add(file, frame.start, f"no message: {error}", _MESSAGES)


def check_table(path: Path, snapshot: bytes, findings: Findings) -> None:
    """The table in the directory *path* as of *snapshot*."""
    try:
        size = msgspec.msgpack.decode(snapshot, type=RanksSnapshot).size_bytes
    except msgspec.DecodeError as error:
        findings.add(path, 0, f"unreadable snapshot: {error}", NO_SNAPSHOT)
        return
    file = log_of(path)
    vouched = findings.frames(file, _RANKS, start=HEADER_SIZE, end=size)
    since = findings.frames(file, _RANKS, start=size)
    for frame in chain(vouched, since if file.exists() else ()):
        if len(frame.payload) % PAIR.itemsize:
            findings.add(file, frame.start, "not pairs of host and rank", _RANKS)


def check_hosts(path: Path, findings: Findings) -> None:
    """The host records in the directory *path*."""
    file = path / FILE
    damage = wal_damage(file)
    if damage is not None:
        log = file.with_name(file.name + "-wal")
        findings.add_since(log, damage.offset, damage.what, _LATEST)
    try:
        with RecordsReader(path=path) as records:
            for what in records.damaged():
                findings.add(file, 0, what, _RECORDS)
    except CorruptRecordError as error:
        findings.add(file, 0, error.why, _RECORDS)
    if file.exists():
        findings.on_progress(file.stat().st_size)


def check_logs(jobdir: Path, findings: Findings) -> None:
    """Every line of every log of the job."""
    for name in LOGS:
        active = jobdir / name
        for file in [*numbered(active), active]:
            if file.exists():
                check_log(file, findings, may_be_torn=file == active or not findings.trusted)


def check_log(path: Path, findings: Findings, *, may_be_torn: bool) -> None:
    """Every line of one file; the last one may be torn in the file that is appended to, and after
    a power failure in any."""
    offset = 0
    with path.open("rb") as file:
        while line := file.readline(MAX_LINE_BYTES):
            findings.on_progress(len(line))
            what = damage_of(line)
            if what and may_be_torn and not line.endswith(b"\n") and not file.read(1):
                findings.note(path, offset, "the last line has no end", _CUT)
            elif what:
                findings.add(path, offset, what, _LINE)
            offset += len(line)


def damage_of(line: bytes) -> str:
    """The damage of *line*; empty without."""
    if not line.endswith(b"\n"):
        return "a line without an end"
    try:
        _decode_line(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return f"a line that is no JSON object ({error})"
    return ""
