"""Repair of an eliminator and of the content-seen test: runs and URL log without damage.

What is left of a run becomes a new one. What is left of the URL log, once a record of it is
damaged, becomes one new stretch, to be submitted again by the next start, without the payloads of
records that had been taken out: up to a page's links are fetched twice.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from webcrawl.jobs.check.seen import (
    check_filter,
    check_log,
    number_of,
    parse_log_record,
    spans_of,
    state_of,
    stretches,
)
from webcrawl.seen.bloom import filter_path
from webcrawl.seen.content import ContentSnapshot
from webcrawl.seen.drain import Cursor
from webcrawl.seen.levels import run_path
from webcrawl.seen.run_scan import scan_run
from webcrawl.seen.runs import write_run
from webcrawl.seen.snapshots import BloomSnapshot, DiskSnapshot, decode_snapshot
from webcrawl.seen.url_log import COUNT, Span, log_path
from webcrawl.storage.record_log import HEADER_SIZE, RecordLog, pack_many
from webcrawl.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from webcrawl.jobs.check.mending import Mending

_LOST: Final = "links of pages in {} bytes of the URL log"


def mend_seen(path: Path, snapshot: bytes, mending: Mending) -> bytes:
    """The snapshot to publish for the eliminator in *path*; *snapshot* itself if it is sound."""
    state = mended = state_of(path, snapshot)
    if isinstance(mended, BloomSnapshot):
        mended = _with_filter(path, mended, mending)
    else:
        mended = msgspec.structs.replace(mended, runs=_mend_runs(path, mended.runs, mending))
    damaged = mending.damaged_by(partial(check_log, path, state))
    if damaged:
        span = _mend_log(path, mended, mending, damaged)
        if isinstance(mended, BloomSnapshot):
            start = Cursor(HEADER_SIZE, 0, 0)
            mended = msgspec.structs.replace(
                mended,
                since=(span.number, HEADER_SIZE),
                taken=(span.number, start),
                files=[span],
            )
        else:
            mended = msgspec.structs.replace(mended, pending=[], cursor=None, active=span)
    return snapshot if mended == state else msgspec.msgpack.encode(mended)


def mend_content(path: Path, snapshot: bytes, mending: Mending) -> bytes:
    """As ``mend_seen``, of the content-seen test."""
    state = decode_snapshot(snapshot, ContentSnapshot, path=path)
    mended = msgspec.structs.replace(state, runs=_mend_runs(path, state.runs, mending))
    return snapshot if mended == state else msgspec.msgpack.encode(mended)


def _mend_runs(
    path: Path, runs: Sequence[tuple[int, int]], mending: Mending
) -> list[tuple[int, int]]:
    """(number, count) of each run, those with damage replaced."""
    numbers = [int(file.stem) for file in path.glob("*.run")]
    number = max([0, *numbers, *(number for number, _ in runs)])
    kept: list[tuple[int, int]] = []
    for old, count in runs:
        file = run_path(path, old)
        if not any(block.wrong for block in scan_run(file, count=count)):
            kept.append((old, count))
            continue
        mending.put_aside(file)
        mending.superseded.append(file)
        found = sum(len(block.words) for block in scan_run(file, count=count))
        mending.lost(f"{count - found:,} of {counted(count, 'fingerprint')} in {file.name}")
        if not found:
            continue
        number += 1
        new = run_path(path, number)
        write_run(new, (block.words for block in scan_run(file, count=count))).close()
        mending.written += [new, path]
        kept.append((number, found))
    return kept


def _with_filter(path: Path, state: BloomSnapshot, mending: Mending) -> BloomSnapshot:
    """*state* without its filter if that is damaged: nothing of it can be believed."""
    if not mending.damaged_by(partial(check_filter, path, state)):
        return state
    file = filter_path(path, state.saved)
    mending.put_aside(file)
    mending.superseded.append(file)
    mending.lost(f"all URLs that {file.name} had seen: they may be fetched again")
    return msgspec.structs.replace(state, saved=0)


# The URL log


def _mend_log(
    path: Path, state: DiskSnapshot | BloomSnapshot, mending: Mending, damaged: set[Path]
) -> Span:
    """Write what can be read of the log into a new file, without payloads that were taken out, but
    for those of the record at that place; returns its stretch."""
    files = [*path.glob("discovered-*.log")]
    parts, taken = [*stretches(path, state)], _taken(state)
    number = 1 + max(map(number_of, [*files, log_path(path, spans_of(state)[-1].number)]))
    for file in damaged:
        mending.put_aside(file)
    new = log_path(path, number)
    with RecordLog.open(new, size=0) as log:
        for file, start, end in parts:
            for record in mending.records(file, _LOST, parse_log_record, start=start, end=end):
                fps, packed = parse_log_record(record.payload)
                if (number_of(file), record.start) < taken:
                    packed = pack_many([])
                log.append(COUNT.pack(len(fps)) + fps.tobytes() + packed)
        size = log.size
    mending.written += [new, path]
    mending.superseded += files
    return Span(number, HEADER_SIZE, size)


def _taken(state: DiskSnapshot | BloomSnapshot) -> tuple[int, int]:
    """The record up to which links were taken out: its file, and where it begins there."""
    if isinstance(state, BloomSnapshot):
        number, cursor = state.taken
        return number, cursor.offset
    if state.cursor is None or not state.pending:
        return 0, 0
    return state.pending[0].number, state.cursor.offset
