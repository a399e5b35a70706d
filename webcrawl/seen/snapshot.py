"""Reading back what ``snapshot()`` of a part of this package returned.

It is msgpack: the part's tag, the version, the part's fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError

if TYPE_CHECKING:
    from pathlib import Path

#: Of all snapshots of this package; it changes when one of them does.
VERSION = 1

T = TypeVar("T", bound=msgspec.Struct)


def decode_snapshot(snapshot: bytes, kind: type[T], *, path: Path) -> T:
    """*snapshot* as a *kind*, a tagged array-like struct with the version as its first field;
    *path* is the directory it belongs to.

    Raises CorruptRecordError, or NewerFormatError when a later webcrawl wrote it.
    """
    tag = kind.__struct_config__.tag
    try:
        head = msgspec.msgpack.decode(snapshot, type=list[object])[:2]
        if len(head) == 2 and head[0] != tag:
            raise CorruptRecordError(
                path, 0, f"it holds the state of a {head[0]} eliminator, not of a {tag} one"
            )
        if len(head) == 2 and isinstance(head[1], int) and head[1] > VERSION:
            raise NewerFormatError(
                f"the snapshot of {path} has format {head[1]}, this webcrawl reads up to "
                f"{VERSION}: use the newer webcrawl that wrote it"
            )
        return msgspec.msgpack.decode(snapshot, type=kind)
    except msgspec.DecodeError as error:
        raise CorruptRecordError(path, 0, f"unreadable snapshot: {error}") from error


def tag_of(snapshot: bytes) -> str:
    """Of which part *snapshot* is; empty when it cannot be read, which who decodes it explains."""
    try:
        head = msgspec.msgpack.decode(snapshot, type=list[object])[:1]
    except msgspec.DecodeError:
        return ""
    return head[0] if head and isinstance(head[0], str) else ""
