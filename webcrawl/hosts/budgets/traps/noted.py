"""Notes on parked patterns: a line in the log and one in ``traps.txt`` for each event.

    # format of traps.txt: pattern, two spaces, "#" and the event; appended only
    http://a.test/cal/{n}?sid  # 2026-11-20 13:00:05 parked: 30 of 30 pages had been seen, as http…

A line, copied to TRAP_EXCEPTIONS_FILE, frees its pattern. The crawl never reads the file, and a
full disk does not end it here.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)


class Notes:
    """The writer of ``traps.txt``, *path*; it makes no directory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._complained = False

    def parked(self, pattern: str, *, seen: int, of: int, example: str, at: float) -> None:
        """Note that *seen* of the pattern's recent documents, *of* in all, had content seen
        before."""
        logger.info(
            "Trap learned: %d of the last %d pages of %s had content already seen, as %s; its URLs "
            "wait from now on",
            seen, of, pattern, example,
        )  # fmt: skip
        self._append(pattern, f"parked: {seen} of {of} pages had been seen, as {example}", at)

    def tried(self, pattern: str, *, at: float) -> None:
        """Note that the pattern is free until some more pages are known."""
        self._append(pattern, "tried again", at)

    def _append(self, pattern: str, what: str, at: float) -> None:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{pattern}  # {when} {what}\n")
        except OSError as error:
            if not self._complained:
                self._complained = True
                logger.error(  # noqa: TRY400  # the sentence says it all
                    "%s could not be written (%s); the traps are learned all the same",
                    self._path, error.strerror,
                )  # fmt: skip
