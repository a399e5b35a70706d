"""Sorted runs of one directory, in levels by size: F as a log-structured merge tree.

Used by the disk eliminator and the content-seen test. The invariant: no fingerprint is in two runs,
so a compaction moves fingerprints but does not change the set of them. A snapshot may name either
the runs before or the run after a compaction.

Mercator rewrote all of F in each merge, whose cost "eventually exceeds the time required to fill T"
(section 3.2). Here runs are rewritten only when there are ``FAN_OUT`` of similar size. So the
number of times that a fingerprint is written grows with the logarithm of the number of
fingerprints: with a T of 2^21 entries, five times on the way to a billion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from webcrawl.seen.runs import Fingerprints, Run

#: Number of runs of one level that are merged into one of the next. A higher number would mean
#: fewer rewrites but more runs in which to look up each fingerprint. Content-seen tests and ``add``
#: wait for these look-ups.
FAN_OUT = 4
# Runs of fewer than 2**_SMALL_BITS fingerprints (256 kB) form one level: rewriting one takes 1 ms.
_SMALL_BITS = 15
# Number of blocks, of all runs together, that ``merge_runs`` keeps in memory: 16 MB, plus the same
# for the chunk made of them and half of that for sorting it.
_MERGED_BLOCKS = 2048
_LEVEL_BITS = FAN_OUT.bit_length() - 1


class Levels:
    """The finished runs in the directory *path*, and which of them snapshots refer to.

    The files are ``<n>.run``. All methods are called in the crawl's own thread. A worker reads the
    runs of a list that it was given, and runs are closed only when no worker is running.
    """

    def __init__(self, *, path: Path) -> None:
        #: Newer runs come later: look-ups begin with the last.
        self.runs: list[Run] = []
        self._path = path
        # The number of the next run's file.
        self._next = 1
        # The files that the last snapshot names, and those that the last published one names.
        self._in_snapshot: set[Path] = set()
        self._published: set[Path] = set()
        self._replaced: list[Path] = []  # files replaced since the last snapshot
        # Files to delete once the last snapshot, which does not name them, is published.
        self._deletable: list[Path] = []

    def open(self, named: Sequence[tuple[int, int]]) -> None:
        """Open the runs *named* by a snapshot as (number, count), and delete all others.

        Raises CorruptRecordError if one is missing, has a damaged header or index, or is a
        different run.
        """
        kept_files = {run_path(self._path, number) for number, _ in named}
        for path in self._path.glob("*.run"):
            if path not in kept_files:
                path.unlink()
        for number, count in named:
            self.runs.append(Run.open(run_path(self._path, number), count=count))
            self._next = max(self._next, number + 1)
        self._published = kept_files

    def next_file(self) -> Path:
        """Return the path for a new run."""
        self._next += 1
        return run_path(self._path, self._next - 1)

    def add(self, run: Run) -> None:
        """Add a finished *run*, which has no fingerprint in common with the others."""
        self.runs.append(run)

    def crowded_runs(self) -> list[Run]:
        """Return the runs to compact now: those of a full level and all smaller ones, or none."""
        levels = [_level(run.count) for run in self.runs]
        for level in sorted(set(levels)):
            if levels.count(level) >= FAN_OUT:
                # Smaller runs add little work, and are then looked up as part of the new run.
                return [run for run in self.runs if _level(run.count) <= level]
        return []

    def replace(self, old: Sequence[Run], new: Run) -> None:
        """Replace the runs *old* with the run *new*, which has all of their fingerprints."""
        for run in old:
            self.runs.remove(run)
            run.close()
            self._replaced.append(run.path)
        self.runs.insert(0, new)

    def snapshot(self) -> list[tuple[int, int]]:
        """Return the file number and the count of fingerprints of each run, for ``open``."""
        self._deletable += self._replaced
        self._replaced = []
        self._in_snapshot = {run.path for run in self.runs}
        # A run's file is named by its number.
        return [(int(run.path.stem), run.count) for run in self.runs]

    def written(self) -> list[Path]:
        """Return files to fsync before the last snapshot may be published."""
        return sorted(self._in_snapshot - self._published)

    def forget(self) -> list[Path]:
        """Return files to delete, because the last snapshot was published."""
        paths = self._deletable
        self._deletable = []
        self._published = self._in_snapshot
        return paths

    def close(self) -> None:
        """Close all runs."""
        for run in self.runs:
            run.close()
        self.runs = []


def run_path(path: Path, number: int) -> Path:
    """Return the path of run *number* in the directory *path*."""
    return path / f"{number:06d}.run"


def _level(count: int) -> int:
    """Return the level of a run with *count* fingerprints, 0 for the smallest runs."""
    return max(0, count.bit_length() - _SMALL_BITS + _LEVEL_BITS - 1) // _LEVEL_BITS


def find(runs: Sequence[Run], keys: Fingerprints) -> NDArray[np.bool_]:
    """Return for each of *keys*, which must increase, whether any of *runs* has it.

    May take seconds, so call it in a worker thread.
    """
    found = np.zeros(len(keys), dtype=np.bool_)
    for run in runs:
        found |= run.find(keys)
    return found


def merge_runs(runs: Sequence[Run]) -> Iterator[Fingerprints]:
    """Yield all fingerprints of *runs* in increasing order, as arrays of a few megabytes.

    Each step takes from the chunk at the head of every run the fingerprints up to *bound*, the
    smallest last fingerprint of all these chunks. So each step uses up at least one chunk.
    """
    blocks = max(1, _MERGED_BLOCKS // max(1, len(runs)))
    sources = [run.chunks(blocks=blocks) for run in runs]
    heads = [next(source, None) for source in sources]
    while True:
        # Sources that are used up have no head any more.
        remaining_heads = [(number, head) for number, head in enumerate(heads) if head is not None]
        if not remaining_heads:
            return

        bound = min(head[-1] for _, head in remaining_heads)
        parts = []
        for number, head in remaining_heads:
            count = int(np.searchsorted(head, bound, side="right"))
            if count:
                parts.append(head[:count])
                heads[number] = head[count:] if count < len(head) else next(sources[number], None)

        chunk = np.concatenate(parts)
        chunk.sort(kind="stable")  # merges the sorted pieces
        yield chunk
