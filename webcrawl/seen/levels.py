"""The runs of one directory, of which similar ones are merged: a log-structured F.

Used by the disk eliminator and the content-seen test. The invariant: no fingerprint is in two runs,
so a compaction changes where fingerprints are but not which there are, and a snapshot may name the
runs before or after it.

Mercator rewrote all of F in each merge, whose cost "eventually exceeds the time required to fill T"
(section 3.2). Here a run is rewritten only when there are ``FAN_OUT`` of its size. So the number of
times that a fingerprint is written grows with the logarithm of their count: with a T of 2^21, five
times on the way to a billion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from webcrawl.seen.runs import Run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from webcrawl.seen.runs import Fingerprints

#: Runs of one level that are merged into one of the next. More would mean fewer rewrites, but more
#: runs to look up each fingerprint in, for which content-seen tests and ``add`` wait.
FAN_OUT = 4
# Runs of fewer fingerprints than 2 to this power (256 kB) are one level: rewriting them takes 1 ms.
_SMALL_BITS = 15
# Blocks of all runs together that ``merged`` has in memory: 16 MB, plus the same for the chunk made
# of them and half of that for sorting it.
_MERGED_BLOCKS = 2048
_LEVEL_BITS = FAN_OUT.bit_length() - 1
assert 1 << _LEVEL_BITS == FAN_OUT


class Levels:
    """The finished runs of a directory, and which of them snapshots name.

    Files: ``<n>.run``. Belongs to the crawl's own thread. A worker reads a list of runs that it was
    given, and runs are only closed when no worker is running.
    """

    def __init__(self, *, path: Path) -> None:
        self.runs: list[Run] = []
        self._path = path
        self._next = 1
        self._in_snapshot: set[Path] = set()
        self._published: set[Path] = set()
        self._replaced: list[Path] = []  # files replaced since the last snapshot
        self._deletable: list[Path] = []

    def open(self, named: Sequence[tuple[int, int]]) -> None:
        """Open the runs *named* by a snapshot as (number, count), and delete all others.

        Raises CorruptRecordError if one is missing, has a damaged header or index, or is a
        different run.
        """
        keep = {self._file(number) for number, _ in named}
        for path in self._path.glob("*.run"):
            if path not in keep:
                path.unlink()
        for number, count in named:
            self.runs.append(Run.open(self._file(number), count=count))
            self._next = max(self._next, number + 1)
        self._published = keep

    def _file(self, number: int) -> Path:
        return run_path(self._path, number)

    def next_file(self) -> Path:
        """Return the file for a new run."""
        self._next += 1
        return self._file(self._next - 1)

    def add(self, run: Run) -> None:
        """Add a finished *run*, which has no fingerprint of the others."""
        self.runs.append(run)

    def crowded(self) -> list[Run]:
        """Return the runs to compact now: a full level and everything below it, or none."""
        levels = [_level(run.count) for run in self.runs]
        for level in sorted(set(levels)):
            if levels.count(level) >= FAN_OUT:
                return [run for run in self.runs if _level(run.count) <= level]
        return []

    def replace(self, old: Sequence[Run], new: Run) -> None:
        """Replace the runs *old* with *new*, which has their fingerprints."""
        for run in old:
            self.runs.remove(run)
            run.close()
            self._replaced.append(run.path)
        self.runs.insert(0, new)

    def snapshot(self) -> list[tuple[int, int]]:
        """Return (number, count) of each run, for ``open``."""
        self._deletable += self._replaced
        self._replaced = []
        self._in_snapshot = {run.path for run in self.runs}
        return [(int(run.path.stem), run.count) for run in self.runs]

    def written(self) -> list[Path]:
        """Return files to fsync before the last snapshot may be published."""
        return sorted(self._in_snapshot - self._published)

    def forget(self) -> list[Path]:
        """Return files to delete, as the last snapshot was published."""
        paths, self._deletable = self._deletable, []
        self._published = self._in_snapshot
        return paths

    def close(self) -> None:
        """Close all runs."""
        for run in self.runs:
            run.close()
        self.runs = []


def run_path(path: Path, number: int) -> Path:
    """Return the file of run *number* in the directory *path*."""
    return path / f"{number:06d}.run"


def _level(count: int) -> int:
    return max(0, count.bit_length() - _SMALL_BITS + _LEVEL_BITS - 1) // _LEVEL_BITS


def find(runs: Sequence[Run], keys: Fingerprints) -> NDArray[np.bool_]:
    """Return which of *keys* (increasing) are in any of *runs*. May take seconds: for a worker."""
    found = np.zeros(len(keys), dtype=np.bool_)
    for run in runs:
        found |= run.find(keys)
    return found


def merged(runs: Sequence[Run]) -> Iterator[Fingerprints]:
    """Yield all fingerprints of *runs* in order, in chunks, with a few megabytes of memory.

    Each step takes from every run the fingerprints up to the smallest of their chunks' ends, so at
    least one chunk is used up in a step.
    """
    blocks = max(1, _MERGED_BLOCKS // max(1, len(runs)))
    sources = [run.chunks(blocks=blocks) for run in runs]
    heads = [next(source, None) for source in sources]
    while True:
        open_heads = [(n, head) for n, head in enumerate(heads) if head is not None]
        if not open_heads:
            return
        bound = min(head[-1] for _, head in open_heads)
        parts = []
        for n, head in open_heads:
            cut = int(np.searchsorted(head, bound, side="right"))
            if cut:
                parts.append(head[:cut])
                heads[n] = head[cut:] if cut < len(head) else next(sources[n], None)
        chunk = np.concatenate(parts)
        chunk.sort(kind="stable")  # merges the sorted pieces
        yield chunk
