"""Snapshots of the eliminators, and a decoder for all snapshots of this package.

A snapshot is a msgpack array: the tag of the component, the version, and the component's fields.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from webcrawl.configuration.decoding import UndecodableError, msgpack_decoder
from webcrawl.seen.drain import Cursor  # msgspec reads the annotations
from webcrawl.seen.url_log import Span
from webcrawl.storage.record_log import HEADER_SIZE, CorruptRecordError, NewerFormatError

#: Version of all snapshots of this package; it changes when the format of any of them changes.
#: Version 1 (webcrawl 0.4) has no *tells_own*.
VERSION = 2

T = TypeVar("T", bound=msgspec.Struct)


class DiskSnapshot(msgspec.Struct, array_like=True, frozen=True, tag="disk"):
    """Snapshot of the exact eliminator.

    - runs: the file number and the count of fingerprints of each sorted run
    - untaken: sections of U that were not completely taken, oldest first
    - taken_until: position in the first of them
    - open_section: the section being written
    - tells_own: whether its fingerprints are keys that say who has named a URL, see ``DiskSet``
    """

    version: int
    runs: list[tuple[int, int]]
    untaken: list[Span]
    taken_until: Cursor | None
    open_section: Span
    tells_own: bool = False


class BloomSnapshot(msgspec.Struct, array_like=True, frozen=True, tag="Bloom"):
    """Snapshot of the Bloom eliminator.

    - saved: number of the filter's file, 0 if there is none
    - since: the position (file number, offset) in the URL log up to which that file has all URLs
    - consumed_until: the log file, and the cursor in it, up to which all URLs were taken
    - files: the log files that are still needed; the last one is being written
    """

    version: int
    saved: int
    since: tuple[int, int]
    consumed_until: tuple[int, Cursor]
    files: list[Span]


class LogState(NamedTuple):
    """State of the URL log.

    *untaken* are the sections not completely taken, *taken_until* is the position in the first of
    them (None if there are none), *open_section* is the section being written, and *first_file* is
    the number of the oldest file needed.
    """

    untaken: list[Span]
    taken_until: Cursor | None
    open_section: Span
    first_file: int


EMPTY_LOG = LogState([], None, Span(1, HEADER_SIZE, HEADER_SIZE), 1)

_decode_any = msgpack_decoder(list[object])


def decode_snapshot(snapshot: bytes, kind: type[T], *, path: Path) -> T:
    """Decode *snapshot* as a *kind*, a tagged array-like struct with the version as first field.

    *path* is the directory it belongs to. Raises CorruptRecordError, or NewerFormatError if a later
    webcrawl wrote it.
    """
    tag = kind.__struct_config__.tag
    try:
        # An array that is too short for a tag and a version is refused when it is decoded below.
        fields = _decode_any(snapshot)[:2]
        if len(fields) == 2 and fields[0] != tag:
            raise CorruptRecordError(
                path, 0, f"it has the state of a {fields[0]} eliminator, not of a {tag} one"
            )
        if len(fields) == 2 and isinstance(fields[1], int) and fields[1] > VERSION:
            raise NewerFormatError(f"the snapshot of {path}", fields[1], VERSION)
        return msgpack_decoder(kind)(snapshot)
    except UndecodableError as error:
        raise CorruptRecordError(path, 0, f"unreadable snapshot: {error}") from error


def tag_of(snapshot: bytes) -> str:
    """Return the tag of *snapshot*, or "" if it is unreadable; ``decode_snapshot`` says why."""
    try:
        first_field = _decode_any(snapshot)[:1]
    except UndecodableError:
        return ""
    return first_field[0] if first_field and isinstance(first_field[0], str) else ""
