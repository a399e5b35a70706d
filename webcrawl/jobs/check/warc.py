"""Check of WARC files: every gzip member and every record in it. Takes 8 s a gigabyte."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Final

from webcrawl.jobs.check.findings import CUT
from webcrawl.pipelines.warc.recovery import whole_records

if TYPE_CHECKING:
    from pathlib import Path

    from webcrawl.jobs.check.findings import Findings

_PAGES: Final = "the stored pages from there on cannot be read, up to the next good record"
_MAGIC: Final = b"\x1f\x8b\x08"


def warc_files(directory: Path) -> list[Path]:
    """The finished and unfinished files in *directory*, by name."""
    return sorted([*directory.glob("*.warc.gz"), *directory.glob("*.warc.gz.open")])


def check_warc(path: Path, findings: Findings) -> None:
    """One file. Where a record cannot be read, the next one that can is looked for."""
    size = path.stat().st_size
    at = _end_of_records(path, 0)
    while at < size:
        found = _next_record(path, at + 1)
        if found is None and path.suffix == ".open":
            findings.note(path, at, f"{size - at:,} bytes are no whole record", CUT)
        else:
            what = f"{(found or size) - at:,} bytes are no whole record"
            findings.add(path, at, what, _PAGES)
        at = size if found is None else _end_of_records(path, found)
    findings.on_progress(size)


def _end_of_records(path: Path, start: int) -> int:
    """The offset after the last of the whole records that begin at *start*."""
    end = start
    with path.open("rb") as file:
        file.seek(start)
        for length, _ in whole_records(file):
            end = start + length
    return end


def _next_record(path: Path, start: int) -> int | None:
    """Where the next whole record begins."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = start
        while (at := data.find(_MAGIC, at)) >= 0:
            file.seek(at)
            if next(whole_records(file), None) is not None:
                return at
            at += 1
    return None
