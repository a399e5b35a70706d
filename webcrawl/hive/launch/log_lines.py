"""Log lines of drones: those of LOG_JSON become the text that Scrapy logs by default."""

from __future__ import annotations

import re

import msgspec

from webcrawl.configuration.decoding import UndecodableError, json_decoder

_LINE = re.compile(r'^\{"time": .+\}$', re.MULTILINE)


class _LogLine(msgspec.Struct, frozen=True):
    """Fields of a line of crawl/engine/json_log.py."""

    time: str
    logger: str
    level: str
    message: str


_decode = json_decoder(_LogLine)


def in_plain_lines(text: str) -> str:
    """*text* of a log with its lines of JSON as Scrapy writes them by default."""
    return _LINE.sub(_plain, text)


def _plain(found: re.Match[str]) -> str:
    try:
        line = _decode(found[0])
    except UndecodableError:  # cut off, or not a record
        return found[0]
    time = line.time[:19].replace("T", " ")
    return f"{time} [{line.logger}] {line.level}: {line.message}"
