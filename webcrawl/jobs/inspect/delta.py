"""What has changed in the pages of a crawl since a time or a token: ``scrapy delta``.

By the logs of finished URLs, of which each that tells of a change has a line: a document that was
fetched for the first time, a visit that found another one, or that it has moved or gone. Of the
lines of a URL since then the last one counts.

A token has the time at which its delta was made, for people, and for each log the position up to
which that has read it: ``2026-11-26T10:15:00Z@3:48210,1:977`` is of two drones. What is before it
was fsynced. So no clock is asked, and a line is in one delta, or in two if the first was not taken.
"""

from __future__ import annotations

import math
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from webcrawl.clock import wall_time
from webcrawl.configuration.values import measured
from webcrawl.crawl.lease.outcome_log import INFO_LOG, MAX_OTHER_URL, MAX_URL
from webcrawl.errors import FatalError
from webcrawl.jobs.inspect.info_log import BEGINNING, Position, ends, log_files
from webcrawl.jobs.inspect.last_lines import Log, last_lines, lines_at, logs_of
from webcrawl.pipelines.parquet import schema_of
from webcrawl.revisit.history import CHANGED, GONE, MOVED
from webcrawl.storage.atomic import sync_paths
from webcrawl.storage.line_log import number_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from webcrawl.crawl.lease.outcome_log import OutcomeLine
    from webcrawl.jobs.inspect.last_lines import OnProgress

_ADDED: Final = "added"
_MOST_SECS: Final = 1e11
# Of a Parquet file, in memory as a whole.
_GROUP_ROWS: Final = 1 << 16


class Since(NamedTuple):
    """Where a delta begins: with the lines of a time, epoch seconds, or at *positions*."""

    at: float
    positions: tuple[Position, ...] = ()

    @property
    def is_all(self) -> bool:
        """Whether all that is known is asked for."""
        return not (self.at or self.positions)


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last state of a URL, of those that a delta tells of.

    change: ``added`` or ``changed``, the URL has a document; ``moved``, ``gone``, it has none.
    fetched_at: when that was asked for, epoch seconds; for a document the time of its WARC record.
    reason: the outcome of one that is gone.
    target: where one has moved, if that has less than 2,048 bytes.
    content: fingerprint of the document, 16 hex digits, the same of all with its bytes in this job.
    content_type: its media type.
    duplicate: whether another URL's document had the same bytes.
    """

    url: str
    fetched_at: float
    change: str
    reason: str = ""
    target: str = ""
    content: str = ""
    content_type: str = ""
    duplicate: bool = False


def since(text: str) -> Since:
    """What ``--since`` *text* says: a time, an age or a token. FatalError."""
    moment, is_token, places = text.partition("@")
    try:
        found = [Position(*map(int, one.split(":"))) for one in places.split(",") if is_token]
        return Since(_time_of(moment), tuple(found))
    except (ValueError, TypeError):
        raise FatalError(
            "--since takes a date or time as 2026-11-26T10:15Z, epoch seconds, an age as 7d, 0 for "
            f"all, or what the delta before has printed, not {text!r}."
        ) from None


def _time_of(text: str) -> float:
    age = measured("AGE_SECS", text)
    if isinstance(age, int | float):
        return wall_time() - age
    with suppress(ValueError):
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    if not 0 <= (secs := float(text)) < _MOST_SECS:
        raise ValueError(text)
    return secs


def delta(jobdir: Path, since: Since, *, on_progress: OnProgress) -> tuple[Iterator[Change], str]:
    """The changes in the crawl in *jobdir*, which may be running, and the token of the next delta.
    *on_progress* is called with a count and its unit. FatalError with one sentence."""
    logs = logs_of(jobdir)
    if since.positions:
        pairs = [*zip_longest(logs, since.positions)]
        logs = [log._replace(start=start or BEGINNING) for log, start in pairs if log]
        if len(logs) < len(pairs) or any(not BEGINNING <= one.start <= one.end for one in logs):
            raise FatalError(f"--since is a token of another job than {jobdir}.")
    refuse_lost(logs, since)
    paths = [log.jobdir / INFO_LOG for log in logs]
    sync_paths(one for path in paths for one in (*log_files(path), path.parent))
    places = ",".join(f"{log.end.file}:{log.end.offset}" for log in logs)
    return _changes(logs, since, on_progress), f"{_text(math.floor(wall_time()))}@{places}"


def refuse_lost(logs: Sequence[Log], since: Since) -> None:
    """FatalError, with the earliest time that can be, if the first files of *logs* were removed,
    and lines *since* that time were in them."""
    earliest = 0.0
    for log in logs:
        first = min(map(number_of, log_files(log.jobdir / INFO_LOG)[:-1]), default=log.end.file)
        if first > log.start.file:
            line = next(ends(log.jobdir, end=log.end), None)
            at = wall_time() if line is None else line.at
            if since.positions or since.at < at:
                earliest = max(earliest, at)
    if earliest:
        raise FatalError(
            f"--since goes back too far, as older logs were removed: --since {_text(earliest)} is "
            "the earliest that can be."
        )


def _text(at: float) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    return moment.isoformat(timespec="milliseconds" if at % 1 else "seconds")[:-6] + "Z"


def _changes(logs: Sequence[Log], since: Since, on_progress: OnProgress) -> Iterator[Change]:
    def is_new(line: OutcomeLine) -> bool:
        return bool(_change_of(line)) and (bool(since.positions) or line.at >= since.at)

    for numbers, _ in last_lines(logs, lambda _: True, among=is_new, on_progress=on_progress):
        for line in lines_at(logs, numbers):
            change = _change_of(line)
            is_there = change in (_ADDED, CHANGED)
            yield Change(
                url=line.url,
                fetched_at=line.sent or line.at,
                change=_ADDED if is_there and since.is_all else change,
                reason=line.outcome if change == GONE else "",
                target=line.redirect if len(line.redirect) < MAX_OTHER_URL else "",
                content=line.content if is_there else "",
                content_type=line.type if is_there else "",
                duplicate=is_there and line.duplicate,
            )


def _change_of(line: OutcomeLine) -> str:
    """What *line* tells of the document of its URL; "" if that it is as it was, or nothing."""
    if len(line.url) >= MAX_URL:
        return ""
    if line.visit in (MOVED, GONE):
        return line.visit if line.stored else ""  # else there was none
    has_document = line.outcome == "http_200" and line.content
    return line.visit or _ADDED if has_document and line.visit in ("", CHANGED) else ""


def write_json(changes: Iterator[Change], file: Any) -> int:
    """Write *changes* to the binary *file*, a JSON object a line; returns how many there are."""
    count = 0
    for count, change in enumerate(changes, 1):  # noqa: B007  # the last is the result
        file.write(msgspec.json.encode(change) + b"\n")
    return count


def write_parquet(changes: Iterator[Change], path: Path) -> int:
    """As ``write_json``, to the Parquet file *path*; pyarrow must be there."""
    import pyarrow as pa  # noqa: PLC0415  # of `make modules`
    import pyarrow.parquet as pq  # noqa: PLC0415  # of `make modules`

    names = " ".join(Change.__struct_fields__)
    schema, count = schema_of(names, fetched_at="time", duplicate="bool_"), 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while group := [msgspec.structs.asdict(one) for one in islice(changes, _GROUP_ROWS)]:
            for row in group:
                row["fetched_at"] = round(row["fetched_at"] * 1e6)
            writer.write_table(pa.Table.from_pylist(group, schema))
            count += len(group)
    return count
