"""Writes the log of finished URLs in the format of Heritrix' ``crawl.log``.

Source: Heritrix 3.4, classes UriProcessingFormatter, CrawlURI and FetchStatusCodes. A line has
twelve columns, separated by spaces; ``-`` stands for an empty one::

    time when the URL was finished, status code, bytes, URL, hop path, via, media type, #process,
    time of the request + milliseconds until the last byte, digest, source tag, annotations

Heritrix stores all letters of a hop path. This crawler only knows how many hops there were, and the
last one, which Heritrix writes as ``3+L`` for the last of four hops. The number of the process, 0
unless it is a hive, is in place of that of a thread. The source tag is never known.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from webcrawl.frontier import SUBRESOURCE
from webcrawl.urls.extraction.kinds import DEFAULT_KINDS, KINDS
from webcrawl.wording import iso_time

if TYPE_CHECKING:
    from webcrawl.crawl.lease.outcome_log import OutcomeLine

# Heritrix' status codes of URLs without an answer, with the beginnings of their outcomes. The first
# that matches counts. All other outcomes are errors in the program.
_CODES = {
    -9998: ("robots_denied", "crawl_delay_", "rights_"),
    -61: ("robots_",),
    -1: ("dns_",),
    -3: ("connection_lost", "incomplete", "bad_answer", "header_"),
    -2: ("connect_", "tls_", "unverified"),
    -4: ("first_byte_timeout", "too_slow", "timeout"),
    -7: ("bad_url",),
    -8: ("host_failing", "challenged", "walled"),
    -5001: ("excluded", "address_forbidden", "private_address"),
    -5002: ("unwanted_type", "too_large", "stopped", "ignored", "replaced"),
    -5003: ("over_budget",),
    -6000: ("dropped", "purged"),
}
_UNEXPECTED = -5
# Letters of hops by the kind of link: redirect, manifest, embedded resource. Others are links.
_HOPS = {
    **dict.fromkeys(KINDS - DEFAULT_KINDS - {"link", "form"}, "E"),
    **dict.fromkeys(("frame", "iframe", SUBRESOURCE), "E"),
    **dict.fromkeys(("redirect", "refresh"), "R"),
    **dict.fromkeys(("sitemap", "loc"), "M"),
}


def status_code(status: int, outcome: str) -> int:
    """Return the *status* of an answer, or Heritrix' negative code for an *outcome* without one.

    >>> status_code(200, "http_200"), status_code(0, "dns_not_found"), status_code(0, "poison")
    (200, -1, -5)
    """
    codes = (code for code, beginnings in _CODES.items() if outcome.startswith(beginnings))
    return status or next(codes, _UNEXPECTED)


def log_line(line: OutcomeLine, process: int, digest: str) -> str:
    """Return *line* of the process with the number *process*, with a line feed. Takes 10 us.

    *digest* is that of its document, or "-".
    """
    # A redirect of a seed has the depth 0, but it is one hop.
    hops = line.depth or bool(line.via)
    letter = _HOPS.get(line.kind, "L")
    sent = datetime.fromtimestamp(line.sent, UTC)
    # Those that Heritrix also has are named as there, such as "3t", "lenTrunc" and "timeTrunc".
    annotations = [
        f"{line.tries}t" * (line.tries > 1),
        f"{line.truncated.removesuffix('gth')}Trunc" * bool(line.truncated),
        "duplicate:digest" * line.duplicate,
        line.outcome * (line.outcome != f"http_{line.status}"),
        line.flags,
        line.visit,
    ]
    columns = (
        iso_time(line.at, "milliseconds"),
        f"{status_code(line.status, line.outcome):>5}",
        f"{line.bytes if line.status else '-':>10}",
        _word(line.url),
        f"{hops - 1}+{letter}" if hops > 1 else letter * hops or "-",
        _word(line.via),
        (_word(line.type) if line.type else "no-type") if line.status else "unknown",
        f"#{process:03}",
        f"{sent:%Y%m%d%H%M%S}{sent.microsecond // 1000:03}+{line.took * 1000:.0f}"
        if line.sent
        else "-",
        digest,
        "-",
        _word(",".join(filter(None, annotations))),
    )
    return " ".join(columns) + "\n"


def _word(text: str) -> str:
    """Return *text* as a column: without white space, which a URL of a Request may contain."""
    return "%20".join(text.split()) or "-"
