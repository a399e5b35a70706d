"""Findings of a check, as data, and its progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Findings, and notes, that are kept; all are counted.
MOST: Final = 1000


class Finding(msgspec.Struct, frozen=True):
    """Damage in *part* at byte *offset* of *file*, a path within the job directory.

    *consequence* is what that means for the crawl.
    """

    part: str
    file: str
    offset: int
    what: str
    consequence: str = msgspec.field(name="means")  # by its first name in JSON


class Findings:
    """The findings of a check of the job in *jobdir*.

    *on_progress* is called with the number of bytes read. *part* is the part of the job that is
    being checked.
    """

    def __init__(self, *, jobdir: Path, on_progress: Callable[[int], object]) -> None:
        self.jobdir = jobdir
        self.on_progress = on_progress
        self.part = ""
        self.damage: list[Finding] = []
        self._places: set[tuple[str, int, str]] = set()
        self.notes: list[Finding] = []
        self.damage_count = 0
        self.note_count = 0
        self.parts: dict[str, int] = {}
        """How many places are damaged in each part that was looked at."""

    def begin(self, part: str) -> None:
        """Begin with *part*."""
        self.part = part
        self.parts.setdefault(part, 0)

    def add(self, file: Path, offset: int, what: str, consequence: str) -> None:
        """Add damage. One place, as a header before several stretches of a log, counts once."""
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
        """Add what a killed process leaves behind, and the next start mends."""
        self.note_count += 1
        if len(self.notes) < MOST:
            self.notes.append(self._finding(file, offset, what, consequence))

    def _finding(self, file: Path, offset: int, what: str, consequence: str) -> Finding:
        name = str(file.relative_to(self.jobdir)) if file.is_relative_to(self.jobdir) else str(file)
        return Finding(self.part, name, offset, what, consequence)
