"""Cache measurements: their type, their CSV file and their text table."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

#: The two traces of the paper, the full trace and the cross sub-trace, by suffix of the file name.
STREAMS = {"": "all links", "-cross": "links that leave the page's host"}


class Measurement(NamedTuple):
    """How many of the *requests* in a trace a cache of this policy and size *hits*."""

    policy: str
    size: int
    requests: int
    hits: int

    @property
    def miss_rate(self) -> float:
        """The share of requests that miss."""
        return 1 - self.hits / self.requests


def stream_file(path: Path, suffix: str) -> Path:
    """Return the file of the trace with *suffix*; *path* is the file of the full trace."""
    return path.with_name(f"{path.stem}{suffix}{path.suffix}")


def write_csv(measurements: Iterable[Measurement], path: Path) -> None:
    """Write *measurements* to the file *path*. Raises OSError."""
    with path.open("w", newline="", encoding="ascii") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Measurement._fields)
        writer.writerows(measurements)


def text_of(measurements: Sequence[Measurement]) -> str:
    """Format the miss rates of *measurements*, in percent, as a table with one line per size."""
    policies = [*dict.fromkeys(entry.policy for entry in measurements)]
    rates = {(entry.policy, entry.size): entry.miss_rate for entry in measurements}
    lines = ["      size" + "".join(f" {policy:>14}" for policy in policies)]
    for size in dict.fromkeys(entry.size for entry in measurements):
        cells = (f" {rates[policy, size]:>14.2%}" for policy in policies)
        lines.append(f"{size:>10,}" + "".join(cells))
    return "\n".join(lines) + "\n"
