"""LARM reader: the pages of a directory as store.log names them, while it is written or later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.pipelines.larm.rows import LarmError, StoredFile, page_file, parsed
from webcrawl.pipelines.larm.writer import STORE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAX_LINE_BYTES = 1 << 20


def stored_files(directory: Path, *, start: int = 0) -> Iterator[tuple[StoredFile, int]]:
    """The pages from byte *start* of store.log on, each with the offset of its line.

    A last line that has no end yet is left for later. LarmError, with the place of a line that is
    none; OSError.
    """
    path = directory / STORE
    with path.open("rb") as file:
        file.seek(start)
        offset = start
        while (line := file.readline(_MAX_LINE_BYTES)).endswith(b"\n"):
            try:
                found = parsed(line)
            except LarmError as error:
                raise LarmError(f"{path} is damaged behind byte {offset}: {error}") from error
            yield found, offset
            offset += len(line)
        if len(line) == _MAX_LINE_BYTES:
            raise LarmError(f"{path} is damaged behind byte {offset}: a line does not end")


def find(directory: Path, url: str) -> StoredFile | None:
    """The page *url*, as it was fetched, or as it is compared; of several the last. None if there
    is none. Reads all of store.log. Raises as ``stored_files``."""
    latest = None
    for found, _ in stored_files(directory):
        if url in (found.url, found.normalized):
            latest = found
    return latest


def body_of(directory: Path, stored: StoredFile) -> bytes:
    """The body of the page *stored*. LarmError if its page file has not all of it; OSError."""
    path = page_file(directory, stored.number)
    if path.stat().st_size < stored.offset + stored.size:
        raise LarmError(f"{path} ends within the page at byte {stored.offset}")
    with path.open("rb") as file:
        file.seek(stored.offset)
        return file.read(stored.size)
