"""Collects the findings of a check, and finds gaps in record logs."""

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

#: Most findings, and most notes, that are kept. All are counted.
MOST = 1000
#: Consequence of a damaged snapshot.
NO_SNAPSHOT = "the crawl cannot be resumed"
#: Consequence of a torn end.
CUT = "the next start cuts it off; it was being written when the process died"
_NOT_WRITTEN = "the machine went down before it was written; no checkpoint needs it"


class Finding(msgspec.Struct, frozen=True):
    """Damage in *part* of the job, at byte *offset* of *file*.

    *file* is a path relative to the job directory. *what* says what is wrong there, and
    *consequence* what that means for the crawl.
    """

    part: str
    file: str
    offset: int
    what: str
    consequence: str = msgspec.field(name="means")  # its JSON name


class Findings:
    """Collects what a check of the job in *jobdir* finds.

    on_progress: called with the number of bytes read.
    part: the part of the job that is being checked.
    trusted: whether the machine has stayed up since the state of this part was saved; see
        ``SavedState``.
    damage, notes: the first findings of each kind; ``damage_count`` and ``note_count`` count all.
    parts: the number of damaged places in each part that was checked.
    """

    def __init__(self, *, jobdir: Path, on_progress: Callable[[int], object]) -> None:
        self.jobdir = jobdir
        self.on_progress = on_progress
        self.part = ""
        self.trusted = True
        self.damage: list[Finding] = []
        self._known_damage: set[tuple[str, int, str]] = set()
        self.notes: list[Finding] = []
        self.damage_count = 0
        self.note_count = 0
        self.parts: dict[str, int] = {}

    def begin(self, part: str) -> None:
        """Start the check of *part*, to which later findings belong."""
        self.part = part
        self.parts.setdefault(part, 0)

    def add(self, file: Path, offset: int, what: str, consequence: str) -> None:
        """Add damage at byte *offset* of *file*: what is wrong, and its consequence.

        The same damage counts only once, such as that of a header before several spans of a log.
        """
        finding = self._finding(file, offset, what, consequence)
        key = finding.file, offset, what
        if key in self._known_damage:
            return
        if len(self.damage) < MOST:
            self._known_damage.add(key)
            self.damage.append(finding)
        self.damage_count += 1
        self.parts[self.part] += 1

    def note(self, file: Path, offset: int, what: str, consequence: str) -> None:
        """Record something that a killed process left behind and that the next start repairs."""
        self.note_count += 1
        if len(self.notes) < MOST:
            self.notes.append(self._finding(file, offset, what, consequence))

    def add_since(self, file: Path, offset: int, what: str, consequence: str) -> None:
        """Add damage in data that was written since the checkpoint.

        If the machine has gone down since, it is only a note, because such data may be lost then.
        """
        if self.trusted:
            self.add(file, offset, what, consequence)
        else:
            self.note(file, offset, what, _NOT_WRITTEN)

    @contextmanager
    def catching(self, path: Path, consequence: str) -> Iterator[None]:
        """Catch errors of reading and decoding in the block, and add them as damage.

        *path* is the damaged file if the error does not name one.
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
        """Check the records in the file *path* from *start* to *end*, and add what is damaged.

        Damage is a gap between records, or a record for which *parse* raises ValueError. Without an
        *end*, the records were written since the checkpoint, and a torn end is only noted.
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
        """Return a finding in the current part, with *file* relative to the job directory."""
        name = str(file.relative_to(self.jobdir)) if file.is_relative_to(self.jobdir) else str(file)
        return Finding(self.part, name, offset, what, consequence)


def unreadable(gap: Gap) -> str:
    """Say why *gap* cannot be read, and how large it is."""
    return f"{gap.why}; {gap.end - gap.start:,} bytes cannot be read"
