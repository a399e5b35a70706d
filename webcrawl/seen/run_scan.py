"""Reader of possibly damaged runs: reads every block and reports whether it is damaged.

Used to check a job. The crawl itself stops when it meets damage (runs.py).
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from webcrawl.seen.runs import BLOCK, BLOCK_BYTES, DATA_AT, Run
from webcrawl.storage.record_log import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Block(NamedTuple):
    """A block of a run, or the header or index of the run if that is damaged.

    It begins at byte *offset* and has *size* bytes. *damage* describes its damage; it is empty if
    there is none.
    """

    offset: int
    size: int
    damage: str


def scan_run(path: Path, *, count: int) -> Iterator[Block]:
    """Yield the blocks of the run *path*, which must have *count* fingerprints.

    If the header or the index is damaged, nothing else is checked: the run cannot be used.

    Raises NewerFormatError if a later webcrawl wrote the run, and OSError.
    """
    try:
        run = Run.open(path, count=count)
    except CorruptRecordError as error:
        yield Block(error.offset, BLOCK_BYTES, error.why)
        return
    last_fp = -1
    with closing(run):
        for number in range(-(-count // BLOCK)):
            damage = ""
            try:
                fps = run.block(number)[: count - number * BLOCK]
                if last_fp >= int(fps[0]) or not (fps[1:] > fps[:-1]).all():
                    damage = "checksum mismatch in the block"
                last_fp = int(fps[-1])
            except CorruptRecordError as error:
                damage = error.why
            yield Block(DATA_AT + number * BLOCK_BYTES, BLOCK_BYTES, damage)
