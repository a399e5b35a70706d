"""Reports the outcome of each URL: a count in the stats, a signal, a line in a log.

Called by completion.py for every URL, just before the frontier finishes it. So a finished URL has
its line, and one whose process died in between gets a second one.

``JOBDIR/logs/info.jsonl`` has one JSON object a line, in the order in which URLs were finished;
fields with their default value are left out::

    at         when, epoch seconds
    url        as it was fetched
    host       its politeness key: the host's name, unless POLITENESS_KEY says otherwise
    outcome    a name of the table in docs/reference/stats.md
    form       fingerprint of its form for comparing URLs (seen/fingerprint.py), 16 hex digits
    status     of the response
    sent       when its request was sent, epoch seconds
    took       seconds from then to the last byte
    bytes      of the body, as received
    decoded    bytes of it without its content coding, if it had one
    type       media type of the response, empty if it had none; left out if text/html
    truncated  what ended the body early: length (PAGE_MAX_BYTES), time, disconnect
    undecodable  true if its content coding is broken
    not_decoded  true if its content coding is unknown, or was named and not applied
    flags      soft_error if its page may be an error page
    content    fingerprint of the body if the content-seen test saw it, 16 hex digits
    duplicate  true if a document with the same bytes had been seen under another URL
    redirect   target of the redirect
    redirect_refused  why it is not followed: redirect_loop, too_many_redirects
    robots     the line of robots.txt that denies the URL
    tries      if it took more than one
    depth      links from a seed
    kind, via  how the URL was found, and on which page
    etag, modified  validators of a document as they were sent, if they have 128 bytes at most
    visit      what a repeat visit found: unchanged, changed, moved, gone, failed
    stored     on a repeat visit: when the last copy of its document was fetched; ``content``,
               ``duplicate`` and the validators are then those of that copy
    links, text  on a repeat visit: fingerprints of the document's links and text, 16 hex digits
    denied     on a repeat visit: since when robots.txt denies it, if it did at the visit before
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec

from webcrawl import signals
from webcrawl.clock import TimeSource, wall_time
from webcrawl.configuration.decoding import Count, Epoch, Seconds  # noqa: TC001  # msgspec reads them
from webcrawl.crawl.lease.page_builder import truncation
from webcrawl.net.content_type import content_type_of
from webcrawl.net.http.decoding import BROKEN, NOT_DECODED
from webcrawl.net.outcomes import OUTCOMES
from webcrawl.revisit.history import GONE, MOVED, History
from webcrawl.seen.fingerprint import fingerprint, hexadecimal

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

    from webcrawl.crawl.lease.fetch import Fetch
    from webcrawl.frontier import Entry
    from webcrawl.revisit.visit import Visit
    from webcrawl.storage.line_log import LineLog

#: Maximum size of a line. URLs are longer only if URL_MAX_LENGTH_BYTES is 0, or in ordinary
#: Requests.
MAX_LINE_BYTES = 1 << 16
#: Maximum length of the field ``url``.
MAX_URL = 1 << 14
#: Maximum length of the fields ``redirect`` and ``via``.
MAX_OTHER_URL = 1 << 11
#: The type of most responses.
HTML = "text/html"
_MAX_ROBOTS = 500
_MAX_TYPE = 100

INFO_LOG = "logs/info.jsonl"

#: Outcome of URLs that robots.txt denies.
DENIED = "robots_denied"
#: Outcome of parked URLs that are not wanted any more: control/table.py.
DROPPED = "dropped"
#: Every outcome of a URL except ``http_NNN``: those of a fetch, and those of URLs for which nothing
#: was sent, or whose request a middleware replaced.
NAMES = OUTCOMES | {
    DENIED,
    "robots_unreachable",
    "crawl_delay_too_long",
    "excluded",
    "host_failing",
    DROPPED,
    "replaced",
}
#: Outcomes of URLs that are given up: a replaced Request continues as another one.
GIVEN_UP = NAMES - {"replaced"}
_HTTP_ERROR = re.compile(r"http_[4-9]\d\d", re.ASCII)


def is_given_up(outcome: str) -> bool:
    """Return whether a URL with this outcome was given up, so that it can be retried."""
    return outcome in GIVEN_UP or bool(_HTTP_ERROR.fullmatch(outcome))


_Fingerprint: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{0,16}$")]


class OutcomeLine(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One line of the log; the fields are described above."""

    at: Epoch
    url: str
    host: str
    outcome: str
    form: str
    status: int = 0
    sent: Epoch = 0.0
    took: Seconds = 0.0
    bytes: Count = 0
    decoded: Count = 0
    type: str = HTML
    truncated: str = ""
    undecodable: bool = False
    content: _Fingerprint = ""
    duplicate: bool = False
    redirect: str = ""
    redirect_refused: str = ""
    robots: str = ""
    tries: Count = 1
    depth: Count = 0
    kind: str = ""
    via: str = ""
    etag: str = ""
    modified: str = ""
    visit: str = ""
    stored: Epoch = 0.0
    links: _Fingerprint = ""
    text: _Fingerprint = ""
    denied: Count = 0
    not_decoded: bool = False
    flags: str = ""

    @property
    def history(self) -> History:
        """Return what the line says about the document of its URL."""
        is_first = self.content and not self.visit
        stored_at = self.stored or (is_first and (self.sent or self.at)) or 0.0
        content, links, text = (
            int(one or "0", 16) for one in (self.content, self.links, self.text)
        )
        known = History(
            stored_at,
            content,
            self.duplicate,
            self.etag,
            self.modified,
            links,
            text,
            denied_at=int(self.denied or self.at) if self.outcome == DENIED else 0,
        )
        return known.without_document() if self.visit in (MOVED, GONE) else known


_encode = msgspec.json.Encoder().encode


@dataclasses.dataclass(kw_only=True, eq=False)
class OutcomeLog:
    """Counts, signals and logs outcomes. *comparison_form* is ``Equivalence``'s."""

    crawler: Crawler
    log: LineLog
    comparison_form: Callable[[str], str]
    clock: TimeSource = wall_time

    def open(self) -> None:
        """Continue the log. Raises OSError when it cannot be written."""
        self.log.open()
        self.crawler.signals.connect(self.sync, signal=signals.checkpoint)

    def finished(
        self,
        entry: Entry,
        outcome: str,
        visit: Visit,
        *,
        fetch: Fetch | None = None,
        robots: str = "",
    ) -> None:
        """Report *outcome* of *entry*, from *fetch* if something was requested. 10 us.

        Raises OSError when the disk is full: then nothing was counted, and the URL must not be
        finished.
        """
        self.log.append(self._line(entry, outcome, visit, fetch, robots))
        crawler = self.crawler
        is_first = visit.before is None
        crawler.stats.inc_value(f"outcome/{outcome}" if is_first else f"visits/{visit.change}")
        if signals.has_receivers(crawler.signals, signals.url_finished):
            crawler.signals.send_catch_log(
                signals.url_finished, url=entry.url, outcome=outcome, spider=crawler.spider
            )

    def _line(
        self, entry: Entry, outcome: str, visit: Visit, fetch: Fetch | None, robots: str
    ) -> bytes:
        return _encode(
            OutcomeLine(
                at=round(self.clock(), 3),
                url=entry.url[:MAX_URL],
                host=entry.host,
                outcome=outcome,
                form=hexadecimal(fingerprint(self.comparison_form(entry.url))),
                robots=robots[:_MAX_ROBOTS],
                tries=entry.attempts + 1,
                depth=entry.depth,
                kind=entry.kind,
                via=entry.via[:MAX_OTHER_URL],
                **_of_document(visit, outcome),
                **({} if fetch is None else _of_fetch(fetch)),
            )
        )

    async def sync(self) -> OSError | None:
        """Return when all lines are durable; return the error if they are not.

        Handler of ``checkpoint``. A checkpoint is about to mark these URLs as done.
        """
        try:
            await asyncio.to_thread(self.log.sync)
        except OSError as error:
            return error
        return None

    def close(self) -> None:
        """Close the log, which contains everything."""
        self.log.close()


def _of_document(visit: Visit, outcome: str) -> dict[str, Any]:
    """Return the fields about the document; at a first visit it is the one just fetched."""
    facts = visit.after.facts()
    if visit.before is None:
        return facts | {"stored": 0.0}
    denied = visit.after.denied_at * (outcome == DENIED)
    return facts | {"visit": visit.change, "denied": denied}


def _of_fetch(fetch: Fetch) -> dict[str, Any]:
    """Return the fields about the download and the page."""
    page, response = fetch.page, fetch.response
    facts = {
        "sent": fetch.sent_wall,
        "took": round(fetch.took, 3),
        "redirect": page.redirect_target[:MAX_OTHER_URL],
        "redirect_refused": page.redirect_refused,
        "flags": page.flags,
    }
    if response is not None:
        flags = response.flags
        facts["status"] = response.status
        facts["bytes"] = fetch.received_bytes
        if "wire_body" in response.meta:
            facts["decoded"] = len(response.body)
        kind, _ = content_type_of(dict.get(response.headers, b"Content-Type", ()))
        if kind != HTML:
            facts["type"] = kind[:_MAX_TYPE]
        facts["truncated"] = "length" if "body_cut" in flags else truncation(flags)
        facts["undecodable"] = BROKEN in flags
        facts["not_decoded"] = NOT_DECODED in flags
    return facts
