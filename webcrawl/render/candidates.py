"""Pages that RENDER=auto renders: the rule for documents, and verdicts by host and shape.

A document is a candidate if it has few words and links for its scripts. Candidates of a host with
the same scripts have the same shape. The first of a shape is rendered, and the others wait for it:
if it gains text or links, they are rendered as well. Otherwise the second one decides. The verdict
is kept in the host's record for 30 days.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import xxhash

from webcrawl.clock import TimeSource
from webcrawl.hosts.records import HostRecords
from webcrawl.hosts.records.host_record import RenderVerdict

#: Candidates of a shape that are rendered until one gains.
SAMPLES = 2
_EXPIRE_SECS = 30 * 86_400.0
_SHAPES = 8  # of a host
_MAX_BYTES = 1 << 20
# A document with a script is a candidate if it has at most these numbers of words and links.
_RULES = (
    (40, 4),  # a shell
    (150, 2),  # a shell with a long text for browsers without scripts
)
# Elements whose content is not shown, without their end tags. Possessive, so that each is linear.
_UNREAD = [
    re.compile(rb"<%b[^<]*+(?:<(?!/%b)[^<]*+)*+" % (name, name))
    for name in (b"script", b"style", b"noscript", b"template")
]
_SOURCE = re.compile(rb"""<script\s[^<>]*?\bsrc\s*=\s*["']?([^"'\s<>?#]+)""")
_HREF = re.compile(rb"""<a\s[^<>]*?\bhref\s*=\s*["']?([^"'\s<>#]+)""")
# Where a script has led, too (chromium.py).
_REFRESH = re.compile(rb"""<meta http-equiv="refresh" content="0; url=([^"]+)""")
_TRACKING = re.compile(rb"[?&;](?:utm_\w+|gclid|fbclid|sid|sessionid)=[^&;]*")
_TAG = re.compile(rb"<[^<>]*+>")
_DIGITS = re.compile(rb"\d+")


class Outline(NamedTuple):
    """Numbers of words, distinct links and scripts. ``shape`` is a 32-bit hash, never 0."""

    words: int
    links: int
    scripts: int
    shape: int

    @property
    def is_candidate(self) -> bool:
        """Return whether the scripts may show more than there is."""
        return self.scripts > 0 and any(
            self.words <= words and self.links <= links for words, links in _RULES
        )

    def is_gain(self, rendered: Outline) -> bool:
        """Return whether *rendered* has substantially more words or links."""
        return rendered.words > 1.25 * self.words + 10 or rendered.links > 1.25 * self.links


def outline_of(html: bytes) -> Outline:
    """Return the outline of the first MiB of *html*. Takes 0.2 ms for 20 kB."""
    html = html[:_MAX_BYTES].lower()
    # Versions and hashes in the names of scripts may change from page to page.
    sources = [_DIGITS.sub(b"0", source) for source in _SOURCE.findall(html)]
    scripts = html.count(b"<script")
    for pattern in _UNREAD:
        html = pattern.sub(b" ", html)
    links = {_TRACKING.sub(b"", link) for link in (*_HREF.findall(html), *_REFRESH.findall(html))}
    words = len(_TAG.sub(b" ", html).split())
    shape = xxhash.xxh32_intdigest(b"\n".join(sorted(sources))) or 1
    return Outline(words, len(links), scripts, shape)


class Verdicts:
    """Verdicts, stored in the records of hosts.

    *records_of* returns the records that contain the host of a URL, and that host. *clock* returns
    epoch seconds.
    """

    def __init__(
        self, *, records_of: Callable[[str], tuple[HostRecords, str]], clock: TimeSource
    ) -> None:
        self._records_of = records_of
        self._clock = clock

    def find(self, url: str, shape: int) -> tuple[int, int]:
        """Return how many samples of *shape* the host of *url* has, and how many of them gained."""
        records, host = self._records_of(url)
        for verdict in records.get(host).rendered:
            if verdict.shape == shape and verdict.until > self._clock():
                return verdict.tried, verdict.gained
        return 0, 0

    def note(self, url: str, shape: int, *, gained: bool, samples: int = 1) -> None:
        """Count a page that was rendered, as that many *samples*."""
        records, host = self._records_of(url)
        record = records.get(host)
        now = self._clock()
        kept = [one for one in record.rendered if one.until > now]  # the oldest first
        mine = next((one for one in kept if one.shape == shape), None)
        if mine is None:
            mine = RenderVerdict(shape, now + _EXPIRE_SECS)
            kept = [*kept, mine][-_SHAPES:]
        mine.tried += samples
        mine.gained += gained
        record.rendered = kept
        records.put(record)
