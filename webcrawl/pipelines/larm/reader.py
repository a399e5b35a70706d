"""Reads the pages of a LARM directory, which may be written to at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.pipelines.larm.rows import LarmError, StoredFile, page_file, parse_store_line
from webcrawl.pipelines.larm.writer import STORE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAX_LINE_BYTES = 1 << 20


def stored_files(directory: Path, *, start: int = 0) -> Iterator[tuple[StoredFile, int]]:
    """Yield the pages that store.log lists from byte *start* on, each with its line's offset.

    A last line without a line end is left for later. Raises OSError, or LarmError, which names the
    position of an invalid line.
    """
    path = directory / STORE
    with path.open("rb") as file:
        file.seek(start)
        offset = start
        while (line := file.readline(_MAX_LINE_BYTES)).endswith(b"\n"):
            try:
                stored = parse_store_line(line)
            except LarmError as error:
                raise LarmError(f"{path} is damaged after byte {offset}: {error}") from error
            yield stored, offset
            offset += len(line)
        if len(line) == _MAX_LINE_BYTES:
            raise LarmError(f"{path} is damaged after byte {offset}: a line does not end")


def find(directory: Path, url: str) -> StoredFile | None:
    """Return the last stored page with the URL *url*, or None if there is none.

    *url* is the URL as it was fetched, or its normalized form. Reads all of store.log. Raises the
    same errors as ``stored_files``.
    """
    latest = None
    for stored, _ in stored_files(directory):
        if url in (stored.url, stored.normalized):
            latest = stored
    return latest


def body_of(directory: Path, stored: StoredFile) -> bytes:
    """Read the body of the page *stored* from its page file.

    Raises LarmError if the page file is too short, and OSError.
    """
    path = page_file(directory, stored.number)
    if path.stat().st_size < stored.offset + stored.size:
        raise LarmError(f"{path} ends within the page at byte {stored.offset}")
    with path.open("rb") as file:
        file.seek(stored.offset)
        return file.read(stored.size)
