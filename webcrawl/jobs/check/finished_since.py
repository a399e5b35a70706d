"""How many URLs were finished since a moment, by the log of outcomes: for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from webcrawl.crawl.outcome_log import INFO_LOG
from webcrawl.jobs.check.logs import MAX_LINE_BYTES
from webcrawl.storage.lines import numbered

if TYPE_CHECKING:
    from pathlib import Path


class _Line(msgspec.Struct):
    at: float


_decode = msgspec.json.Decoder(_Line).decode


def finished_since(jobdir: Path, since: float) -> int:
    """Lines of the log of outcomes in *jobdir* that were written after *since*, epoch seconds. A
    million take a second. Lines that cannot be read do not count."""
    active = jobdir / INFO_LOG
    files = [*numbered(active), *([active] if active.exists() else [])]
    return sum(_count(file, since) for file in files if file.stat().st_mtime >= since)


def _count(path: Path, since: float) -> int:
    count = 0
    with path.open("rb") as file:
        while line := file.readline(MAX_LINE_BYTES):
            try:
                count += _decode(line).at >= since
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
    return count
