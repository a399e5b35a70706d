"""Time limit for reading documents, and the list of documents that killed the process twice.

Reading means looking for links in a document or for rules in a robots.txt. It happens within
``of``, which costs 1 us.

* At intervals of the process's CPU time, a signal checks whether the same reading is still going
  on, and raises within it. This can interrupt Python code and regular expressions.
* ``JOBDIR/reading`` names the URL being read. It is mapped into memory, so it survives ``kill -9``.
  A URL that it names at two deaths in a row is poison: C code hangs in it, or it takes all memory.
  It is not read again.

Invariants: nothing is raised outside a reading. A URL is poison only if it was being read at both
deaths, and there was no other run between them.

Files, both written by the owner of JOBDIR only::

    reading      byte 0: 1 during a reading; bytes 1 and 2: length of the URL, little-endian; the
                 URL, in UTF-8, cut to the rest of 4,096 bytes
    poison.json  {"suspect": what was read at the last death, "poison": [URLs to be set aside]}
"""

from __future__ import annotations

import logging
import mmap
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import msgspec

from webcrawl.configuration.decoding import UndecodableError, json_decoder
from webcrawl.storage.atomic import write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from types import FrameType

logger = logging.getLogger(__name__)

_SIZE = 4096
_HEAD = 3
# Number of signals in the longest time that a reading may take.
_TICKS = 5
_END = object()
_T = TypeVar("_T")


class ReadingTooLongError(Exception):
    """Error of a document that took too long to read; its URL is set aside."""

    outcome: ClassVar[str] = "poison"


class _CutOff(BaseException):
    """Raised by the signal; ``except Exception`` does not catch it."""


class _Deaths(msgspec.Struct):
    """The URL of the last death, and the URLs set aside."""

    suspect: str = ""
    poison: list[str] = []


_decode = json_decoder(_Deaths)


class ReadingWatch:
    """Watches one reading at a time, in the main thread.

    Until ``open`` it writes and cuts off nothing. A document is cut off after *max_secs* of the
    thread's CPU time, during which nothing else can run: the largest pages take 0.1 s, and sitemaps
    and feeds are read in slices.
    """

    def __init__(self, *, jobdir: Path, max_secs: float = 5.0) -> None:
        self._slot_path = jobdir / "reading"
        self._deaths_path = jobdir / "poison.json"
        self._max_secs = max_secs
        self._slot = mmap.mmap(-1, _SIZE)
        self._deaths = _Deaths()
        self._url = ""
        self._is_reading = False
        # The number of the reading; the number that the signal last saw, and since when.
        self._number = self._seen = 0
        self._seen_at = 0.0
        self._former_handler: Any = None

    def open(self) -> None:
        """Find out what was being read when the last run ended, and start watching.

        Raises OSError.
        """
        self._judge_death()
        with self._slot_path.open("ab+") as file:
            os.posix_fallocate(file.fileno(), 0, _SIZE)  # a full disk must not kill us later
            self._slot = mmap.mmap(file.fileno(), _SIZE)
        self._slot[0] = 0
        if threading.current_thread() is threading.main_thread():
            self._former_handler = signal.signal(signal.SIGVTALRM, self._look)
            every = self._max_secs / _TICKS
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
        """Return a context for reading the document *url*, within which nothing may be awaited.

        Raises ReadingTooLongError when the reading was cut off.
        """
        self._url = url
        return self

    def steps(self, url: str, found: Iterable[_T]) -> Iterator[_T]:
        """Yield the items of *found*, watching each step as a reading of *url*."""
        iterator = iter(found)
        while True:
            with self.of(url):
                one: Any = next(iterator, _END)
            if one is _END:
                return
            yield one

    def is_poison(self, url: str) -> bool:
        """Return whether *url* must not be read again."""
        return bool(self._deaths.poison) and _shown(url) in self._deaths.poison

    def set_aside(self, url: str) -> None:
        """Remove *url* from the list of poison, because it is finished with that outcome.

        Raises OSError. If it is retried it is read again.
        """
        self._deaths.poison.remove(_shown(url))
        self._save()

    def __enter__(self) -> None:
        name = self._url.encode(errors="replace")[: _SIZE - _HEAD]
        slot = self._slot
        slot[_HEAD : _HEAD + len(name)] = name
        slot[1:_HEAD] = len(name).to_bytes(2, "little")
        slot[0] = 1
        self._number += 1
        self._is_reading = True

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        self._is_reading = False
        self._slot[0] = 0
        if kind is _CutOff:
            raise ReadingTooLongError(
                f"{self._url} took more than {self._max_secs:g} s to read"
            ) from error

    def _look(self, _: int, frame: FrameType | None) -> None:
        """Handle the signal. The end of a reading must not be cut off."""
        if not self._is_reading or (frame and frame.f_code is ReadingWatch.__exit__.__code__):
            return
        now = time.thread_time()
        if self._number != self._seen:
            self._seen, self._seen_at = self._number, now
        elif now - self._seen_at > self._max_secs:
            raise _CutOff

    def _judge_death(self) -> None:
        """Record the document, if any, that the last run died of."""
        try:
            self._deaths = _decode(self._deaths_path.read_bytes())
        except (FileNotFoundError, UndecodableError):
            self._deaths = _Deaths()  # damaged: every URL gets another try
        last = self._last_read()
        suspect = self._deaths.suspect
        if last == suspect:
            if not last:
                return
            logger.warning(
                "Two runs in a row died while reading %s: it is set aside as poison; to try it "
                "again, run scrapy frontier --retry poison",
                last,
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

    def _last_read(self) -> str:
        try:
            data = self._slot_path.read_bytes()
        except FileNotFoundError:
            return ""
        if len(data) < _HEAD or data[0] != 1:
            return ""
        size = int.from_bytes(data[1:_HEAD], "little")
        return data[_HEAD : _HEAD + size].decode(errors="replace")

    def _save(self) -> None:
        write_atomic(self._deaths_path, msgspec.json.encode(self._deaths))


def _shown(url: str) -> str:
    """Return *url*, cut to what the file has room for."""
    return url.encode(errors="replace")[: _SIZE - _HEAD].decode(errors="replace")
