"""Findings and progress of a check; gaps in record logs become findings."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from webcrawl.configuration.decoding import UndecodableError
from webcrawl.storage.record_log import HEADER_SIZE, CorruptRecordError
from webcrawl.storage.scan import Gap, scan_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: Number of findings, and of notes, that are kept; all are counted.
MOST = 1000
#: The consequence of a damaged snapshot.
NO_SNAPSHOT = "the crawl cannot be resumed"
#: The consequence of a torn end.
CUT = "the next start cuts it off; it was being written when the process died"
_LOST = "the machine went down before it was written; no checkpoint needs it"


class Finding(msgspec.Struct, frozen=True):
    """Damage in *part* at byte *offset* of *file*, a path within the job directory.

    *what* is wrong there, and *consequence* is what that means for the crawl.
    """

    part: str
    file: str
    offset: int
    what: str
    consequence: str = msgspec.field(name="means")  # its JSON name


class Findings:
    """Findings of a check of the job in *jobdir*.

    *on_progress* is called with the number of bytes read. *part* is the part of the job that is
    being checked. *trusted* says that the machine has not gone down since its state was saved, see
    ``SavedState``.
    """

    def __init__(self, *, jobdir: Path, on_progress: Callable[[int], object]) -> None:
        self.jobdir = jobdir
        self.on_progress = on_progress
        self.part = ""
        self.trusted = True
        self.damage: list[Finding] = []
        self._places: set[tuple[str, int, str]] = set()
        self.notes: list[Finding] = []
        self.damage_count = 0
        self.note_count = 0
        self.parts: dict[str, int] = {}
        """Number of damaged places in each part that was checked."""

    def begin(self, part: str) -> None:
        """Start checking *part*."""
        self.part = part
        self.parts.setdefault(part, 0)

    def add(self, file: Path, offset: int, what: str, consequence: str) -> None:
        """Add damage. The same place counts once, such as a header before several log spans."""
        finding = self._finding(file, offset, what, consequence)
        place = finding.file, offset, what
        if place in self._places:
            return
        if len(self.damage) < MOST:
            self._places.add(place)
            self.damage.append(finding)
        self.damage_count += 1
        self.parts[self.part] += 1

    def note(self, file: Path, offset: int, what: str, consequence: str) -> None:
        """Add something that a killed process leaves behind and the next start repairs."""
        self.note_count += 1
        if len(self.notes) < MOST:
            self.notes.append(self._finding(file, offset, what, consequence))

    def add_since(self, file: Path, offset: int, what: str, consequence: str) -> None:
        """Add damage in what was written since the checkpoint.

        Only a note if the machine has gone down, because it may have been lost then.
        """
        if self.trusted:
            self.add(file, offset, what, consequence)
        else:
            self.note(file, offset, what, _LOST)

    @contextmanager
    def catching(self, path: Path, consequence: str) -> Iterator[None]:
        """Add errors of reading or decoding in the block as damage with this *consequence*.

        It is in *path* if the error does not say where.
        """
        try:
            yield
        except CorruptRecordError as error:
            self.add(error.path, error.offset, error.why, consequence)
        except UndecodableError as error:
            self.add(path, 0, f"the snapshot cannot be read: {error}", consequence)

    def records(
        self,
        path: Path,
        consequence: str,
        parse: Callable[[bytes], object],
        *,
        start: int = HEADER_SIZE,
        end: int | None = None,
    ) -> None:
        """Add gaps between the records of *path*, and records that *parse* rejects, as damage.

        Without an *end*, they were written since the checkpoint, and a torn end is only noted.
        """
        for piece in scan_records(path, start=start, end=end):
            self.on_progress(piece.end - piece.start)
            if not isinstance(piece, Gap):
                try:
                    parse(piece.payload)
                except ValueError as error:
                    self.add(path, piece.start, str(error), consequence)
            elif end is not None:
                self.add(path, piece.start, unreadable(piece), consequence)
            elif piece.is_torn:
                self.note(path, piece.start, unreadable(piece), CUT)
            else:
                self.add_since(path, piece.start, unreadable(piece), consequence)

    def _finding(self, file: Path, offset: int, what: str, consequence: str) -> Finding:
        name = str(file.relative_to(self.jobdir)) if file.is_relative_to(self.jobdir) else str(file)
        return Finding(self.part, name, offset, what, consequence)


def unreadable(gap: Gap) -> str:
    """Return a sentence about *gap*."""
    return f"{gap.why}; {gap.end - gap.start:,} bytes cannot be read"
