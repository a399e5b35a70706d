"""Conversion of JSON log lines (LOG_JSON) of drones to Scrapy's default text format."""

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
    """Return *text* of a log with its JSON lines converted to Scrapy's default format."""
    return _LINE.sub(_plain, text)


def _plain(found: re.Match[str]) -> str:
    try:
        line = _decode(found[0])
    except UndecodableError:  # cut off, or not a record
        return found[0]
    time = line.time[:19].replace("T", " ")
    return f"{time} [{line.logger}] {line.level}: {line.message}"
