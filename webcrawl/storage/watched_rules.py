"""A file of rules, one a line, that is read again whenever it changes while the crawl runs.

Held by those who go by the rules: the exclusions, and the patterns that are no traps. They call
``reload_if_changed`` with every slice of background work; the reading is done in a thread.

Invariant: ``rules`` are one whole version of the file, the newest that could be read. A file that
vanishes or cannot be read takes no rule away. Nothing is kept over a restart.
"""

from __future__ import annotations

import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, BinaryIO, Final, Generic, NamedTuple, Protocol, TypeVar

from webcrawl.errors import FatalError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from pathlib import Path

logger = logging.getLogger(__name__)

# Seconds between two looks at the file, however often they are asked for.
_LOOK_EVERY: Final = 0.9
# While the crawl runs the reader does this many lines, 0.3 ms, and leaves the interpreter to the
# reactor for so many seconds: otherwise it would wait 5 ms for each of its system calls.
_LINES_AT_ONCE: Final = 200
_REST: Final = 0.0005
# Host names have 253 characters at most, patterns 300; in UTF-8 and with a comment they are longer.
_MAX_LINE_BYTES: Final = 2048
_LOGGED_BAD_LINES: Final = 10


class Rules(Protocol):
    """What a file's lines are made into."""

    def __len__(self) -> int: ...

    def add(self, line: bytes) -> None:
        """Take the rule of *line*, if there is one; ValueError, with a sentence's end, otherwise:
        then nothing has changed."""


R = TypeVar("R", bound=Rules)


class RulesFile(Generic[R]):
    """The rules of *path*, none if it is None.

    *make* is called with about how many lines there are, each time the file is read. *setting*
    names the file, and *idle* is what a bad line or an empty file does ("excludes nobody").
    """

    def __init__(
        self,
        *,
        path: Path | None,
        setting: str,
        idle: str,
        make: Callable[[int], R],
        clock: Callable[[], float],
    ) -> None:
        self._path = path
        self._setting = setting
        self._idle = idle
        self._make = make
        self._clock = clock
        self.rules = make(0)
        # Those before, as long as the file may still be being written: an editor may have emptied
        # it first. Whose rules must not be gone for a moment goes by both.
        self.older: R | None = None
        self._bad_lines = 0
        self._version: _Version | None = None
        self._looked_at = -_LOOK_EVERY
        self._executor: ThreadPoolExecutor | None = None
        self.reading: Future[None] | None = None
        self._closed = False
        self._complained = False
        self.reloads = 0

    def open(self) -> None:
        """Read the file, in the calling thread: 1.5 s for a million lines.

        Raises FatalError with one sentence if it cannot be read: who names a file means it.
        """
        if self._path is None:
            return
        try:
            self._read(self._path, rest=0.0)
        except OSError as e:
            raise FatalError(
                f"{self._setting} {self._path} cannot be read ({e.strerror}): create it, an empty "
                f"one {self._idle}."
            ) from e

    def close(self) -> None:
        """Stop reading. Blocks for the lines that are read at once. Idempotent."""
        self._closed = True
        if self._executor is not None:
            self._executor.shutdown()

    def reload_if_changed(self) -> None:
        """Begin to read the file again, in a thread, if it is another than the one in force.

        Costs one stat a second; never blocks for the reading and raises nothing. A new rule acts
        when all of the file is read: at once, or after 6 s for a million lines. What is gone from
        the file is in ``older`` until that has stood still from one look to the next.
        """
        now = self._clock()
        if self._path is None or self._closed or now - self._looked_at < _LOOK_EVERY:
            return
        if self.reading is not None and not self.reading.done():
            return
        self._looked_at = now
        try:
            changed = _version_of(self._path.stat()) != self._version
        except OSError as e:
            self._complain(e)
            return
        if not changed:
            self.older = None
        if changed or self._complained:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, thread_name_prefix="rules")
            self.reading = self._executor.submit(self._read_again, self._path)

    def stats(self) -> dict[str, int]:
        """What the rules in force are: their number, lines that were none, times read again."""
        return {"rules": len(self.rules), "bad_lines": self._bad_lines, "reloads": self.reloads}

    def _read_again(self, path: Path) -> None:
        """In the executor's thread."""
        if self.older is None:
            self.older = self.rules
        try:
            self._read(path, rest=_REST)
        except OSError as e:
            self._complain(e)
        else:
            self.reloads += 1
            self._complained = False

    def _read(self, path: Path, *, rest: float) -> None:
        with path.open("rb") as file:
            # Before the first line: a change while it is being read makes it be read again.
            version = _version_of(os.fstat(file.fileno()))
            rules = self._make(_count_lines(file))
            bad_lines = 0
            for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE_BYTES), b""), 1):
                try:
                    rules.add(line)
                except ValueError as e:
                    bad_lines += 1
                    self._report(path, number, e, bad_lines)
                if len(line) == _MAX_LINE_BYTES:
                    _skip_line(file, line)
                if rest and number % _LINES_AT_ONCE == 0:
                    if self._closed:
                        return
                    time.sleep(rest)
        self.rules, self._version, self._bad_lines = rules, version, bad_lines
        logger.info("%d rules of %s %s are in force", len(rules), self._setting, path)

    def _report(self, path: Path, number: int, error: ValueError, bad_lines: int) -> None:
        if bad_lines <= _LOGGED_BAD_LINES:
            last = bad_lines == _LOGGED_BAD_LINES
            more = "; further such lines are only counted" if last else ""
            logger.warning("%s, line %d %s: %s%s", path, number, self._idle, error, more)

    def _complain(self, error: OSError) -> None:
        if not self._complained:
            self._complained = True
            logger.error(
                "%s %s cannot be read (%s): its last %d rules stay in force",
                self._setting, self._path, error.strerror, len(self.rules),
            )  # fmt: skip


class _Version(NamedTuple):
    """What tells one state of a file from another; a file put in its place has another inode."""

    mtime_ns: int
    size: int
    inode: int


def _version_of(stat: os.stat_result) -> _Version:
    return _Version(stat.st_mtime_ns, stat.st_size, stat.st_ino)


def _count_lines(file: BinaryIO) -> int:
    """Return about how many lines there are, and go back to the first."""
    count = 1
    while block := file.read(1 << 18):
        count += block.count(b"\n")
    file.seek(0)
    return count


def _skip_line(file: BinaryIO, line: bytes) -> None:
    """Go to the next line, for all that *line* holds of this one is read."""
    while line and not line.endswith(b"\n"):
        line = file.readline(1 << 18)
