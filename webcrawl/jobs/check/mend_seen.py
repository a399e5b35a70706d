"""Repair of an eliminator and of the content-seen test: runs and URL log without damage.

What is left of a run becomes a new one. What is left of the URL log, once a record of it is
damaged, becomes one new stretch, to be submitted again by the next start, without the payloads of
records that had been taken out: up to a page's links are fetched twice.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from webcrawl.jobs.check.seen import check_log, number_of, spans_of, stretches
from webcrawl.seen.bloom import filter_path
from webcrawl.seen.bloom_file import read_filter
from webcrawl.seen.content import ContentSnapshot
from webcrawl.seen.drain import Cursor
from webcrawl.seen.levels import run_path
from webcrawl.seen.run_scan import scan_run
from webcrawl.seen.runs import write_run
from webcrawl.seen.snapshots import BloomSnapshot, DiskSnapshot, decode_snapshot, tag_of
from webcrawl.seen.url_log import COUNT, Span, log_path, parse_record
from webcrawl.storage.record_log import HEADER_SIZE, CorruptRecordError, RecordLog, pack_many
from webcrawl.storage.scan import Gap, scan_records
from webcrawl.wording import counted

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from webcrawl.jobs.check.mending import Mending


def mend_seen(path: Path, snapshot: bytes, mending: Mending) -> bytes:
    """The snapshot to publish for the eliminator in *path*; *snapshot* itself if it is sound."""
    state: DiskSnapshot | BloomSnapshot
    mended: DiskSnapshot | BloomSnapshot
    if tag_of(snapshot) == "Bloom":
        state = bloom = decode_snapshot(snapshot, BloomSnapshot, path=path)
        mended = _with_filter(path, bloom, mending)
    else:
        state = disk = decode_snapshot(snapshot, DiskSnapshot, path=path)
        mended = msgspec.structs.replace(disk, runs=_mend_runs(path, disk.runs, mending))
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
    runs = _mend_runs(path, state.runs, mending)
    if runs == state.runs:
        return snapshot
    return msgspec.msgpack.encode(msgspec.structs.replace(state, runs=runs))


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
    if not state.saved:
        return state
    file = filter_path(path, state.saved)
    try:
        read_filter(file)
    except CorruptRecordError:
        mending.put_aside(file)
        mending.superseded.append(file)
        mending.lost(f"all URLs that {file.name} had seen: they may be fetched again")
        return msgspec.structs.replace(state, saved=0)
    return state


# The URL log


def _mend_log(
    path: Path, state: DiskSnapshot | BloomSnapshot, mending: Mending, damaged: set[Path]
) -> Span:
    """Write what can be read of the log into a new file; returns its stretch."""
    files = [*path.glob("discovered-*.log")]
    parts = [*stretches(path, state)]
    number = 1 + max(map(number_of, [*files, log_path(path, spans_of(state)[-1].number)]))
    for file in damaged:
        mending.put_aside(file)
    new = log_path(path, number)
    with RecordLog.open(new, size=0) as log:
        for fps, packed in _records(parts, _taken(state), mending):
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


def _records(
    parts: Iterable[tuple[Path, int, int | None]], taken: tuple[int, int], mending: Mending
) -> Iterator[tuple[array[int], bytes]]:
    """The fingerprints of each good record of *parts*, and its payloads unless they were *taken*
    out. Those of the record at that place are submitted again."""
    for file, start, end in parts:
        for piece in scan_records(file, start=start, end=end):
            if isinstance(piece, Gap):
                if piece.end > piece.start and not piece.is_torn:
                    what = f"links of pages in {piece.end - piece.start:,} bytes of the URL log"
                    mending.lost(what)
                continue
            try:
                fps, packed = parse_record(piece.payload)
            except ValueError:
                mending.lost("links of one page, in a record that is none of a URL log")
            else:
                yield fps, packed if (number_of(file), piece.start) >= taken else pack_many([])
