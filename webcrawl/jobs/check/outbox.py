"""Check of an outbox: every message that a drone's shard has for others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from webcrawl.hive.messages import MessageError, decode
from webcrawl.hive.outbox import messages_of, segments_of
from webcrawl.jobs.check.findings import NO_SNAPSHOT
from webcrawl.storage.record_log import HEADER_SIZE, CorruptRecordError

if TYPE_CHECKING:
    from pathlib import Path

    from webcrawl.jobs.check.findings import Findings

_LINKS: Final = (
    "links to other shards are lost: without this directory the drone takes its shards from "
    "HIVE_STORE, which has them"
)


def check_outbox(path: Path, snapshot: bytes, findings: Findings) -> None:
    """The outbox in the directory *path* as of *snapshot*, and what was written since."""
    try:
        segments = segments_of(path, snapshot)
    except CorruptRecordError as error:
        findings.add(path, 0, error.why, NO_SNAPSHOT)
        return
    for file, end in segments:
        for frame in findings.frames(file, _LINKS, start=HEADER_SIZE, end=end):
            try:
                for message in messages_of(frame.payload):
                    decode(message)
            except MessageError as error:
                findings.add(file, frame.start, f"no message: {error}", _LINKS)
