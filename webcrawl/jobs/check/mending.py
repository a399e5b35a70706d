"""Repair in progress: the files put aside and the losses, for all parts of a job."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Final

import msgspec

from webcrawl.clock import Clock
from webcrawl.jobs.check.findings import MOST, NO_SNAPSHOT, UNPARSED, Findings
from webcrawl.storage.atomic import make_directory, sync_path
from webcrawl.storage.record_log import HEADER_SIZE
from webcrawl.storage.scan import Gap, scan_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from webcrawl.storage.scan import FoundRecord

#: Where files with damage in them are kept, below the job directory.
DAMAGED: Final = "damaged"


class Loss(msgspec.Struct, frozen=True):
    """A loss in *part*: what could not be saved."""

    part: str
    what: str


class Mending:
    """One repair of the job in *jobdir*; *number* names the directory of files put aside.

    *part* and *trusted* as in ``Findings``. Contacts that may have been forgotten
    were before now, by *clock*.
    """

    def __init__(self, *, jobdir: Path, number: int, on_progress: Callable[[int], object]) -> None:
        self.jobdir = jobdir
        self.clock = Clock()
        self.part = ""
        self.trusted = True
        self.losses: list[Loss] = []
        self.written: list[Path] = []
        """Files and directories that the new checkpoint names, to be fsynced before it."""
        self.superseded: list[Path] = []
        """Files to delete when the new checkpoint is published."""
        self.aside = jobdir / DAMAGED / f"{number:06d}"
        """The directory of files put aside."""
        self._on_progress = on_progress

    def lost(self, what: str) -> None:
        """Note a loss. Losses beyond a thousand are left out."""
        if len(self.losses) < MOST:
            self.losses.append(Loss(self.part, what))

    def records(
        self,
        path: Path,
        lost: str,
        parse: Callable[[bytes], object],
        *,
        start: int = HEADER_SIZE,
        end: int | None = None,
    ) -> Iterator[FoundRecord]:
        """The records of *path* that *parse* takes. What else there is, but for a torn end, is
        noted as *lost*, in which {} stands for its bytes."""
        for piece in scan_records(path, start=start, end=end):
            if not isinstance(piece, Gap):
                try:
                    parse(piece.payload)
                except UNPARSED:
                    pass
                else:
                    yield piece
                    continue
            elif piece.is_torn:
                continue
            self.lost(lost.format(f"{piece.end - piece.start:,}"))

    def put_aside(self, file: Path) -> None:
        """Keep *file* as it is now under another name; it stays where it is, too."""
        kept = self.aside / file.relative_to(self.jobdir)
        if not file.is_file() or kept.exists():
            return
        made = make_directory(kept.parent)
        try:
            os.link(file, kept)
        except OSError:  # a file system without hard links
            shutil.copyfile(file, kept)
            sync_path(kept)
        for path in (kept.parent, *made):
            sync_path(path)

    def damaged_by(self, check: Callable[[Findings], object]) -> set[Path]:
        """The files in which *check* finds damage."""
        findings = Findings(jobdir=self.jobdir, on_progress=self._on_progress)
        findings.begin(self.part)
        findings.trusted = self.trusted
        with findings.catching(self.jobdir, NO_SNAPSHOT):
            check(findings)
        return {self.jobdir / one.file for one in findings.damage}
