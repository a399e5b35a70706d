"""Terminal view of a hive: messages, and under them a table that is drawn anew again and again.

Where the stream is no terminal the table is printed now and then, and nothing is drawn over.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_BOLD: Final = "\x1b[1m{}\x1b[0m"
_SHORTEST: Final = 20


class TerminalView:
    """The view on *stream*; *every* seconds a table where that is no terminal."""

    def __init__(self, *, stream: TextIO, every: float, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._every = every
        self._clock = clock
        self._draws = stream.isatty()
        self._is_bold = self._draws and not os.environ.get("NO_COLOR")
        self._drawn = 0
        self._printed_at = clock()

    def say(self, text: str) -> None:
        """Print *text*, one line or more, above the table."""
        self._write(self._erased() + text + "\n")

    def show(self, table: Sequence[str]) -> None:
        """Show *table*; its first line is its head. Lines are cut to the width of the terminal."""
        if not self._draws:
            if self._clock() - self._printed_at >= self._every:
                self._printed_at = self._clock()
                self._write("\n".join([*table, ""]))
            return
        columns = max(_SHORTEST, os.get_terminal_size(self._stream.fileno()).columns - 1)
        lines = [line[:columns] for line in table]
        if lines and self._is_bold:
            lines[0] = _BOLD.format(lines[0])
        text = self._erased() + "".join(f"{line}\n" for line in lines)
        self._drawn = len(lines)
        self._write(text)

    def _erased(self) -> str:
        """What takes the table off the terminal."""
        drawn, self._drawn = self._drawn, 0
        return f"\x1b[{drawn}A\r\x1b[J" if drawn else ""

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            # The terminal is gone; the hive is not.
            self._draws = False
            self._every = float("inf")
