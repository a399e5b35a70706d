"""Cache measurements, with their CSV file and text table."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

#: The file in a job directory from which the report draws figures.
FILE = "cachelab.csv"
#: The paper's full trace and cross sub-trace, by the suffix of their file names.
STREAMS = {"": "all links", "-cross": "links that leave the page's host"}
_MAX_BYTES = 1 << 24


class Measurement(NamedTuple):
    """Number of *requests* that a cache of this policy and size hits."""

    policy: str
    size: int
    requests: int
    hits: int

    @property
    def miss_rate(self) -> float:
        """Misses per request."""
        return 1 - self.hits / self.requests


def stream_file(path: Path, suffix: str) -> Path:
    """Return the file for the stream *suffix*, next to *path*, the one for all links."""
    return path.with_name(f"{path.stem}{suffix}{path.suffix}")


def write_csv(found: Iterable[Measurement], path: Path) -> None:
    """Write *found* to *path*. Raises OSError."""
    with path.open("w", newline="", encoding="ascii") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Measurement._fields)
        writer.writerows(found)


def read_csv(path: Path) -> list[Measurement]:
    """Read measurements written by ``write_csv``; empty if the file is missing or damaged."""
    try:
        with path.open(newline="", encoding="ascii") as file:
            head, *rows = csv.reader(file.read(_MAX_BYTES).splitlines())
        found = [Measurement(policy, *map(int, row)) for policy, *row in rows]
    except (OSError, ValueError, TypeError, csv.Error):
        return []
    is_sound = all(one.size > 0 and 0 <= one.hits <= one.requests > 0 for one in found)
    return found if tuple(head) == Measurement._fields and is_sound else []


def text_of(found: Sequence[Measurement]) -> str:
    """Return the miss rates in percent as a table with one line per size."""
    policies = [*dict.fromkeys(one.policy for one in found)]
    rates = {(one.policy, one.size): one.miss_rate for one in found}
    lines = ["      size" + "".join(f" {policy:>14}" for policy in policies)]
    for size in dict.fromkeys(one.size for one in found):
        cells = (f" {rates[policy, size]:>14.2%}" for policy in policies)
        lines.append(f"{size:>10,}" + "".join(cells))
    return "\n".join(lines) + "\n"
