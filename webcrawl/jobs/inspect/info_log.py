"""Search in the log of finished URLs (crawl/lease/outcome_log.py describes its lines).

Invariant: every line that was in the log when the search began is found, except in files deleted by
KEEP_DAYS, even if lines are appended or files are rotated meanwhile. Only lines that contain the
searched text are parsed: a million of them take a third of a second. A position in a log stays
valid when files are rotated and compressed.
"""

from __future__ import annotations

import contextlib
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

import msgspec
from isal import igzip
from isal.igzip_lib import IsalError

from webcrawl.configuration.decoding import UndecodableError, json_decoder
from webcrawl.crawl.lease.outcome_log import INFO_LOG, MAX_LINE_BYTES, MAX_OTHER_URL, OutcomeLine
from webcrawl.hive.launch.job_directories import jobdirs_of
from webcrawl.storage.line_log import begins_at, number_of, numbered, numbered_path, whole_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_READ_BYTES = 1 << 24

_decode = json_decoder(OutcomeLine)


class Position(NamedTuple):
    """Position between two lines of a log.

    file: number of a file; the file that is being appended to has the next number.
    offset: number of uncompressed bytes before the position in that file.
    """

    file: int
    offset: int


BEGINNING = Position(1, 0)


def end_of(path: Path) -> Position:
    """Return the present end of the line log at *path*, without a torn last line."""
    while True:
        full = numbered(path, packed=True)[-1:]
        size = 0
        with contextlib.suppress(FileNotFoundError):  # it was renamed just now
            size = whole_bytes(path)
        if numbered(path, packed=True)[-1:] == full:
            return Position(number_of(full[0]) + 1 if full else 1, size)


def ends(
    jobdir: Path, *, start: Position = BEGINNING, end: Position | None = None
) -> Iterator[OutcomeLine]:
    """Yield the lines from *start* to *end*, or to the present end, the oldest first."""
    for lines in pieces(jobdir / INFO_LOG, start=start, end=end):
        for line in lines.splitlines():
            with contextlib.suppress(UndecodableError):
                yield _decode(line)


def find_outcomes(jobdir: Path, *, form: str) -> Iterator[OutcomeLine]:
    """Yield the lines of all URLs whose comparison form has the fingerprint *form*, in order."""
    return _lines_with(jobdir, b'"form":"%s"' % form.encode("ascii"))


def find_redirects(jobdir: Path, *, target: str) -> Iterator[OutcomeLine]:
    """Yield the lines of the URLs that redirect to the normalized *target*, the oldest first.

    There are none if *target* is too long to be complete in the log.
    """
    if len(target) >= MAX_OTHER_URL:
        return iter(())
    return _lines_with(jobdir, b'"redirect":' + msgspec.json.encode(target))


def find_original(jobdir: Path, *, content: str) -> OutcomeLine | None:
    """Return the line of the first document with the fingerprint *content*, or None."""
    found = _lines_with(jobdir, b'"content":"%s"' % content.encode("ascii"))
    return next((outcome for outcome in found if not outcome.duplicate), None)


def _lines_with(jobdir: Path, wanted: bytes) -> Iterator[OutcomeLine]:
    """Yield the parsed lines that contain *wanted*.

    It begins with a quote, which JSON escapes in strings, so it is never found inside one.
    """
    for lines in pieces(jobdir / INFO_LOG):
        at = lines.find(wanted)
        while at >= 0:
            start, end = lines.rfind(b"\n", 0, at) + 1, lines.find(b"\n", at)
            with contextlib.suppress(UndecodableError):
                yield _decode(lines[start:end])
            at = lines.find(wanted, end)


def known_since(jobdir: Path) -> float | None:
    """Return the time of the first line, epoch seconds, if older files of the log were deleted.

    Some URLs of the crawl in *jobdir* that ended before are then unknown. None if all are known.
    Raises FatalError if there is no crawl.
    """
    logs = [log_files(one / INFO_LOG) for one in jobdirs_of(jobdir)]
    firsts = [min(map(begins_at, log)) for log in logs if log[1:] and number_of(log[0]) > 1]
    return max((at for at in firsts if at < math.inf), default=None)


def beginning(since: float | None) -> str:
    """Return a sentence about ``known_since``, or "" if all is known."""
    if since is None:
        return ""
    day = time.strftime("%Y-%m-%d", time.gmtime(since))
    return f"the log begins on {day}; URLs that were finished before are not known"


def log_files(path: Path) -> list[Path]:
    """Return the files of the line log at *path*, the oldest first; full ones may be compressed."""
    return [*numbered(path, packed=True), path]


def pieces(
    path: Path,
    *,
    start: Position = BEGINNING,
    end: Position | None = None,
    on_damage: Callable[[str], object] | None = None,
) -> Iterator[bytes]:
    """Yield the line log at *path* in large pieces of complete lines, the oldest first.

    *start* and *end* are as in ``ends``. If a file cannot be read to its end, *on_damage* is called
    with the reason and the next file follows; without *on_damage*, OSError is raised.
    """
    end = end or end_of(path)
    numbers = {*map(number_of, numbered(path, packed=True)), end.file}
    for number in sorted(numbers):
        is_last = number == end.file
        if not start.file <= number <= end.file or (is_last and not end.offset):
            continue
        name = numbered_path(path, number)
        try:
            with (
                contextlib.suppress(FileNotFoundError),  # deleted meanwhile
                _opened(path, name, is_last=is_last) as file,
            ):
                name = name.with_name(Path(file.name).name)
                is_packed = name.suffix == ".gz"
                data = cast("BinaryIO", igzip.open(file)) if is_packed else file  # type: ignore[no-untyped-call]  # isal has no types
                offset = data.seek(start.offset if number == start.file else 0)
                yield from _whole_lines(data, end.offset - offset if is_last else None)
        except (OSError, EOFError, IsalError) as error:  # type: ignore[misc]  # of its stub
            if on_damage is None:
                raise OSError(f"{name}: {error}") from error
            on_damage(f"{name}: {error}")


def _opened(path: Path, full: Path, *, is_last: bool) -> BinaryIO:
    """Open the file of the log at *path* that is called *full*, or will be if it *is_last*.

    It may have been compressed.
    """
    names = [path] * is_last + [full.with_name(f"{full.name}.gz"), full]
    found: list[BinaryIO] = []
    for name in names:  # in this order, because each is renamed to the next
        with contextlib.suppress(FileNotFoundError):
            found.append(name.open("rb", buffering=0))
    for file in found[:-1]:
        file.close()
    return found[-1] if found else full.open("rb", buffering=0)  # raises FileNotFoundError


def _whole_lines(file: BinaryIO, size: int | None) -> Iterator[bytes]:
    """Yield the next *size* bytes, or all, in large pieces of complete lines.

    A torn last line is left out.
    """
    rest = b""
    while data := file.read(_READ_BYTES if size is None else min(_READ_BYTES, size)):
        size = None if size is None else size - len(data)
        cut = data.rfind(b"\n") + 1
        if cut:
            yield rest + data[:cut]
            rest = data[cut:]
        elif len(rest) <= MAX_LINE_BYTES:
            rest += data
