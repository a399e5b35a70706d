"""Searches the log of finished URLs (crawl/lease/outcome_log.py describes its lines).

Invariant: every line that was in the log when the search began is found, even if lines are appended
or files are rotated meanwhile, except in files deleted because of KEEP_DAYS. Searching a million
lines takes a third of a second, because only lines that contain the searched text are parsed. A
position in a log stays valid when files are rotated and compressed.
"""

from __future__ import annotations

import contextlib
import math
import time
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

import msgspec
from isal import igzip
from isal.igzip_lib import IsalError

from webcrawl.configuration.decoding import UndecodableError, json_decoder, json_lines_decoder
from webcrawl.crawl.lease.outcome_log import INFO_LOG, MAX_LINE_BYTES, MAX_OTHER_URL, OutcomeLine
from webcrawl.hive.launch.job_directories import jobdirs_of
from webcrawl.storage.line_log import (
    complete_lines_size,
    number_of,
    numbered_files,
    numbered_path,
    start_time,
)
from webcrawl.urls import host_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_READ_BYTES = 1 << 24
# Number of bytes decoded together: so many fit into a processor's cache, which halves the time.
_CHUNK_BYTES = 1 << 19

#: Decodes a line of the log; raises UndecodableError.
decode_line = json_decoder(OutcomeLine)
_decode_lines = json_lines_decoder(OutcomeLine)


class Position(NamedTuple):
    """Position between two lines of a log.

    file: number of the file; the file that is being appended to has the next unused number.
    offset: number of uncompressed bytes in that file before the position.
    """

    file: int
    offset: int


BEGINNING = Position(1, 0)


def end_of(path: Path) -> Position:
    """Return the present end of the line log at *path*, without a torn last line."""
    while True:
        last_full = numbered_files(path, packed=True)[-1:]
        size = 0
        with contextlib.suppress(FileNotFoundError):  # the file was renamed just now
            size = complete_lines_size(path)
        if numbered_files(path, packed=True)[-1:] == last_full:  # not rotated meanwhile
            return Position(number_of(last_full[0]) + 1 if last_full else 1, size)


def outcome_lines(
    jobdir: Path,
    *,
    start: Position = BEGINNING,
    end: Position | None = None,
    on_damage: Callable[[str], object] | None = None,
) -> Iterator[OutcomeLine]:
    """Yield the log lines of *jobdir* from *start* to *end*, or to the present end, in order.

    *on_damage* as for ``line_chunks``.
    """
    for data in line_chunks(jobdir / INFO_LOG, start=start, end=end, on_damage=on_damage):
        yield from chain.from_iterable(decode_lines(data))


def decode_lines(data: bytes) -> Iterator[list[OutcomeLine]]:
    """Yield the complete lines in *data* in lists, without those that cannot be decoded."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + _CHUNK_BYTES) + 1 or len(data)
        chunk = data[start:end]
        try:
            lines = _decode_lines(chunk)
        except UndecodableError:
            lines = [*_decode_one_by_one(chunk)]
        yield lines
        start = end


def _decode_one_by_one(data: bytes) -> Iterator[OutcomeLine]:
    for line in data.splitlines():
        with contextlib.suppress(UndecodableError):
            yield decode_line(line)


def find_outcomes(jobdir: Path, *, form: str) -> Iterator[OutcomeLine]:
    """Yield the log lines of all URLs whose comparison form has the fingerprint *form*."""
    return _lines_with(jobdir, b'"form":"%s"' % form.encode("ascii"))


def find_outcomes_of_host(jobdir: Path, host: str) -> Iterator[OutcomeLine]:
    """Yield the log lines of all URLs of *host*. Reads the log twice."""
    for scheme in ("http", "https"):
        for line in _lines_with(jobdir, f'"url":"{scheme}://{host}'.encode()):
            if host_of(line.url) == host:
                yield line


def find_redirects(jobdir: Path, *, target: str) -> Iterator[OutcomeLine]:
    """Yield the log lines of URLs that redirect to the normalized URL *target*, the oldest first.

    Yields nothing if *target* is so long that the log cannot contain it completely.
    """
    if len(target) >= MAX_OTHER_URL:
        return iter(())
    return _lines_with(jobdir, b'"redirect":' + msgspec.json.encode(target))


def find_original(jobdir: Path, *, content: str) -> OutcomeLine | None:
    """Return the log line of the first document with the fingerprint *content*, or None."""
    lines = _lines_with(jobdir, b'"content":"%s"' % content.encode("ascii"))
    return next((line for line in lines if not line.duplicate), None)


def _lines_with(jobdir: Path, wanted: bytes) -> Iterator[OutcomeLine]:
    """Parse and yield the log lines of *jobdir* that contain *wanted*.

    *wanted* must begin with a quote: JSON escapes quotes in strings, so it cannot match in one.
    """
    for lines in line_chunks(jobdir / INFO_LOG):
        offset = lines.find(wanted)
        while offset >= 0:
            start = lines.rfind(b"\n", 0, offset) + 1
            end = lines.find(b"\n", offset)
            with contextlib.suppress(UndecodableError):
                yield decode_line(lines[start:end])
            offset = lines.find(wanted, end)


def known_since(jobdir: Path) -> float | None:
    """Return the epoch second from which on the log of finished URLs in *jobdir* is complete.

    URLs finished before it may be missing, because older files of the log were deleted. Returns
    None if no file was deleted. Raises FatalError if there is no crawl.
    """
    logs = [log_files(path / INFO_LOG) for path in jobdirs_of(jobdir)]
    # Files were deleted from a log if the number of its first full file is not 1.
    starts = [min(map(start_time, log)) for log in logs if log[1:] and number_of(log[0]) > 1]
    return max((start for start in starts if start < math.inf), default=None)


def log_start_notice(since: float | None) -> str:
    """Say since when the log has all URLs; *since* is in epoch seconds. "" if it is None."""
    if since is None:
        return ""
    day = time.strftime("%Y-%m-%d", time.gmtime(since))
    return f"the log begins on {day}; URLs that were finished before are not known"


def log_files(path: Path) -> list[Path]:
    """Return the files of the line log at *path*, the oldest first; some may be compressed."""
    return [*numbered_files(path, packed=True), path]


def line_chunks(
    path: Path,
    *,
    start: Position = BEGINNING,
    end: Position | None = None,
    on_damage: Callable[[str], object] | None = None,
) -> Iterator[bytes]:
    """Yield the line log at *path* in large chunks of complete lines, the oldest first.

    Reads from *start* to *end*, or to the present end. If a file cannot be read to its end,
    *on_damage* is called with the reason, and the next file is read; without *on_damage*, OSError
    is raised.
    """
    end = end or end_of(path)
    numbers = {*map(number_of, numbered_files(path, packed=True)), end.file}
    for number in sorted(numbers):
        is_last = number == end.file
        if not start.file <= number <= end.file or (is_last and not end.offset):
            continue
        file_path = numbered_path(path, number)
        try:
            with (
                contextlib.suppress(FileNotFoundError),  # the file was deleted meanwhile
                _open_renamed(path, file_path, is_last=is_last) as file,
            ):
                # The name under which the file was found says whether it is compressed.
                file_path = file_path.with_name(Path(file.name).name)
                is_packed = file_path.suffix == ".gz"
                data = cast("BinaryIO", igzip.open(file)) if is_packed else file  # type: ignore[no-untyped-call]  # isal has no types
                offset = data.seek(start.offset if number == start.file else 0)
                yield from _whole_lines(data, end.offset - offset if is_last else None)
        except (OSError, EOFError, IsalError) as error:  # type: ignore[misc]  # of its stub
            if on_damage is None:
                raise OSError(f"{file_path}: {error}") from error
            on_damage(f"{file_path}: {error}")


def _open_renamed(path: Path, full: Path, *, is_last: bool) -> BinaryIO:
    """Open the log file *full*, which may have been compressed meanwhile.

    If it *is_last*, it may still have the name *path*, because it is renamed when it is full.
    """
    candidates = [path] * is_last + [full.with_name(f"{full.name}.gz"), full]
    opened: list[BinaryIO] = []
    # The file is called *path* until it is full, then *full*, and at last it is compressed. As the
    # next file then takes the name *path*, the last candidate that can be opened is the right one.
    for candidate in candidates:
        with contextlib.suppress(FileNotFoundError):
            opened.append(candidate.open("rb", buffering=0))
    for file in opened[:-1]:
        file.close()
    return opened[-1] if opened else full.open("rb", buffering=0)  # raises FileNotFoundError


def _whole_lines(file: BinaryIO, size: int | None) -> Iterator[bytes]:
    """Yield the next *size* bytes of *file*, or all, in large chunks of complete lines.

    A torn last line is left out.
    """
    torn = b""
    while data := file.read(_READ_BYTES if size is None else min(_READ_BYTES, size)):
        size = None if size is None else size - len(data)
        end = data.rfind(b"\n") + 1
        if end:
            yield torn + data[:end]
            torn = data[end:]
        elif len(torn) <= MAX_LINE_BYTES:  # longer lines are damage, and need not be kept whole
            torn += data
