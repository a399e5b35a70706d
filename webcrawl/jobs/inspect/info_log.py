"""Search in the log of finished URLs (crawl/lease/outcome_log.py describes its lines).

Invariant: every line that the log had when the search began is found, whatever is appended or
turned over meanwhile, but for files that KEEP_DAYS deletes. Only lines that contain the searched
text are parsed: a million of them take a third of a second.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import msgspec
from isal import igzip
from isal.igzip_lib import IsalError

from webcrawl.crawl.lease.outcome_log import INFO_LOG, MAX_LINE_BYTES, MAX_OTHER_URL, OutcomeLine
from webcrawl.hive.launch.job_directories import jobdirs_of
from webcrawl.storage.line_log import begins_at, number_of, numbered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_READ_BYTES = 1 << 24

_decode = msgspec.json.Decoder(OutcomeLine).decode
#: What the decoder of a damaged line raises, or of somebody else's.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError)


def ends(jobdir: Path) -> Iterator[OutcomeLine]:
    """All lines, the oldest first."""
    for lines in pieces(jobdir / INFO_LOG):
        for line in lines.splitlines():
            with contextlib.suppress(*UNREADABLE):
                yield _decode(line)


def find_outcomes(jobdir: Path, *, form: str) -> Iterator[OutcomeLine]:
    """The lines of all URLs that are compared by the fingerprint *form*, the oldest first."""
    return _lines_with(jobdir, b'"form":"%s"' % form.encode("ascii"))


def find_redirects(jobdir: Path, *, target: str) -> Iterator[OutcomeLine]:
    """The lines of the URLs that lead to *target*, normalized, the oldest first; none when it is
    too long to be whole in the log."""
    if len(target) >= MAX_OTHER_URL:
        return iter(())
    return _lines_with(jobdir, b'"redirect":' + msgspec.json.encode(target))


def find_original(jobdir: Path, *, content: str) -> OutcomeLine | None:
    """The oldest line of a document with the fingerprint *content* that was none seen before."""
    found = _lines_with(jobdir, b'"content":"%s"' % content.encode("ascii"))
    return next((outcome for outcome in found if not outcome.duplicate), None)


def _lines_with(jobdir: Path, wanted: bytes) -> Iterator[OutcomeLine]:
    """The parsed lines that contain *wanted*, which cannot stand within a string of one: it begins
    with a quote, which JSON escapes there."""
    for lines in pieces(jobdir / INFO_LOG):
        at = lines.find(wanted)
        while at >= 0:
            start, end = lines.rfind(b"\n", 0, at) + 1, lines.find(b"\n", at)
            with contextlib.suppress(*UNREADABLE):
                yield _decode(lines[start:end])
            at = lines.find(wanted, end)


def known_since(jobdir: Path) -> float | None:
    """The time of the first line, epoch seconds, if older files were deleted: of the crawl in
    *jobdir* not all ends before it are known. None if all are. FatalError if there is no crawl."""
    logs = [log_files(one / INFO_LOG) for one in jobdirs_of(jobdir)]
    firsts = [min(map(begins_at, log)) for log in logs if log[1:] and number_of(log[0]) > 1]
    return max((at for at in firsts if at < math.inf), default=None)


def beginning(since: float | None) -> str:
    """A sentence on ``known_since``; empty if all is known."""
    if since is None:
        return ""
    day = time.strftime("%Y-%m-%d", time.gmtime(since))
    return f"the log begins on {day}: URLs that ended before are not known"


def log_files(path: Path) -> list[Path]:
    """The files of the line log at *path*, the oldest first; full ones may have been compressed."""
    return [*numbered(path, packed=True), path]


def pieces(path: Path, *, on_damage: Callable[[str], object] | None = None) -> Iterator[bytes]:
    """The line log at *path* in large pieces of whole lines, the oldest first. If a file cannot be
    read to its end *on_damage* is called with the reason, and the next one follows; without it,
    OSError."""
    with ExitStack() as stack:
        # Opened first, as it may get its number meanwhile; the others one at a time.
        try:
            last = stack.enter_context(path.open("rb", buffering=0))
        except FileNotFoundError:
            # It has just got it, and the next one is newer than the search; or there is no log.
            last = stack.enter_context(Path(os.devnull).open("rb", buffering=0))
        for name in log_files(path):
            try:
                with (
                    contextlib.suppress(FileNotFoundError),
                    last if name == path else _opened(name) as file,
                ):
                    if file is last or not _is_same(file, last):
                        yield from _whole_lines(_unpacked(file))
            except (OSError, EOFError, IsalError) as error:  # type: ignore[misc]  # of its stub
                if on_damage is None:
                    raise OSError(f"{name}: {error}") from error
                on_damage(f"{name}: {error}")


def _opened(path: Path) -> BinaryIO:
    """The file *path*, which may have been compressed since it was listed."""
    try:
        return path.open("rb", buffering=0)
    except FileNotFoundError:
        return path.with_name(f"{path.name}.gz").open("rb", buffering=0)


def _is_same(file: BinaryIO, other: BinaryIO) -> bool:
    return os.path.samestat(os.fstat(file.fileno()), os.fstat(other.fileno()))


def _unpacked(file: BinaryIO) -> BinaryIO:
    """*file*, or what it has if it is compressed."""
    if not file.name.endswith(".gz"):
        return file
    return cast("BinaryIO", igzip.open(file))  # type: ignore[no-untyped-call]  # isal has no types


def _whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """The content in large pieces that end with a line; a torn last line is left out."""
    rest = b""
    while data := file.read(_READ_BYTES):
        cut = data.rfind(b"\n") + 1
        if cut:
            yield rest + data[:cut]
            rest = data[cut:]
        elif len(rest) <= MAX_LINE_BYTES:
            rest += data
