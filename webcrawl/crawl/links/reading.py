"""Time limit for reading documents, and the list of those that the process died of twice.

Reading is looking for links in a document and for rules in a robots.txt. It is done within ``of``,
which costs 1 us.

* Every so often, by the CPU time of the process, a signal looks whether the same reading still goes
  on, and raises within it. Python code and regular expressions can be interrupted so.
* ``JOBDIR/reading`` names the URL that is being read; it is mapped into memory, so it survives
  ``kill -9``. A URL that it names at two deaths in a row is poison: what C code hangs in, or what
  takes all memory. It is not read again.

Invariants: nothing is raised outside of a reading. A URL is poison only if it was being read at
both deaths, and no other run lay between them.

Files, both written by the owner of JOBDIR only::

    reading      byte 0: 1 while something is read; bytes 1 and 2: length of the URL, little-endian;
                 the URL, in UTF-8, cut to what is left of 4,096 bytes
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
# How often the signal comes, of the longest time that a reading may take.
_TICKS = 5
_END = object()
_T = TypeVar("_T")


class ReadingTooLongError(Exception):
    """A document took too long to be read; its URL is set aside."""

    outcome: ClassVar[str] = "poison"


class _CutOff(BaseException):
    """Raised by the signal; no ``except Exception`` on the way stops it."""


class _Deaths(msgspec.Struct):
    """The URL of the last death, and the URLs set aside."""

    suspect: str = ""
    poison: list[str] = []


_decode = json_decoder(_Deaths)


class ReadingWatch:
    """One reading at a time, in the main thread. Until ``open`` nothing is written or cut off.

    A document is cut off after *max_secs* of the thread's CPU time, while nothing else can go on:
    the largest pages take 0.1 s, and sitemaps and feeds are read in slices.
    """

    def __init__(self, *, jobdir: Path, max_secs: float = 5.0) -> None:
        self._slot_path = jobdir / "reading"
        self._deaths_path = jobdir / "poison.json"
        self._max_secs = max_secs
        self._slot = mmap.mmap(-1, _SIZE)
        self._deaths = _Deaths()
        self._url = ""
        self._is_reading = False
        # The number of the reading, and what the signal saw of it: its number, and since when.
        self._number = self._seen = 0
        self._seen_at = 0.0
        self._former_handler: Any = None

    def open(self) -> None:
        """Find out what was being read when the last run ended, and begin to watch. OSError."""
        self._judge_death()
        with self._slot_path.open("ab+") as file:
            os.posix_fallocate(file.fileno(), 0, _SIZE)  # a full disk must not end us later
            self._slot = mmap.mmap(file.fileno(), _SIZE)
        self._slot[0] = 0
        if threading.current_thread() is threading.main_thread():
            self._former_handler = signal.signal(signal.SIGVTALRM, self._look)
            every = self._max_secs / _TICKS
            signal.setitimer(signal.ITIMER_VIRTUAL, every, every)

    def close(self) -> None:
        """End watching."""
        if self._former_handler is not None:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, self._former_handler)
            self._former_handler = None
        self._slot.close()
        self._slot = mmap.mmap(-1, _SIZE)

    def of(self, url: str) -> Self:
        """To be entered with ``with`` around what reads the document *url*, which must not await
        anything. Raises ReadingTooLongError when that was cut off."""
        self._url = url
        return self

    def steps(self, url: str, found: Iterable[_T]) -> Iterator[_T]:
        """The links of *found*, each step counted as reading *url*."""
        iterator = iter(found)
        while True:
            with self.of(url):
                one: Any = next(iterator, _END)
            if one is _END:
                return
            yield one

    def is_poison(self, url: str) -> bool:
        """Whether *url* must not be read again."""
        return bool(self._deaths.poison) and _shown(url) in self._deaths.poison

    def set_aside(self, url: str) -> None:
        """*url*, which is poison, has come to its end: if it is freed it is read again. OSError."""
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
                f"{self._url} took more than {self._max_secs:g} s to be read"
            ) from error

    def _look(self, _: int, frame: FrameType | None) -> None:
        """Handler of the signal. The end of a reading must not be cut off."""
        if not self._is_reading or (frame and frame.f_code is ReadingWatch.__exit__.__code__):
            return
        now = time.thread_time()
        if self._number != self._seen:
            self._seen, self._seen_at = self._number, now
        elif now - self._seen_at > self._max_secs:
            raise _CutOff

    def _judge_death(self) -> None:
        """The document that the last run died of, if of any."""
        try:
            self._deaths = _decode(self._deaths_path.read_bytes())
        except (FileNotFoundError, UndecodableError):
            self._deaths = _Deaths()  # damaged: everything is given another try
        last = self._last_read()
        suspect = self._deaths.suspect
        if last == suspect:
            if not last:
                return
            logger.warning(
                "Two runs in a row died while they read %s: it is set aside as poison, and "
                "scrapy frontier --retry poison puts it back in line",
                last,
            )
            self._deaths = _Deaths(poison=[*self._deaths.poison, last])
        else:
            if last:
                logger.warning(
                    "The last run died while it read %s: if this one does, it is set aside", last
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
    """*url* as far as the file has room for it."""
    return url.encode(errors="replace")[: _SIZE - _HEAD].decode(errors="replace")
