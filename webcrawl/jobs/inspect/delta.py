"""Lists the changes in the pages of a crawl since a time or a token, for ``scrapy delta``.

The changes are read from the logs of finished URLs. A line of a log is a change if a document was
fetched for the first time, or if a visit found that it has changed, moved or gone. The last line of
each URL counts.

A token consists of the time of its delta, for people, and for each log the position up to which the
log was read. For example, ``2026-11-26T10:15:00Z@3:48210,1:977`` is from two drones. Everything
before a position was fsynced. Clocks therefore do not matter, and each line is in exactly one delta
if every delta starts from the previous token.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import msgspec

from webcrawl.clock import wall_time
from webcrawl.crawl.lease.outcome_log import INFO_LOG, MAX_OTHER_URL, MAX_URL, OutcomeLine
from webcrawl.errors import FatalError
from webcrawl.jobs.arguments import age, wrong
from webcrawl.jobs.inspect.info_log import BEGINNING, Position, known_since, log_files
from webcrawl.jobs.inspect.last_lines import Log, OnProgress, last_lines, lines_at, logs_of
from webcrawl.net.outcomes import is_document
from webcrawl.revisit.history import CHANGED, GONE, MOVED
from webcrawl.rights.policy import RIGHTS_REFUSED
from webcrawl.rights.statements import NO_RIGHTS, Rights
from webcrawl.storage.atomic import sync_paths
from webcrawl.storage.line_log import number_of, numbered_files
from webcrawl.wording import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_ADDED = "added"


class Since(NamedTuple):
    """Start of a delta: the time *at*, in epoch seconds, or *positions* in the logs."""

    at: float
    positions: tuple[Position, ...] = ()


_ALL = Since(0.0)


class DocumentChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """Latest state of a URL in a delta.

    change: ``added`` or ``changed`` if the URL has a document; ``moved`` or ``gone`` if not.
    fetched_at: when the URL was requested, epoch seconds; the time of the WARC record, if any.
    reason: the outcome, if there is no document.
    target: the new URL if the document has moved, unless it has 2,048 bytes or more.
    content: fingerprint of the document, 16 hex digits; equal for equal bytes in this job.
    content_type: its media type.
    duplicate: whether another URL's document has the same bytes.
    rights: with CRAWL_PURPOSE, purpose and agent as sent, and statements; as JSON in Parquet.
        If ``left_out``, the change is ``gone``, with the reason ``rights_refused``.
    """

    url: str
    fetched_at: float
    change: str
    reason: str = ""
    target: str = ""
    content: str = ""
    content_type: str = ""
    duplicate: bool = False
    rights: Rights = NO_RIGHTS


def parse_since(text: str) -> Since:
    """Parse the value of ``--since``: a time, an age or a token. Raises FatalError."""
    time_text, separator, positions_text = text.partition("@")
    try:
        positions = [
            Position(*map(int, position.split(":")))
            for position in positions_text.split(",")
            if separator  # only a token has positions
        ]
        return Since(_parse_time(time_text), tuple(positions))
    except (ValueError, TypeError):
        raise wrong(
            text,
            "a date or time (2026-11-26T10:15Z), epoch seconds, an age (7d), 0 for everything, or "
            "the token that the last delta printed",
        ) from None


def _parse_time(text: str) -> float:
    """Return the epoch second for *text*, a time or an age. Raises ValueError."""
    with suppress(ValueError):
        return wall_time() - age(text)
    with suppress(ValueError):
        parsed = datetime.fromisoformat(text)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    if not 0 <= float(text) < 1e11:
        raise ValueError
    return float(text)


def delta(
    jobdir: Path, since: Since, *, on_progress: OnProgress
) -> tuple[Iterator[DocumentChange], str]:
    """Return the changes in the crawl in *jobdir* after *since*, and the token for the next delta.

    The crawl may be running. *on_progress* is called with a count and its unit. Raises FatalError
    with one sentence.
    """
    logs = logs_of(jobdir, since.positions)
    are_valid = all(BEGINNING <= log.start <= log.end for log in logs)
    if not are_valid or len(since.positions) > len(logs):
        raise FatalError(f"The token in --since belongs to another job, not to {jobdir}.")
    _check_not_deleted(jobdir, logs, since)

    # Sync the logs, so that what is before the positions of the token cannot get lost.
    paths = [log.jobdir / INFO_LOG for log in logs]
    sync_paths(file for path in paths for file in (*log_files(path), path.parent))
    positions = ",".join(f"{log.end.file}:{log.end.offset}" for log in logs)
    return _changes(
        logs, since, on_progress
    ), f"{iso_time(wall_time(), 'milliseconds')}@{positions}"


def _check_not_deleted(jobdir: Path, logs: Sequence[Log], since: Since) -> None:
    """Raise FatalError, with the earliest possible time, if lines after *since* were deleted."""
    first = known_since(jobdir)
    full_files = [numbered_files(log.jobdir / INFO_LOG, packed=True) for log in logs]
    # The numbers of the files begin with 1; the oldest ones are deleted first.
    are_deleted = any(
        log.start.file < min(map(number_of, files), default=1)
        for log, files in zip(logs, full_files, strict=True)
    )
    if first is not None and are_deleted and (since.positions or since.at < first):
        raise FatalError(
            "--since goes back too far, because older logs were deleted. The earliest possible is "
            f"--since {iso_time(first, 'milliseconds')}."
        )


def _changes(
    logs: Sequence[Log], since: Since, on_progress: OnProgress
) -> Iterator[DocumentChange]:
    """Yield the last change of each URL in *logs* after *since*."""

    def is_new_change(line: OutcomeLine) -> bool:
        is_new = bool(since.positions) or line.at >= since.at
        return is_new and _change_in(line) is not None

    for numbers, _ in last_lines(
        logs, lambda _: True, among=is_new_change, on_progress=on_progress
    ):
        for line in lines_at(logs, numbers):
            # In a delta since the beginning, every document is new to the reader.
            change = _change_in(line, changed=_ADDED if since == _ALL else CHANGED)
            if change is not None:
                yield change


def _change_in(line: OutcomeLine, *, changed: str = CHANGED) -> DocumentChange | None:
    """Return the change that *line* reports, or None if it reports no change of a document.

    *changed* is the name of the change if a document replaces an older one of the URL.
    """
    at = line.sent or line.at
    visit = line.visit
    rights = line.rights
    if len(line.url) >= MAX_URL:  # the log does not have it completely
        return None
    if visit in (MOVED, GONE) and line.stored:  # without *stored* it never had a document
        target = line.redirect if len(line.redirect) < MAX_OTHER_URL else ""
        return DocumentChange(line.url, at, visit, line.outcome, target)
    is_refused = rights.left_out or line.outcome == RIGHTS_REFUSED
    if is_refused:
        # Only a document that had been there before can be gone.
        gone = DocumentChange(line.url, at, GONE, RIGHTS_REFUSED, rights=rights)
        return gone if visit and line.stored else None
    has_content = is_document(line.outcome) and line.content and not line.flags
    if not has_content or visit not in ("", CHANGED):
        return None
    kind = changed if visit else _ADDED
    return DocumentChange(
        line.url,
        at,
        kind,
        content=line.content,
        content_type=line.type,
        duplicate=line.duplicate,
        rights=rights,
    )


def write_json(changes: Iterator[DocumentChange], file: BinaryIO) -> int:
    """Write *changes* to *file* as one JSON object per line; return their number."""
    return sum(bool(file.write(msgspec.json.encode(change) + b"\n")) for change in changes)
