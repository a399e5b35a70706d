"""Check of the tables of the seeds: ranks of hosts, and of registered domains."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

import msgspec

from webcrawl.crawl.seeds.ranks import PAIR, RanksSnapshot, log_of
from webcrawl.jobs.check.logs_since import frames_of
from webcrawl.storage.record_log import HEADER_SIZE

if TYPE_CHECKING:
    from pathlib import Path

    from webcrawl.jobs.check.findings import Findings

_RANKS: Final = "links to some hosts of the seed list are fetched later than their rank says"
_NO_SNAPSHOT: Final = "the crawl cannot be resumed"


def check_table(path: Path, snapshot: bytes, findings: Findings, *, trusted: bool) -> None:
    """The table in the directory *path* as of *snapshot*; *trusted* as in ``Checkpoint``."""
    try:
        size = msgspec.msgpack.decode(snapshot, type=RanksSnapshot).size_bytes
    except msgspec.DecodeError as error:
        findings.add(path, 0, f"unreadable snapshot: {error}", _NO_SNAPSHOT)
        return
    file = log_of(path)
    vouched = frames_of(file, findings, _RANKS, start=HEADER_SIZE, end=size)
    since = frames_of(file, findings, _RANKS, start=size, trusted=trusted)
    for frame in chain(vouched, since if file.exists() else ()):
        if len(frame.payload) % PAIR.itemsize:
            findings.add(file, frame.start, "not pairs of host and rank", _RANKS)
