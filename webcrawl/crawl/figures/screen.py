"""Lines at the bottom of a terminal that are drawn over, while all else scrolls above them.

Whatever is drawn on a terminal is drawn by this: the live display of a crawl, the table of a hive,
the progress of a command. Nothing but cursor movements is asked of the terminal and the cursor is
never hidden, so that it is left as it was even by a process that is killed. A terminal that is gone
ends the drawing, never the process. Control characters of what is to scroll by are escaped, but for
colours.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import select
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from webcrawl.crawl.engine.user_messages import give_up
from webcrawl.wording import visible

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

_COLOURS: Final = re.compile(r"(\x1b\[[\d;]*m)")
_UNKNOWN: Final = os.terminal_size((80, 24))
_STREAMS: Final = ("stdout", "stderr")
# A table that has to be narrower is not read, either.
_FEWEST_COLUMNS: Final = 20


class _Drawn(NamedTuple):
    """Lines that are on the terminal, and its size when they were drawn."""

    lines: Sequence[str]
    size: os.terminal_size


class Screen:
    """The lines on *stream*; none where that is no terminal, or one that cannot move its cursor.

    Threads may write.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._drawn = _Drawn((), _UNKNOWN)
        self._lock = threading.RLock()
        #: Whether it draws.
        self.draws = stream.isatty() and os.environ.get("TERM") != "dumb"

    @property
    def size(self) -> os.terminal_size:
        """The columns and lines that may be drawn on: lines that are as wide as the terminal would
        be broken by some."""
        with suppress(OSError):  # the terminal is gone, as the next write finds, too
            columns, lines = os.get_terminal_size(self._stream.fileno())
            if columns and lines:
                return os.terminal_size((max(columns - 1, _FEWEST_COLUMNS), lines - 1))
        return _UNKNOWN

    def show(self, lines: Sequence[str]) -> None:
        """Show *lines*, none wider than ``size``, in place of those before; of too many not those
        before the last. A terminal that is stopped (Ctrl-S) is not waited for."""
        if not self.draws:
            return
        with self._lock:
            size = self.size
            if len(lines) > size.lines:
                lines = [*lines[: size.lines - 1], lines[-1]]
            if select.select((), (self._stream,), (), 0)[1]:
                text = "".join(f"{line}\x1b[K\n" for line in lines)
                self._write(f"{self._home()}{text}\x1b[J")
                self._drawn = _Drawn(lines, size)

    def say(self, text: str) -> None:
        """Write *text*, one line or more, above the lines."""
        with self._lock:
            home, (lines, size) = self._home(), self._drawn
            if size != self.size:
                lines = ()  # they may be too wide now, and are soon shown anew
            self._drawn = _Drawn(lines, size)
            text = _harmless(text) if self.draws else text
            erased = home and f"{home}\x1b[J"
            self._write("\n".join([erased + text, *lines, ""]))

    def erase(self) -> None:
        """Take the lines away."""
        with self._lock:
            if home := self._home():
                self._write(f"{home}\x1b[J")
            self._drawn = _Drawn((), _UNKNOWN)

    def take_over(self) -> None:
        """From now on what is printed and logged on this terminal comes to stand above the lines,
        until ``end`` or the end of the process. Nothing is drawn if there is another such screen.
        """
        self.draws &= not isinstance(sys.stderr, _Above)
        if self.draws:
            atexit.register(self.end)
            for name in _STREAMS:
                stream = getattr(sys, name)
                if getattr(stream, "isatty", bool)():  # LOG_STDOUT puts something else there
                    _replace(name, _Above(self, stream))

    def end(self) -> None:
        """Take the lines away, and give back what was taken over."""
        self.erase()
        atexit.unregister(self.end)
        for name in _STREAMS:
            stream = getattr(sys, name)
            if isinstance(stream, _Above) and stream.screen is self:
                _replace(name, stream.stream)
                stream.stream.write(stream.begun)

    def _home(self) -> str:
        """What moves the cursor to the first line, "" if none is drawn. Where the terminal has
        become narrower it has broken lines, as most do."""
        columns = self.size.columns + 1
        widths = (len(_COLOURS.sub("", line)) for line in self._drawn.lines)
        rows = sum(max(1, -(-width // columns)) for width in widths)
        return f"\x1b[{rows}A\r" if rows else ""

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self.draws = False
            give_up(self._stream)


def _replace(name: str, new: Any) -> None:
    """Put *new* in the place of a stream of ``sys``, for the log, too."""
    old = getattr(sys, name)
    setattr(sys, name, new)
    for handler in logging.root.handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is old:
            handler.setStream(new)


def _harmless(text: str) -> str:
    r"""
    >>> _harmless("\x1b[31mred\x1b[0m\x1b[2J")
    '\x1b[31mred\x1b[0m\\x1b[2J'
    """
    parts = _COLOURS.split(text.expandtabs())
    return "".join(part if number % 2 else visible(part) for number, part in enumerate(parts))


class _Above:
    """Stand-in for *stream*, the lines of which come to stand above those of *screen*."""

    def __init__(self, screen: Screen, stream: TextIO) -> None:
        self.screen = screen
        self.stream = stream
        self.begun = ""

    def write(self, text: str) -> int:
        *lines, self.begun = (self.begun + text).split("\n")
        if lines:
            self.screen.say("\n".join(lines))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
