"""Timeline: sums over a crawl's time in intervals that widen as it gets longer.

Times at which the crawl did not run, between two of its runs, are left out: a moment later is so
many seconds into the crawl. That it ran is known by what is added, or marked with ``row`` alone.
"""

from __future__ import annotations

from typing import Final, NamedTuple

# Each divides the next, so that intervals can be joined.
_WIDTHS: Final = (
    *(1, 2, 10, 30, 60, 300, 600, 1800, 3600, 10_800, 21_600, 43_200),
    *(86_400, 604_800, 2_419_200, 29_030_400),
)
_MOST_KEPT: Final = 2_000
_MOST_SHOWN: Final = 60
# The stats are written every minute while a crawl runs, whatever it waits for.
_STOPPED_SECS: Final = 180


class Interval(NamedTuple):
    """Sums of one interval.

    It covers *covered* seconds that begin *start* seconds into the crawl, at the epoch second *at*.
    """

    start: int
    covered: int
    at: int
    sums: list[int]


class Intervals(NamedTuple):
    """The crawl's time in intervals of *width* seconds, the last one cut.

    *stops* are the seconds into the crawl at which it was stopped and went on later.
    """

    width: int
    items: list[Interval]
    stops: list[int]

    @property
    def secs(self) -> int:
        """The whole time, to the width of the finest interval."""
        return sum(item.covered for item in self.items)


class Timeline:
    """Sums in *columns*, by epoch seconds in any order."""

    def __init__(self, *, columns: int) -> None:
        self._columns = columns
        self._width = 0  # index into _WIDTHS
        self._rows: dict[int, list[int]] = {}

    def row(self, at: float) -> list[int]:
        """The sums of the interval around *at*, to be added to before the next call."""
        key = int(at) // _WIDTHS[self._width]
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = [0] * self._columns
            while len(self._rows) > _MOST_KEPT and self._width + 1 < len(_WIDTHS):
                self._widen()
                row = self._rows[int(at) // _WIDTHS[self._width]]
        return row

    def _widen(self) -> None:
        ratio = _WIDTHS[self._width + 1] // _WIDTHS[self._width]
        self._width += 1
        old, self._rows = self._rows, {}
        for key, sums in old.items():
            row = self._rows.setdefault(key // ratio, [0] * self._columns)
            row[:] = map(sum, zip(row, sums, strict=True))

    def intervals(self) -> Intervals:
        """All of it, in 12 to 60 intervals if there are as many."""
        fine = _WIDTHS[self._width]
        longest_hole = max(1, _STOPPED_SECS // fine)
        places: list[tuple[int, int]] = []  # number of the fine interval into the crawl, its key
        stops = []
        for key in sorted(self._rows):
            step = key - places[-1][1] if places else 0
            if step > longest_hole:
                stops.append((places[-1][0] + 1) * fine)
                step = 1
            places.append((places[-1][0] + step if places else 0, key))
        if not places:
            return Intervals(fine, [], [])
        count = places[-1][0] + 1
        width = next(
            (one for one in _WIDTHS if one >= fine and count * fine <= one * _MOST_SHOWN),
            _WIDTHS[-1],
        )
        ratio = width // fine
        items: list[Interval] = []
        for place, key in places:
            while len(items) <= place // ratio:
                start = len(items) * ratio
                at = (key - (place - start)) * fine
                covered = min(ratio, count - start) * fine
                items.append(Interval(start * fine, covered, at, [0] * self._columns))
            sums = items[-1].sums
            sums[:] = map(sum, zip(sums, self._rows[key], strict=True))
        return Intervals(width, items, stops)
