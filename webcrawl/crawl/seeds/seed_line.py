"""Parser of seed list lines: a rank and a domain, a domain, or a URL."""

from __future__ import annotations

import csv
import re

from webcrawl.urls import normalize_seed

MAX_LINE_BYTES = 1 << 14  # longer than any URL a server accepts
BOM = "\ufeff"
HEADERS = {"rank,domain", "rank,url", "rank,host"}
COMMENT = re.compile(r"\s#.*")
RANKED = re.compile(r"([0-9]{1,10})\s*,\s*(.*)")
# A URL, with or without its scheme. Without a scheme it must not be a mail address or a lone
# number, which URL parsers read as an IPv4 address. A comma or semicolon in the host suggests a
# column of another format.
SEED = re.compile(
    r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?//[^\s,;/?#\\]+(?:[/?#][^\x00-\x1f]*)?"
    r"|(?![0-9]+$|[^/?#]*://)[^\s,;@/?#\\]+(?:[/?#]\S*)?"
)
# Matches most lines, for which ``normalize_seed`` would only add the scheme. It excludes IPv4
# addresses, because the last label starts with a letter, and ports that are a scheme's default.
USUAL = re.compile(
    r"(?:([0-9]{1,10}),)?+(https?://)?+"
    r"((?:[a-z0-9][a-z0-9-]*+\.)*+[a-z][a-z0-9-]*+(?::(?:[1-9]|[1-5][0-9]|6[0-4])[0-9]{3})?)/?+",
    re.ASCII,
)


class BadLine(ValueError):  # noqa: N818 - named for the line, which is not an error of the crawl
    """Raised for a line that should have a seed but has none; the message is the reason."""


def parse_line(line: bytes) -> tuple[str, int | None] | None:
    """Return (URL, rank or None) of *line*; None if it has no seed, like a comment.

    Raises BadLine if the line is invalid.
    """
    if len(line) > MAX_LINE_BYTES:
        raise BadLine(f"longer than {MAX_LINE_BYTES} bytes")
    if b"\0" in line:
        raise BadLine("NUL byte")
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise BadLine("not UTF-8") from None

    usual = USUAL.fullmatch(text)
    if usual is not None:
        ranking, scheme, server = usual.groups()
        return f"{scheme or 'http://'}{server}/", int(ranking) if ranking else None

    text = text.removeprefix(BOM).strip()
    if not text or text[0] == "#":
        return None
    if "#" in text:
        text = COMMENT.sub("", text)
    if '"' in text:
        text = _unquote(text)

    ranked = RANKED.fullmatch(text)
    rank = int(ranked[1]) if ranked else None
    target = ranked[2] if ranked else text
    if not SEED.fullmatch(target):
        if target.lower() in HEADERS:
            return None
        raise BadLine("neither a domain nor a URL")
    url = normalize_seed(target)
    if url is None:
        raise BadLine("not a URL that this crawler can fetch")
    return url, rank


def can_be_written(url: str, rank: int) -> bool:
    """Return whether a line of a seed list can express *url* and *rank*."""
    try:
        return parse_line(f"{rank},{url}".encode()) == (url, rank)
    except BadLine:
        return False


def _unquote(text: str) -> str:
    """Return *text* without the quotes of CSV; a quote elsewhere in a field stays."""
    try:
        return ",".join(next(csv.reader([text], skipinitialspace=True)))
    except csv.Error as error:
        raise BadLine(str(error)) from None
