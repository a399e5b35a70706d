"""A pseudo-terminal, and what a user sees on it."""

from __future__ import annotations

import os
import pty
import select
import termios
from contextlib import suppress
from typing import Self

import pyte


class Terminal:
    """A terminal of *columns* and *rows*, which a program writes to by `stream`."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self._master, slave = pty.openpty()
        self.stream = os.fdopen(slave, "w")
        self._screen = pyte.HistoryScreen(columns, rows, history=10_000, ratio=0.001)
        self._pyte = pyte.ByteStream(self._screen)
        #: All that was written.
        self.written = b""
        self.resize(columns, rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        with suppress(OSError):
            self.stream.close()

    def resize(self, columns: int, rows: int) -> None:
        termios.tcsetwinsize(self.stream, (rows, columns))
        self._screen.resize(rows, columns)

    def hang_up(self) -> None:
        """The terminal goes away."""
        if self._master >= 0:
            os.close(self._master)
        self._master = -1

    def read(self) -> bool:
        """Take in what has been written, and wait a moment for more; whether there was any."""
        data = b""
        # The system passes on what was written in pieces, and when it likes.
        while select.select([self._master], [], [], 0.1)[0]:
            data += os.read(self._master, 10_000)
        self._pyte.feed(data)
        self.written += data
        return bool(data)

    @property
    def cursor(self) -> pyte.screens.Cursor:
        return self._screen.cursor

    def screen(self) -> list[str]:
        """The lines on it, but empty ones at its end."""
        self.read()
        lines = [line.rstrip() for line in self._screen.display]
        while lines and not lines[-1]:
            del lines[-1]
        return lines

    def text(self) -> str:
        """All that scrolled by and is on it: rows, one after the other. A line that was broken by
        the terminal is whole in it, and begins at a multiple of the columns."""
        self.read()
        screen, columns = self._screen, range(self._screen.columns)
        rows = [*screen.history.top, *(screen.buffer[row] for row in range(screen.lines))]
        return "".join(row[column].data for row in rows for column in columns)
