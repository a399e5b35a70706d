"""Reads traces of URLs: files that URL_TRACE has written, or lines of text."""

from __future__ import annotations

import zlib
from array import array
from typing import TYPE_CHECKING

import numpy as np

from webcrawl.crawl.seeds.line_reader import opened
from webcrawl.errors import FatalError
from webcrawl.seen.fingerprint import fingerprints
from webcrawl.seen.url_trace import Trace, read_trace
from webcrawl.storage.record_log import MAGIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: Most requests of a trace. Each takes 40 bytes of memory.
MAX_REQUESTS = 1 << 28
_BLOCK_BYTES = 1 << 22
_LINE_BYTES = 1 << 16


def trace_of(path: Path, *, on_progress: Callable[[int], object]) -> Trace:
    """Read the trace in *path*, a file that URL_TRACE has written, or text (plain or gzip).

    Text has one URL or number per line, and no link in it counts as leaving its host.
    *on_progress* is called with the number of requests read. Raises FatalError with one sentence if
    there is no trace.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(len(MAGIC))
        if magic == MAGIC:
            trace = read_trace(path)
        else:
            url_fingerprints = array("Q")
            for block in blocks_of_lines(path):
                lines = (line.decode("utf-8", "backslashreplace") for line in block)
                url_fingerprints.extend(fingerprints(line.rstrip("\r") for line in lines))
                on_progress(len(url_fingerprints))
                if len(url_fingerprints) > MAX_REQUESTS:
                    break
            leaves = np.zeros(len(url_fingerprints), dtype=np.bool_)
            trace = Trace(np.frombuffer(url_fingerprints, dtype=np.uint64), leaves, 0.0, 0.0)
    except (OSError, EOFError, zlib.error) as error:
        raise FatalError(f"The trace {path} cannot be read: {error}.") from error
    if not len(trace.fps):
        raise FatalError(f"The trace {path} is empty: give one with requests.")
    if len(trace.fps) > MAX_REQUESTS:
        raise FatalError(f"{path} has more than {MAX_REQUESTS:,} requests: shorten it.")
    return trace


def blocks_of_lines(path: Path) -> Iterator[list[bytes]]:
    """Yield the lines of the file *path* (plain or gzip), without line ends, in blocks.

    Raises FatalError if a line is too long, and OSError, EOFError or zlib.error if the file cannot
    be read.
    """
    with opened(path) as file:
        incomplete_line = b""
        while data := file.read(_BLOCK_BYTES):
            lines = (incomplete_line + data).split(b"\n")
            if max(map(len, lines)) > _LINE_BYTES:
                raise FatalError(f"{path} has a line longer than {_LINE_BYTES:,} bytes: split it.")
            incomplete_line = lines.pop()
            yield lines
        if incomplete_line:
            yield [incomplete_line]
