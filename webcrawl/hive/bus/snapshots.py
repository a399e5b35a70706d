"""Snapshots of inboxes and outboxes: msgpack arrays that begin with a version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from webcrawl.configuration.decoding import UndecodableError
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError

#: The version that is written.
VERSION = 1


class _Versioned(Protocol):
    @property
    def version(self) -> int: ...


_Snapshot = TypeVar("_Snapshot", bound=_Versioned)


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
