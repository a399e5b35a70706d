"""Snapshots of inboxes and outboxes: msgpack arrays that begin with a version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from webcrawl.configuration.decoding import UndecodableError
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError

#: The version that is written.
VERSION = 1


class Snapshot(msgspec.Struct, array_like=True, frozen=True):
    """Base of saved states."""

    version: int


_Snapshot = TypeVar("_Snapshot", bound=Snapshot)


def parse_snapshot(decode: Callable[[bytes], _Snapshot], saved: bytes, path: Path) -> _Snapshot:
    """Decode *saved*, a snapshot of what is at *path*, with *decode*.

    Raises CorruptRecordError or NewerFormatError.
    """
    try:
        state = decode(saved)
    except UndecodableError as error:
        raise CorruptRecordError(path, 0, f"its snapshot: {error}") from error
    if state.version > VERSION:
        raise NewerFormatError(path, state.version, VERSION)
    return state
