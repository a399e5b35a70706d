"""Collects the findings of a check, and checks record logs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
from isal import isal_zlib

from webcrawl.configuration.decoding import UndecodableError
from webcrawl.storage.record_log import (
    FRAME,
    HEADER_SIZE,
    MAGIC,
    CorruptRecordError,
    read_records,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_CRC_START = isal_zlib.crc32(MAGIC)
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
        # File, offset and description of each finding in *damage*, to add none of them twice.
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
        finding = self._create_finding(file, offset, what, consequence)
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
            self.notes.append(self._create_finding(file, offset, what, consequence))

    def add_since(self, file: Path, offset: int, what: str, consequence: str) -> None:
        """Add damage in data that was written since the checkpoint.

        If the machine has gone down since, it is only a note, because such data may be lost then.
        """
        if self.trusted:
            self.add(file, offset, what, consequence)
        else:
            self.note(file, offset, what, _NOT_WRITTEN)

    @contextmanager
    def catch_errors(self, path: Path, consequence: str) -> Iterator[None]:
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

        A record for which *parse* raises ValueError is damaged, too. Nothing is read after the
        first unreadable record, because the crawl does not read it either. Without an *end*, the
        records were written since the checkpoint, and a torn end is only noted.
        """
        size = path.stat().st_size if path.exists() else 0
        if end is None and size < HEADER_SIZE:  # nothing was written since, not even a header
            return
        offset = start
        limit = size if end is None else end
        try:
            for record_end, payload in read_records(path, start=start, end=limit):
                self.on_progress(record_end - offset)
                try:
                    parse(payload)
                except ValueError as error:
                    self.add(path, offset, str(error), consequence)
                offset = record_end
        except CorruptRecordError as error:
            what = f"{error.why}; {limit - offset:,} bytes cannot be read"
            # Only the last record can be one that was being written when the process died.
            if end is not None:
                self.add(path, error.offset, what, consequence)
            elif error.why.startswith("the file ends") and _is_torn(path, offset):
                self.note(path, error.offset, what, CUT)
            else:
                self.add_since(path, error.offset, what, consequence)

    def _create_finding(self, file: Path, offset: int, what: str, consequence: str) -> Finding:
        """Return a finding in the current part, with *file* relative to the job directory."""
        name = str(file.relative_to(self.jobdir)) if file.is_relative_to(self.jobdir) else str(file)
        return Finding(self.part, name, offset, what, consequence)


def _is_torn(path: Path, start: int) -> bool:
    """Return whether the end of *path* from byte *start* on may be a single incomplete record.

    It may not be one if it contains a complete record, or if only the length is damaged.
    """
    data = memoryview(path.read_bytes())[start:]
    # Whether a record begins at an offset is not known, so every offset is tried.
    for offset in range(len(data) - FRAME.size):
        length, crc = FRAME.unpack_from(data, offset)
        begin = offset + FRAME.size
        # At the first offset a record does begin, so it is tried even with an impossible length.
        may_be_record = not offset or 0 < length <= len(data) - begin
        if may_be_record and isal_zlib.crc32(data[begin:][:length], _CRC_START) == crc:
            return False
    return True
