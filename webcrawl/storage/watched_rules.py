"""Watched rules: a file with one rule per line that is read again when it changes.

Used for the exclusion file, the trap exceptions and the ranks of hosts. ``reload_if_changed`` is
called in every slice of background work; the file is read in a thread. The package control sets
``on_change`` to be notified of changes, and then reads the file in the same way as for its command
``reload``.

Invariant: ``rules`` always comes from one complete version of the file, the newest that could be
read. If the file disappears or cannot be read, its rules stay in force. Nothing survives a restart.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from webcrawl.clock import TimeSource
from webcrawl.errors import FatalError, require_file

logger = logging.getLogger(__name__)

# Seconds between two checks of the file, however often ``reload_if_changed`` is called.
_CHECK_EVERY = 0.9
# Seconds until the next check after the file could not be read, because each attempt is recorded in
# the journal.
_CHECK_AFTER_ERROR = 60.0
_LOGGED_BAD_LINES = 10
# Small buffers would make the thread release the interpreter lock every few lines, and get it back
# before another thread can take it: with buffers of 8 kB the event loop stopped for 0.5 s, with
# these for 15 ms.
_READ_BYTES = 1 << 20


class Rules(Protocol):
    """The rules in one version of a rules file."""

    def __len__(self) -> int: ...

    def add(self, line: str) -> None:
        """Add the rule in *line*, if the line contains one.

        For a bad rule, raises ValueError with a clause that says why, and changes nothing.
        """


R = TypeVar("R", bound=Rules)
# The time of the last change in nanoseconds, the size in bytes, and the inode number.
FileVersion = tuple[int, int, int]


class Reading(Protocol):
    """A pending read of a rules file, done by a thread or by a control command."""

    def done(self) -> bool: ...


class RulesFile(Generic[R]):
    """The rules in the file *path*; there are none if *path* is None or empty.

    A bad line is ignored, or makes the whole version of the file invalid if *bad_line_is_fatal*.
    Each time the file is read, *make_rules* is called to get an empty set of rules, and
    *complete_rules* is called with that set once all rules have been added. *setting* is the
    setting that names the file. *no_effect* is a verb phrase for messages that says what a bad line
    or an empty file does, such as "excludes nothing".
    """

    def __init__(
        self,
        *,
        path: Path | str | None,
        setting: str,
        no_effect: str,
        make_rules: Callable[[], R],
        clock: TimeSource,
        complete_rules: Callable[[R], object] = lambda rules: rules,
        bad_line_is_fatal: bool = False,
    ) -> None:
        self._path = Path(path) if path else None
        self.setting = setting
        self._no_effect = no_effect
        self._make_rules = make_rules
        self._complete_rules = complete_rules
        self._bad_line_is_fatal = bad_line_is_fatal
        self._clock = clock
        #: The rules in force.
        self.rules = make_rules()
        #: Number of times that the file was read again.
        self.reloads = 0
        self._bad_lines = 0  # in the version of the file whose rules are in force
        # Results of ``_version_of``: for the rules in force, or for a version that could not be
        # used; and for the file at the last check. None before the first read or check.
        self._used_version: FileVersion | None = None
        self._checked_version: FileVersion | None = None
        # When the file was checked. The first check is due immediately.
        self._checked_at = -_CHECK_EVERY
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="rules")
        #: Called when the file has changed; starts to read it and returns that pending read.
        self.on_change: Callable[[], Reading] = self.read_again
        #: The read that ``reload_if_changed`` started last; None before the first one.
        self.reading: Reading | None = None
        # Whether it was logged that the file cannot be read, since it was last readable.
        self._has_warned_unreadable = False

    def open(self) -> None:
        """Read the file in the calling thread.

        Raises FatalError with one sentence if the file cannot be read.
        """
        if self._path is None:
            return
        try:
            self._read(self._path)
        except OSError as e:
            raise FatalError(
                f"{self.setting} {self._path} cannot be read ({e.strerror}): create it; an empty "
                f"file {self._no_effect}."
            ) from e

    def close(self) -> None:
        """Stop watching the file, without waiting for a pending read to end. Idempotent."""
        self._path = None
        self._executor.shutdown(wait=False)

    def reload_if_changed(self) -> None:
        """If the file has changed, start to read it again in a thread.

        Takes one stat per second; raises nothing. A changed file is only read once two successive
        checks have found it in the same state, because many editors empty a file before they write
        it.
        """
        now = self._clock()
        if self._path is None or now - self._checked_at < _CHECK_EVERY:
            return
        if self.reading is not None and not self.reading.done():
            return
        self._checked_at = now
        previous = self._checked_version
        try:
            self._checked_version = _version_of(self._path.stat())
        except OSError as e:
            self._report_unreadable(e)
            return
        if (
            self._checked_version == self._used_version
        ):  # unchanged, and readable again if it was not
            self._has_warned_unreadable = False
        elif self._checked_version == previous:
            self.reading = self.on_change()

    def read_again(self) -> Future[str]:
        """Start to read the file in a thread; the result is the error message, or "" on success.

        Raises FatalError if there is no file.
        """
        if self._path is None:
            raise FatalError(f"{self.setting} is not set, so there is nothing to read.")
        return self._executor.submit(self._read_again, self._path)

    @property
    def version(self) -> str:
        """Name the file whose rules are in force, with the date of its last change."""
        changed_at = self._used_version[0] / 1e9 if self._used_version else 0
        return f"{self._path} of {time.strftime('%Y-%m-%d', time.gmtime(changed_at))}"

    def stats(self) -> dict[str, int]:
        """Return the numbers of rules in force, of bad lines, and of reloads."""
        return {"rules": len(self.rules), "bad_lines": self._bad_lines, "reloads": self.reloads}

    def _read_again(self, path: Path) -> str:
        """Read the file in the executor's thread; return the error message, or "" on success."""
        try:
            self._read(path)
        except OSError as e:
            # As if that were the time of the last check, so that the next one is later than usual.
            self._checked_at = self._clock() + _CHECK_AFTER_ERROR
            return self._report_unreadable(e)
        except FatalError as e:
            error = f"{e} The previous rules ({len(self.rules)}) stay in force."
            logger.error(error)  # noqa: TRY400  # the message says enough
        except Exception:
            error = f"{self.setting} {path} could not be read"
            logger.exception(error)
        else:
            self.reloads += 1
            self._has_warned_unreadable = False
            return ""
        self._used_version = self._checked_version  # do not read the file again until it changes
        return error

    def _read(self, path: Path) -> None:
        """Read the rules in the file *path* and put them in force.

        Raises OSError, and FatalError if a bad line makes the file invalid.
        """
        require_file(path)
        with path.open("rb", buffering=_READ_BYTES) as file:
            # Get the version first, so that a change during the read is noticed at the next check.
            version = _version_of(os.fstat(file.fileno()))
            rules = self._make_rules()
            bad_lines = 0
            for number, line in enumerate(file, 1):
                if self._path is None:  # closed meanwhile
                    return
                try:
                    rules.add(line.rstrip(b"\r\n").decode("utf-8-sig"))
                except ValueError as e:  # including UnicodeDecodeError
                    if self._bad_line_is_fatal:
                        raise FatalError(
                            f"{self.setting} {path} cannot be used: line {number}: {e}."
                        ) from e
                    bad_lines += 1
                    self._report_bad_line(path, number, e, bad_lines)
        self._complete_rules(rules)
        self.rules = rules
        self._used_version = version
        self._bad_lines = bad_lines
        logger.info("%s %s: rules in force: %d", self.setting, path, len(rules))

    def _report_bad_line(self, path: Path, number: int, error: ValueError, bad_lines: int) -> None:
        """Log a bad line, but only the first of many."""
        if bad_lines <= _LOGGED_BAD_LINES:
            last = bad_lines == _LOGGED_BAD_LINES
            more = "; further bad lines are only counted" if last else ""
            logger.warning("%s, line %d %s: %s%s", path, number, self._no_effect, error, more)

    def _report_unreadable(self, error: OSError) -> str:
        """Log that the file cannot be read, unless it was already logged; return the message."""
        message = (
            f"{self.setting} {self._path} cannot be read ({error.strerror}): its previous rules "
            f"({len(self.rules)}) stay in force"
        )
        if not self._has_warned_unreadable:
            self._has_warned_unreadable = True
            logger.error(message)
        return message


def _version_of(stat: os.stat_result) -> FileVersion:
    """Return values that differ if the file has been changed or replaced (another inode)."""
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
