"""Timeline: sums over the time of a crawl, in intervals that widen as it gets longer."""

from __future__ import annotations

from typing import Final

_MOST: Final = 120


class Timeline:
    """Sums in *columns*, by epoch seconds in any order, in at most 120 intervals.

    They are *width* seconds long, which doubles as often as it must.
    """

    def __init__(self, *, columns: int) -> None:
        self.width = 1
        self._columns = columns
        self._rows: dict[int, list[int]] = {}

    def row(self, at: float) -> list[int]:
        """The sums of the interval around *at*, to be added to before the next call."""
        key = int(at) // self.width
        if key not in self._rows:
            self._rows[key] = [0] * self._columns
            while max(self._rows) - min(self._rows) >= _MOST:
                self._widen()
            key = int(at) // self.width
        return self._rows[key]

    def _widen(self) -> None:
        self.width *= 2
        old, self._rows = self._rows, {}
        for key, sums in old.items():
            row = self._rows.setdefault(key // 2, [0] * self._columns)
            row[:] = map(sum, zip(row, sums, strict=True))

    @property
    def edges(self) -> list[int]:
        """Where intervals begin, in epoch seconds, and where the last one ends; [] without any."""
        if not self._rows:
            return []
        return [key * self.width for key in range(min(self._rows), max(self._rows) + 2)]

    def sums(self, column: int) -> list[int]:
        """Those of *column* in all intervals, 0 where nothing was added."""
        rows = self._rows
        return [
            rows[at // self.width][column] if at // self.width in rows else 0
            for at in self.edges[:-1]
        ]
