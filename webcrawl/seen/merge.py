"""Merge of T' with F: what is new is written as one more run. Done in the worker thread.

Mercator sorts T' by fingerprint, merges it linearly with F marking what was new, sorts it back by
ordinal and scans U' for the marked ones. Here the marks lie in a byte per ordinal, which needs no
second sort. All heavy steps are numpy calls that release the interpreter lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from webcrawl.seen.levels import find
from webcrawl.seen.runs import write_run
from webcrawl.seen.table import REPEAT, WITH_PAYLOAD

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from webcrawl.seen.runs import Run
    from webcrawl.seen.table import Buffer


@dataclass(slots=True, frozen=True)
class Merged:
    """The result of a merge.

    *marks*: a byte per ordinal, 1 where a new payload stands; *run*: the new fingerprints, None if
    there were none; *seconds*: sorting, looking up, writing.
    """

    run: Run | None
    marks: bytes
    seconds: tuple[float, float, float]

    @property
    def new(self) -> int:
        """How many fingerprints were new."""
        return 0 if self.run is None else self.run.count


def merge(buffer: Buffer, runs: Sequence[Run], path: Path, clock: Callable[[], float]) -> Merged:
    """Look *buffer*, which must not change, up in *runs* and write the new ones to *path*.

    Blocks for a pass over *runs* when the buffer is large. Raises OSError (disk full) and
    CorruptRecordError; then no file is left and the buffer is as it was.
    """
    started = clock()
    kinds = np.frombuffer(buffer.kinds, dtype=np.uint8)
    ordinals = np.flatnonzero(kinds != REPEAT)
    keys = np.frombuffer(buffer.order, dtype=np.uint64)[ordinals]
    by_value = np.argsort(keys)
    keys = keys[by_value]
    ordinals = ordinals[by_value]
    sorted_at = clock()
    is_new = ~find(runs, keys)
    found_at = clock()
    marks = np.zeros(len(kinds), dtype=np.bool_)
    marks[ordinals[is_new]] = True
    marks &= kinds == WITH_PAYLOAD
    keys = keys[is_new]
    run = write_run(path, [keys]) if len(keys) else None
    seconds = (sorted_at - started, found_at - sorted_at, clock() - found_at)
    return Merged(run, marks.tobytes(), seconds)
