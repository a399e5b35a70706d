"""Watched rules: a file of rules, one a line, read again when it changes during the crawl.

Used for the exclusion file, the trap exceptions and the ranks of hosts. ``reload_if_changed`` is
called with every slice of background work; the file is read in a thread. control/ has itself told
of changes by ``on_change``, and reads as its command ``reload`` does.

Invariant: ``rules`` are one whole version of the file, the newest that could be read. A file that
vanishes or cannot be read takes no rule away. Nothing is kept over a restart.
"""

from __future__ import annotations

import logging
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from webcrawl.errors import FatalError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from webcrawl.clock import TimeSource

logger = logging.getLogger(__name__)

# Seconds between two looks at the file, however often ``reload_if_changed`` is called.
_LOOK_EVERY = 0.9
# And after a reading that the system has refused: each is in the journal of commands.
_LOOK_AFTER_ERROR = 60.0
_LOGGED_BAD_LINES = 10
# A reader that lets go of the interpreter every few lines takes it back before another thread has
# noticed: with buffers of 8 kB the event loop stood still for 0.5 s, with these for 15 ms.
_READ_BYTES = 1 << 20


class Rules(Protocol):
    """The rules of one version of a file."""

    def __len__(self) -> int: ...

    def add(self, line: str) -> None:
        """Add the rule of *line*, if there is one. ValueError, with the end of a sentence, for a
        bad one, which changes nothing."""


R = TypeVar("R", bound=Rules)


class Reading(Protocol):
    """The reading of a file, by a thread or as a command."""

    def done(self) -> bool: ...


class RulesFile(Generic[R]):
    """The rules of the file *path*, none if it is None or empty.

    With *is_whole* a bad line spoils all of a version, else only itself.
    *make* makes an empty set of rules, each time the file is read, and *complete* is called with it
    when it has all of them. *setting* names the file, and *idle* is the effect of a bad line or an
    empty file, for messages ("excludes nobody").
    """

    def __init__(
        self,
        *,
        path: Path | str | None,
        setting: str,
        idle: str,
        make: Callable[[], R],
        clock: TimeSource,
        complete: Callable[[R], object] = lambda rules: rules,
        is_whole: bool = False,
    ) -> None:
        self._path = Path(path) if path else None
        self.setting = setting
        self._idle = idle
        self._make = make
        self._complete = complete
        self._is_whole = is_whole
        self._clock = clock
        self.rules = make()
        self.reloads = 0
        self._bad_lines = 0
        self._version: tuple[int, int, int] | None = None  # of the rules in force
        self._seen: tuple[int, int, int] | None = None  # at the last look
        self._looked_at = -_LOOK_EVERY
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="rules")
        #: Called when the file has changed; its result is done when it has been read.
        self.on_change: Callable[[], Reading] = self.read_again
        self.reading: Reading | None = None
        self._complained = False

    def open(self) -> None:
        """Read the file, in the calling thread. FatalError with one sentence if it cannot be
        read."""
        if self._path is None:
            return
        try:
            self._read(self._path)
        except OSError as e:
            raise FatalError(
                f"{self.setting} {self._path} cannot be read ({e.strerror}): create it, an empty "
                f"one {self._idle}."
            ) from e

    def close(self) -> None:
        """Stop watching, and reading. Does not wait for it. Idempotent."""
        self._path = None
        self._executor.shutdown(wait=False)

    def reload_if_changed(self) -> None:
        """Begin to read the file again, in a thread, if it has changed.

        Costs one stat a second; raises nothing. A changed file is read once two looks have found it
        the same: many editors empty a file before they write it.
        """
        now = self._clock()
        if self._path is None or now - self._looked_at < _LOOK_EVERY:
            return
        if self.reading is not None and not self.reading.done():
            return
        self._looked_at = now
        before = self._seen
        try:
            self._seen = _version_of(self._path.stat())
        except OSError as e:
            self._complain(e)
            return
        if self._seen == self._version:
            self._complained = False
        elif self._seen == before:
            self.reading = self.on_change()

    def read_again(self) -> Future[str]:
        """Begin to read the file, in a thread; the result says why it cannot be, or is empty.
        FatalError without a file."""
        if self._path is None:
            raise FatalError(f"{self.setting} is not set, so there is nothing to read.")
        return self._executor.submit(self._read_again, self._path)

    def stats(self) -> dict[str, int]:
        """Number of rules in force, number of bad lines, number of times read again."""
        return {"rules": len(self.rules), "bad_lines": self._bad_lines, "reloads": self.reloads}

    def _read_again(self, path: Path) -> str:
        """In the executor's thread."""
        try:
            self._read(path)
        except OSError as e:
            self._looked_at = self._clock() + _LOOK_AFTER_ERROR
            return self._complain(e)
        except FatalError as e:
            error = f"{e} The last rules stay in force ({len(self.rules)})."
            logger.error(error)  # noqa: TRY400  # its text says all
        except Exception:
            error = f"{self.setting} {path} cannot be used as it is now"
            logger.exception(error)
        else:
            self.reloads += 1
            self._complained = False
            return ""
        self._version = self._seen  # it is not read again before it changes
        return error

    def _read(self, path: Path) -> None:
        with path.open("rb", buffering=_READ_BYTES) as file:
            # Before the content: a change while it is being read makes it be read again.
            version = _version_of(os.fstat(file.fileno()))
            rules = self._make()
            bad_lines = 0
            for number, line in enumerate(file, 1):
                if self._path is None:
                    return
                try:
                    rules.add(line.rstrip(b"\r\n").decode("utf-8-sig"))
                except ValueError as e:  # UnicodeDecodeError is one
                    if self._is_whole:
                        raise FatalError(
                            f"{self.setting} {path} cannot be used: line {number}: {e}."
                        ) from e
                    bad_lines += 1
                    self._report(path, number, e, bad_lines)
        self._complete(rules)
        self.rules, self._version, self._bad_lines = rules, version, bad_lines
        logger.info("%s %s: rules in force: %d", self.setting, path, len(rules))

    def _report(self, path: Path, number: int, error: ValueError, bad_lines: int) -> None:
        if bad_lines <= _LOGGED_BAD_LINES:
            last = bad_lines == _LOGGED_BAD_LINES
            more = "; further such lines are only counted" if last else ""
            logger.warning("%s, line %d %s: %s%s", path, number, self._idle, error, more)

    def _complain(self, error: OSError) -> str:
        said = (
            f"{self.setting} {self._path} cannot be read ({error.strerror}): its last rules stay "
            f"in force ({len(self.rules)})"
        )
        if not self._complained:
            self._complained = True
            logger.error(said)
        return said


def _version_of(stat: os.stat_result) -> tuple[int, int, int]:
    """The identity of one state of a file; another file at its path has another inode."""
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
