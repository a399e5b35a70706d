"""Field report: what a stranger may attach to an issue about a crawl.

Everything in it is on a list of what may be shown: numbers, names of our own, and words that many
servers use. Hosts are keyed hashes, and their names stay with the user. Nothing of URLs, pages,
paths and files is in it, and nothing is sent.
"""

from __future__ import annotations

import platform
import re
import zlib
from collections import Counter
from contextlib import suppress
from hashlib import blake2b
from importlib.metadata import version
from os import cpu_count
from typing import TYPE_CHECKING

from webcrawl import __version__
from webcrawl.crawl.lease.outcome_log import NAMES
from webcrawl.doctor.history import HOUR, read_series
from webcrawl.jobs.replay.sources import UNREADABLE
from webcrawl.jobs.replay.warc_reader import http_heads
from webcrawl.jobs.report.tables import HOST_ROWS, codes_table, crawl_table
from webcrawl.randomness import secret_generator
from webcrawl.storage.atomic import write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from webcrawl.jobs.report.sources import Crawl

#: File of the job directory with the names of the hosts in its last field report.
HOST_NAMES = "bundle-hosts.csv"
_PACKAGES = ("scrapy", "twisted", "uvloop", "httptools", "pyopenssl", "cryptography", "lxml")
_OUTCOME = rf"http_\d\d\d|{'|'.join(sorted(NAMES))}"
# Stats whose names have no part that a user or a server has chosen.
_STAT = re.compile(
    r"contacts|elapsed_time_seconds|hosts/contacted|item_scraped_count|job/cut_off|memusage/max"
    r"|(?:checkpoint|content|dns|doctor|fetch|frontier|latency|links|log_count|outage|pauses"
    r"|redirects|seen|visits|walls|warc)/[A-Za-z_/]+|refused/(?:un)?signed/\w+"
    rf"|(?:render/outcome|retry|robots|side_downloads)/(?:{_OUTCOME})"
)
_ORDINARY = (b"404", b"410")  # documents that are gone
_MAX_HOSTS = 30
_MAX_HEADS = 2  # of each kind
_MAX_FILES = 2
_MAX_HEAD_BYTES = 2000
_STATUS = re.compile(r"\AHTTP/\d\.\d \d{3}\b")
# All of a head that could be private: URLs, domains, addresses, paths; words that are not in this
# list; numbers except Retry-After; and characters of other languages.
_WORDS = re.compile(
    r"\S*(?://|@|\.[a-z])\S*|(?<=[\s=\"'])/\S*|(?<![a-z])(?!(?<!\d)(?:accept|age|akamai|alive|allow"
    r"|alt|apache|application|attachment|authenticate|basic|br|bytes|cache|cdn|cf|charset|chunked|close|cloudflare|cloudfront|compress|connection"
    r"|content|control|cookie|css|date|deflate|digest|disposition|encoding|etag|expires|fastly|gmt"
    r"|gunicorn|gzip|hit|html|http|httponly|https|id|iis|image|iso|javascript|json|keep|kestrel"
    r"|language|lastmod|lax|length|link|litespeed|location|max|microsoft|miss|mitigated|modified"
    r"|must|nginx|no|none|nosniff|octet|openresty|options|origin|path|php|plain|policy|powered"
    r"|pragma|private|proxy|public|range|ray|request|required|response|retry|revalidate|robots"
    r"|samesite|secure|security|server|set|site|stale|status|store|strict|text|timeout|transfer"
    r"|transport|type|upgrade|utf|vary|varnish|via|warning|www|x|xhtml|xml|zstd|after"
    r")(?![a-z\d]))[a-z]+",
    re.IGNORECASE,
)
_NUMBERS = re.compile(r"(?<!\d)(?<!^Retry-After: )\d+", re.IGNORECASE | re.MULTILINE)
_OTHERS = re.compile(r"[^\n -~]+")


def write_bundle(path: Path, crawl: Crawl, jobdirs: Sequence[Path]) -> bytes:
    """Write the field report about *crawl* to *path*, and return it.

    The names of the hosts in it are written to HOST_NAMES, for the user only. Raises OSError and
    sqlite3.Error.
    """
    key = secret_generator("field report").randbytes(32)
    query = f"{HOST_ROWS} ORDER BY given_up + walls DESC, pages DESC LIMIT {_MAX_HOSTS}"
    hosts = {
        blake2b(host.encode(), key=key, digest_size=6).hexdigest(): (host, figures)
        for host, *figures in crawl.file.select(query)
    }
    rows: list[Sequence[object]] = [
        (f"webcrawl {__version__} field report 1",),
        ("python", platform.python_version(), platform.system(), platform.machine()),
        ("cores", cpu_count()),
        # The rest would be the name of a version of the user's own.
        *((package, version(package).partition("+")[0]) for package in _PACKAGES),
        ("\n[settings that differ, and stats]",),
        *_public_stats(crawl),
        ("\n[crawl]",),
        ("drones", crawl.drones),
        *crawl_table(crawl).rows,
        ("\n[outcomes: code urls name]",),
        # The categories of blocklists are the user's words.
        *(
            (code, urls, outcome if re.fullmatch(_OUTCOME, str(outcome)) else "excluded")
            for code, urls, outcome, _ in codes_table(crawl).rows
        ),
        ("\n[hours]",),
        *_hours(jobdirs),
        ("\n[hosts: urls bytes pages requests seconds denied given_up walls]",),
        *((digest, *figures) for digest, (_, figures) in hosts.items()),
        ("\n[heads of odd answers, masked]",),
        *_odd_heads(jobdirs),
    ]
    text = "".join(" ".join(map(str, row)) + "\n" for row in rows).encode()
    write_atomic(path, text)
    names = "".join(f"{digest},{host}\n" for digest, (host, _) in hosts.items())
    write_atomic(crawl.path / HOST_NAMES, names.encode(), is_secret=True)
    return text


def _public_stats(crawl: Crawl) -> Iterator[Sequence[object]]:
    """Yield the settings and stats of *crawl* that may be shown."""
    for name, value in sorted(crawl.stats.items()):
        is_number = isinstance(value, (int, float)) and _STAT.fullmatch(name)
        if is_number or name.startswith("settings/"):
            yield name, value


def _hours(jobdirs: Sequence[Path]) -> Iterator[Sequence[object]]:
    """Yield the numbers of pages and bytes in each hour since the first one of *jobdirs*."""
    series = read_series(jobdirs, HOUR)
    for name in ("pages", "bytes"):
        for at, total in zip(series.at, series.columns[name], strict=True):
            yield int(at - series.at[0]) // HOUR, name, int(total)


def _odd_heads(jobdirs: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Yield masked heads of answers from the last WARC files of each of *jobdirs*.

    An answer is odd if its status is an error, its body was cut off, or the WARC writer had to
    repair its head.
    """
    shown: Counter[tuple[str, bytes]] = Counter()
    for jobdir in jobdirs:
        for path in sorted(jobdir.glob("warc/*.warc.gz"))[-_MAX_FILES:]:
            with suppress(*UNREADABLE, ValueError, EOFError, zlib.error):
                for mark, head in http_heads(path):
                    kind = (mark, head[9:12])
                    is_odd = mark or b"400" <= kind[1] not in _ORDINARY
                    if is_odd and shown[kind] < _MAX_HEADS:
                        shown[kind] += 1
                        yield mark or "error", masked_head(head)


def masked_head(head: bytes) -> str:
    r"""Return *head* without anything that could be private.

    >>> masked_head(b"HTTP/1.1 503 Busy\r\nX-Acme: sid=AB12; Path=/\r\nRetry-After: 30\r\n\r\n")
    'HTTP/1.1 503 a\nX-a: a=a9; Path=a\nRetry-After: 30\n'
    """
    text = head[:_MAX_HEAD_BYTES].decode("latin-1").replace("\r", "").rstrip("\n")
    status = _STATUS.match(text)
    rest = _STATUS.sub("", text, 1)
    masked_rest = _OTHERS.sub("?", _NUMBERS.sub("9", _WORDS.sub("a", rest)))
    return f"{status[0] if status else ''}{masked_rest}\n"
