"""What a check has found, as data, and how far it has come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Findings, and notes, that are kept; all are counted.
MOST: Final = 1000


class Finding(msgspec.Struct, frozen=True):
    """Something wrong in *part* at byte *offset* of *file*, a path within the job directory.

    *means* says what that is for the crawl.
    """

    part: str
    file: str
    offset: int
    what: str
    means: str


class Findings:
    """Collects what is wrong with the job in *jobdir*; *told* is called with bytes that were read.

    *part* is the part of the job that is looked at.
    """

    def __init__(self, *, jobdir: Path, told: Callable[[int], object]) -> None:
        self.jobdir = jobdir
        self.told = told
        self.part = ""
        self.damage: list[Finding] = []
        self._places: set[tuple[str, int, str]] = set()
        self.notes: list[Finding] = []
        self.damage_count = 0
        self.note_count = 0
        self.parts: dict[str, int] = {}
        """How many places are damaged in each part that was looked at."""

    def begin(self, part: str) -> None:
        """What comes is about *part*."""
        self.part = part
        self.parts.setdefault(part, 0)

    def add(self, file: Path, offset: int, what: str, means: str) -> None:
        """Something is damaged. Said again of one place, as of a header that several stretches of a
        log lie behind, it counts once."""
        finding = self._finding(file, offset, what, means)
        place = finding.file, offset, what
        if place in self._places:
            return
        if len(self.damage) < MOST:
            self._places.add(place)
            self.damage.append(finding)
        self.damage_count += 1
        self.parts[self.part] += 1

    def note(self, file: Path, offset: int, what: str, means: str) -> None:
        """Something is as a process leaves it that was killed, and mends itself."""
        self.note_count += 1
        if len(self.notes) < MOST:
            self.notes.append(self._finding(file, offset, what, means))

    def _finding(self, file: Path, offset: int, what: str, means: str) -> Finding:
        name = str(file.relative_to(self.jobdir)) if file.is_relative_to(self.jobdir) else str(file)
        return Finding(self.part, name, offset, what, means)
