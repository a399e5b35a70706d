"""Check of the part of a log that was written since the checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.storage.scan import Gap, scan_records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from webcrawl.jobs.check.findings import Findings
    from webcrawl.storage.scan import FoundRecord

_CUT = "the next start cuts it off: it was being written when the process died"
_LOST = "the machine went down before it was written: nothing that a checkpoint names"


def frames_of(
    path: Path,
    findings: Findings,
    consequence: str,
    *,
    start: int,
    end: int | None = None,
    trusted: bool = True,
) -> Iterator[FoundRecord]:
    """The good records of *path*; gaps between them are added as damage with this *consequence*.

    Without an *end* a torn end is only noted, and with *trusted* false, when the machine went down
    since, all else too.
    """
    for piece in scan_records(path, start=start, end=end):
        findings.on_progress(piece.end - piece.start)
        if not isinstance(piece, Gap):
            yield piece
        elif end is None and piece.is_torn:
            findings.note(path, piece.start, unreadable(piece), _CUT)
        elif end is None and not trusted:
            findings.note(path, piece.start, unreadable(piece), _LOST)
        else:
            findings.add(path, piece.start, unreadable(piece), consequence)


def add_cut_off(
    path: Path, part: str, findings: Findings, consequence: str, *, trusted: bool
) -> None:
    """Add that *part* of the log before *path* is gone, with this *consequence*; with *trusted*
    false only a note, as the machine may have gone down before the name of one was synced."""
    what = f"{part} before this one is gone"
    if trusted:
        findings.add(path, 0, what, consequence)
    else:
        findings.note(path, 0, what, _LOST)


def unreadable(gap: Gap) -> str:
    """The sentence for *gap*."""
    return f"{gap.why}; {gap.end - gap.start:,} bytes cannot be read"
