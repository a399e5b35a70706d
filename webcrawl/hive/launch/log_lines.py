"""Converts the JSON log lines (LOG_JSON) of drones to Scrapy's default text format."""

from __future__ import annotations

import re

import msgspec

from webcrawl.configuration.decoding import UndecodableError, json_decoder

_LINE = re.compile(r'^\{"time": .+\}$', re.MULTILINE)


class _LogLine(msgspec.Struct, frozen=True):
    """Fields of a JSON log line, as crawl/engine/json_log.py writes them."""

    time: str
    logger: str
    level: str
    message: str


_decode = json_decoder(_LogLine)


def in_plain_lines(text: str) -> str:
    """Convert the JSON lines in *text*, a part of a log, to Scrapy's default format."""
    return _LINE.sub(_as_plain_line, text)


def _as_plain_line(match: re.Match[str]) -> str:
    try:
        line = _decode(match[0])
    except UndecodableError:  # cut off, or not a record
        return match[0]
    time = line.time[:19].replace("T", " ")
    return f"{time} [{line.logger}] {line.level}: {line.message}"
