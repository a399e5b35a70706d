"""Time limit for parsing documents, and the list of documents that killed the process twice.

Reading a document means parsing it for links, or a robots.txt for its rules. It happens in the
context that ``of`` returns, which costs 1 us.

* At intervals of the process's CPU time, a signal handler checks whether the same document is still
  being read. If it takes too long, it raises an exception within the parser. This can interrupt
  Python code and regular expressions.
* ``JOBDIR/reading`` names the URL being read. It is mapped into memory, so it survives ``kill -9``.
  If the process dies twice in a row with the same URL in it, the URL is poison: C code hangs while
  parsing it, or it uses up all memory. It is not read again.

Invariants: the signal handler raises nothing while no document is read. A URL is poison only if it
was being read at both deaths, and there was no other run between them.

Both files are written only by the process that owns JOBDIR::

    reading      byte 0: 1 while a document is read; bytes 1 and 2: length of the URL,
                 little-endian; then the URL in UTF-8, cut so that the file has 4,096 bytes
    poison.json  {"suspect": URL being read at the last death, "poison": [URLs to be set aside]}
"""

from __future__ import annotations

import logging
import mmap
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, Self, TypeVar

import msgspec

from webcrawl.configuration.decoding import UndecodableError, json_decoder
from webcrawl.storage.atomic import write_atomic
from webcrawl.wording import COMMAND

logger = logging.getLogger(__name__)

_SIZE = 4096
# Size of the part before the URL.
_HEADER_SIZE = 3
# Number of signals within the time limit of a document.
_TICKS = 5
# Seconds of CPU time for one document.
_MAX_SECS = 5.0
_END = object()
_T = TypeVar("_T")


class ReadingTooLongError(Exception):
    """Raised when parsing a document took too long; its URL is then set aside."""

    outcome: ClassVar[str] = "poison"


class _CutOff(BaseException):
    """Raised by the signal handler; ``except Exception`` does not catch it."""


class _Deaths(msgspec.Struct):
    """The URL being read when the process last died, and the URLs to be set aside."""

    suspect: str = ""
    poison: list[str] = []


_decode = json_decoder(_Deaths)


class ReadingWatch:
    """Watches the main thread read documents, one at a time.

    Parsing is aborted after _MAX_SECS of the thread's CPU time, during which nothing else can run.
    That is long: the largest pages take 0.1 s, and sitemaps and feeds are read in slices. Before
    ``open``, nothing is recorded or aborted.
    """

    def __init__(self, *, jobdir: Path) -> None:
        self._slot_path = jobdir / "reading"
        self._deaths_path = jobdir / "poison.json"
        # The file *reading*, mapped into memory; before ``open``, memory without a file.
        self._slot = mmap.mmap(-1, _SIZE)
        # The content of poison.json.
        self._deaths = _Deaths()
        # The URL that is being read, or was read last.
        self._url = ""
        self._is_reading = False
        # The number of the current document, and the one that the last signal saw.
        self._number = 0
        self._seen = 0
        # CPU time of the thread when a signal first saw that document.
        self._seen_at = 0.0
        # The handler of the timer signal before ``open``; None while nothing is watched.
        self._former_handler: Any = None

    def open(self) -> None:
        """Check which document was being read when the last run ended, and start watching.

        Raises OSError.
        """
        self._record_death()
        with self._slot_path.open("ab+") as file:
            os.posix_fallocate(file.fileno(), 0, _SIZE)  # a full disk must not kill us later
            self._slot = mmap.mmap(file.fileno(), _SIZE)
        self._slot[0] = 0  # no document is being read
        # Python lets only the main thread handle signals.
        if threading.current_thread() is threading.main_thread():
            self._former_handler = signal.signal(signal.SIGVTALRM, self._on_signal)
            every = _MAX_SECS / _TICKS
            signal.setitimer(signal.ITIMER_VIRTUAL, every, every)

    def close(self) -> None:
        """Stop watching."""
        if self._former_handler is not None:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, self._former_handler)
            self._former_handler = None
        self._slot.close()
        self._slot = mmap.mmap(-1, _SIZE)

    def of(self, url: str) -> Self:
        """Return a context manager within which the document *url* is parsed.

        Nothing may be awaited in it. It raises ReadingTooLongError if parsing was aborted.
        """
        self._url = url
        return self

    def steps(self, url: str, items: Iterable[_T]) -> Iterator[_T]:
        """Yield *items*, and limit the time of each step as part of parsing *url*."""
        iterator = iter(items)
        while True:
            with self.of(url):
                item: Any = next(iterator, _END)
            if item is _END:
                return
            yield item

    def is_poison(self, url: str) -> bool:
        """Return whether *url* must not be read again."""
        return bool(self._deaths.poison) and _cut_to_fit(url) in self._deaths.poison

    def set_aside(self, url: str) -> None:
        """Remove *url* from the list of poison, because it is finished with that outcome.

        If the URL is retried later, it is read again. Raises OSError.
        """
        self._deaths.poison.remove(_cut_to_fit(url))
        self._save()

    def __enter__(self) -> None:
        name = self._url.encode(errors="replace")[: _SIZE - _HEADER_SIZE]
        slot = self._slot
        slot[_HEADER_SIZE : _HEADER_SIZE + len(name)] = name
        slot[1:_HEADER_SIZE] = len(name).to_bytes(2, "little")
        slot[0] = 1
        self._number += 1
        self._is_reading = True

    def __exit__(self, error_type: object, error: BaseException | None, _: object) -> None:
        self._is_reading = False
        self._slot[0] = 0
        if error_type is _CutOff:
            raise ReadingTooLongError(
                f"{self._url} took more than {_MAX_SECS:g} s to read"
            ) from error

    def _on_signal(self, _: int, frame: FrameType | None) -> None:
        """Handle the timer signal: abort parsing if the same document takes too long."""
        # The exception must not interrupt __exit__, which ends the reading.
        if not self._is_reading or (frame and frame.f_code is ReadingWatch.__exit__.__code__):
            return
        now = time.thread_time()
        if self._number != self._seen:
            self._seen = self._number
            self._seen_at = now
        elif now - self._seen_at > _MAX_SECS:
            raise _CutOff

    def _record_death(self) -> None:
        """Find out which document, if any, the last run died of, and record it.

        After two deaths in a row the document is poison.
        """
        try:
            self._deaths = _decode(self._deaths_path.read_bytes())
        except (FileNotFoundError, UndecodableError):
            self._deaths = _Deaths()  # if the file is damaged, every URL gets another try

        last = self._url_at_death()
        suspect = self._deaths.suspect
        if last == suspect:
            if not last:  # neither of the last two runs died of a document
                return
            logger.warning(
                "Two runs in a row died while reading %s: it is set aside as poison; to try it "
                "again, run %s frontier %s --retry poison",
                last,
                COMMAND,
                self._deaths_path.parent,
            )
            self._deaths = _Deaths(poison=[*self._deaths.poison, last])
        else:
            if last:
                logger.warning(
                    "The last run died while reading %s: if this one does, too, it is set aside",
                    last,
                )
            self._deaths.suspect = last

        self._save()

    def _url_at_death(self) -> str:
        """Return the URL that was being read when the last run died; "" if there is none."""
        try:
            data = self._slot_path.read_bytes()
        except FileNotFoundError:
            return ""
        # Byte 0 is 0 if no document was being read.
        if len(data) < _HEADER_SIZE or data[0] != 1:
            return ""
        size = int.from_bytes(data[1:_HEADER_SIZE], "little")
        return data[_HEADER_SIZE : _HEADER_SIZE + size].decode(errors="replace")

    def _save(self) -> None:
        """Write poison.json. Raises OSError."""
        write_atomic(self._deaths_path, msgspec.json.encode(self._deaths))


def _cut_to_fit(url: str) -> str:
    """Return *url*, cut to the length that fits into the file."""
    return url.encode(errors="replace")[: _SIZE - _HEADER_SIZE].decode(errors="replace")
