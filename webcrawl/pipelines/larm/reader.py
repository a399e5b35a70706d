"""LARM reader: the pages that store.log lists, also while the directory is being written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.pipelines.larm.rows import LarmError, StoredFile, page_file, parsed
from webcrawl.pipelines.larm.writer import STORE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAX_LINE_BYTES = 1 << 20


def stored_files(directory: Path, *, start: int = 0) -> Iterator[tuple[StoredFile, int]]:
    """Yield the pages from byte *start* of store.log on, each with the offset of its line.

    A last line without an end is left for later. Raises OSError, or LarmError, which names the
    place of an invalid line.
    """
    path = directory / STORE
    with path.open("rb") as file:
        file.seek(start)
        offset = start
        while (line := file.readline(_MAX_LINE_BYTES)).endswith(b"\n"):
            try:
                found = parsed(line)
            except LarmError as error:
                raise LarmError(f"{path} is damaged after byte {offset}: {error}") from error
            yield found, offset
            offset += len(line)
        if len(line) == _MAX_LINE_BYTES:
            raise LarmError(f"{path} is damaged after byte {offset}: a line does not end")


def find(directory: Path, url: str) -> StoredFile | None:
    """Return the page *url*, the last one if there are several, None if there is none.

    *url* is as it was fetched, or in the form in which URLs are compared. Reads all of store.log.
    Raises what ``stored_files`` raises.
    """
    latest = None
    for found, _ in stored_files(directory):
        if url in (found.url, found.normalized):
            latest = found
    return latest


def body_of(directory: Path, stored: StoredFile) -> bytes:
    """Return the body of the page *stored*.

    Raises LarmError if its page file is too short, or OSError.
    """
    path = page_file(directory, stored.number)
    if path.stat().st_size < stored.offset + stored.size:
        raise LarmError(f"{path} ends within the page at byte {stored.offset}")
    with path.open("rb") as file:
        file.seek(stored.offset)
        return file.read(stored.size)
