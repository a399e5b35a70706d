"""Snapshots of the eliminators, and the decoding of all snapshots of this package.

A snapshot is msgpack: the part's tag, the version, the part's fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from webcrawl.configuration.decoding import UndecodableError, msgpack_decoder
from webcrawl.seen.drain import Cursor  # noqa: TC001  # msgspec reads the annotations
from webcrawl.seen.url_log import Span
from webcrawl.storage.record_log import HEADER_SIZE, CorruptRecordError, NewerFormatError

if TYPE_CHECKING:
    from pathlib import Path

#: Version of all snapshots of this package; it changes when one of them does.
VERSION = 1

T = TypeVar("T", bound=msgspec.Struct)


class DiskSnapshot(msgspec.Struct, array_like=True, frozen=True, tag="disk"):
    """State of the exact eliminator.

    - runs: (number, count)
    - pending: stretches of U that were not completely taken, oldest first
    - cursor: position in the first of them
    - active: the stretch being written
    """

    version: int
    runs: list[tuple[int, int]]
    pending: list[Span]
    cursor: Cursor | None
    active: Span


class BloomSnapshot(msgspec.Struct, array_like=True, frozen=True, tag="Bloom"):
    """State of the Bloom eliminator.

    - saved: number of the filter's file, 0 if there is none
    - since: the position in the log up to which the file has all URLs, (file, offset)
    - consumed_until: the file, and the cursor in it, up to which all was taken
    - files: the log from the first file needed on; the last one is being written
    """

    version: int
    saved: int
    since: tuple[int, int]
    consumed_until: tuple[int, Cursor]
    files: list[Span]


class LogState(NamedTuple):
    """State of the URL log.

    The stretches not completely taken, the cursor in the first of them, the stretch being written,
    and the oldest file needed.
    """

    pending: list[Span]
    cursor: Cursor | None
    active: Span
    first: int


EMPTY_LOG = LogState([], None, Span(1, HEADER_SIZE, HEADER_SIZE), 1)

_decode_any = msgpack_decoder(list[object])


def decode_snapshot(snapshot: bytes, kind: type[T], *, path: Path) -> T:
    """Decode *snapshot* as a *kind*, a tagged array-like struct with the version as first field.

    *path* is its directory. Raises CorruptRecordError, or NewerFormatError if a later webcrawl
    wrote it.
    """
    tag = kind.__struct_config__.tag
    try:
        head = _decode_any(snapshot)[:2]
        if len(head) == 2 and head[0] != tag:
            raise CorruptRecordError(
                path, 0, f"it has the state of a {head[0]} eliminator, not of a {tag} one"
            )
        if len(head) == 2 and isinstance(head[1], int) and head[1] > VERSION:
            raise NewerFormatError(f"the snapshot of {path}", head[1], VERSION)
        return msgpack_decoder(kind)(snapshot)
    except UndecodableError as error:
        raise CorruptRecordError(path, 0, f"unreadable snapshot: {error}") from error


def tag_of(snapshot: bytes) -> str:
    """Return the tag of *snapshot*; "" if it cannot be read, which decode_snapshot explains."""
    try:
        head = _decode_any(snapshot)[:1]
    except UndecodableError:
        return ""
    return head[0] if head and isinstance(head[0], str) else ""
