"""Reads the warnings and errors of a crawl (extensions/repeated_lines.py)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from webcrawl.configuration.decoding import Count, Epoch, UndecodableError, json_decoder
from webcrawl.crawl.job.state_directory import WARNINGS
from webcrawl.jobs.report.figures import Figure, Link, Table
from webcrawl.jobs.report.guides import guide_url
from webcrawl.wording import utc_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_MAX_KINDS = 200
_LEVELS = ("CRITICAL", "ERROR", "WARNING")
_WRONG = "docs/howto/when-something-is-wrong.md"
#: Pages about what to do, by the beginning of the name of the logger.
HOW_TO = {
    "webcrawl.extensions.critical_errors": f"{_WRONG}#a-processing-module-fails",
    "webcrawl.extensions.disk_guard": f"{_WRONG}#the-crawl-pauses",
    "webcrawl.extensions.identification": "docs/howto/be-a-good-citizen.md",
    "webcrawl.extensions.websub": "docs/howto/keep-an-index-fresh.md#news-by-push-websub",
    "webcrawl.hive": "docs/howto/several-machines.md",
    "webcrawl.hosts.politeness.outage": f"{_WRONG}#the-crawl-pauses",
    "webcrawl.net.dns": f"{_WRONG}#the-crawl-pauses",
    "webcrawl.pipelines": f"{_WRONG}#a-processing-module-fails",
    "webcrawl.render": "docs/howto/pages-that-need-javascript.md",
    "webcrawl.scheduler": f"{_WRONG}#the-crawl-was-killed-or-the-machine-went-down",
    "scrapy.core.scraper": f"{_WRONG}#a-processing-module-fails",
    "": _WRONG,
}


class Messages(msgspec.Struct):
    """*count* messages, the first of them at *at* and the last one at *last*."""

    at: Epoch
    level: str
    where: str
    text: str
    count: Count
    last: Epoch = 0.0


_decode = json_decoder(Messages)


def warnings(jobdirs: Iterable[Path]) -> Figure:
    """Return the table of the last warnings and errors, the most severe kinds first."""
    kinds: dict[str, Messages] = {}
    lines = (line for jobdir in jobdirs for line in _lines(jobdir))
    for line in sorted(lines, key=lambda line: line.at):
        kind = kinds.setdefault(line.where, line)
        if kind is not line:
            kind.count += line.count
            kind.text = line.text
        kind.last = line.at

    latest = sorted(kinds.values(), key=lambda kind: -kind.last)[:_MAX_KINDS]
    latest.sort(key=lambda kind: _LEVELS.index(kind.level) if kind.level in _LEVELS else 0)
    rows = [
        (
            kind.level.lower(),
            kind.count,
            utc_time(kind.at),
            utc_time(kind.last),
            kind.text,
            _guide(kind.where),
        )
        for kind in latest
    ]
    head = ("level", "messages", "first (UTC)", "last (UTC)", "last message", "what to do")
    lead = "Warnings and errors of the log, of which each row counts those of one kind."
    return Figure("warnings", "Warnings", lead, Table(head, rows) if rows else None)


def how_to(where: str) -> str:
    """Return the page about what to do after messages of the logger or line *where*."""
    return next(page for name, page in HOW_TO.items() if where.startswith(name))


def _guide(where: str) -> str:
    """Return ``how_to`` as a link of the live page, if the monitor can show the page."""
    url = guide_url(how_to(where))
    return Link(how_to(where), url) if url else how_to(where)


def _lines(jobdir: Path) -> Iterator[Messages]:
    """Yield the lines of the two files of *jobdir*, the older one first."""
    for name in (f"{WARNINGS}.1", WARNINGS):
        with suppress(OSError):
            for line in (jobdir / name).read_bytes().splitlines():
                with suppress(UndecodableError):
                    yield _decode(line)
