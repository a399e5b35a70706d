"""Reports the outcome of each URL: a count in the stats, a signal, a line in a log.

Called by completion.py for every URL, just before the frontier finishes it. So every finished URL
has a line. If the process dies in between, the URL later gets a second one.

``JOBDIR/logs/info.jsonl`` has one JSON object per line, in the order in which URLs were finished.
Fields that have their default value are left out::

    at         when the URL was finished, epoch seconds
    url        the URL as it was fetched; *** stands for the user name and password of a Request
    host       its politeness key: the host's name, unless POLITENESS_KEY says otherwise
    outcome    a name from the table in docs/reference/stats.md
    form       fingerprint of the form in which URLs are compared (seen/fingerprint.py), 16 hex
               digits
    status     status code of the response
    sent       when the request was sent, epoch seconds
    took       seconds from then to the last byte
    bytes      size of the body, as received
    decoded    size of the decoded body, if it had a content coding
    type       media type of the response, empty if it had none; left out if text/html
    truncated  what ended the body early: length (PAGE_MAX_BYTES), time, disconnect
    undecodable  true if its content coding is broken
    not_decoded  true if its content coding is unknown, or was declared but not applied
    flags      soft_error if the page may be an error page
    rights     with CRAWL_PURPOSE: purpose and agent as sent, statements of the owner, and the one
               for which the page is left out (rights/statements.py)
    passes     number of passes in which the page was rendered
    unloaded   what the last pass did not get: at most twenty pairs of a URL and the reason
    content    fingerprint of the body if the content-seen test saw it, 16 hex digits
    duplicate  true if a document with the same bytes had been seen under another URL
    redirect   target of the redirect
    redirect_refused  why the redirect is not followed: redirect_loop, too_many_redirects
    robots     the line of robots.txt, or other statement, that denies the URL
    tries      number of tries, if there was more than one
    depth      number of links from a seed to the URL
    kind, via  how the URL was found, and on which page
    etag, modified  validators of the document as they were sent, if they have at most 128 bytes
    visit      what a repeat visit found: unchanged, changed, moved, gone, failed
    stored     on a repeat visit: when the last copy of the document was fetched; ``content``,
               ``duplicate`` and the validators then describe that copy
    links, text  on a repeat visit: fingerprints of the document's links and text, 16 hex digits
    denied     on a repeat visit: since when robots.txt has denied the URL, if it also did at the
               previous visit
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import msgspec
from scrapy.crawler import Crawler

from webcrawl import signals
from webcrawl.clock import TimeSource, wall_time
from webcrawl.configuration.decoding import Count, Epoch, Seconds  # msgspec reads them
from webcrawl.configuration.secrets import HIDDEN
from webcrawl.crawl.lease.fetch import Fetch
from webcrawl.crawl.lease.page_builder import truncation
from webcrawl.frontier import Entry
from webcrawl.net.content_type import content_type_of
from webcrawl.net.guard import PRIVATE_ADDRESS
from webcrawl.net.http.decoding import BROKEN, NOT_DECODED
from webcrawl.net.outcomes import OUTCOMES
from webcrawl.revisit.history import GONE, MOVED, History
from webcrawl.revisit.visit import Visit
from webcrawl.rights.policy import RIGHTS_REFUSED
from webcrawl.rights.statements import NO_RIGHTS, Rights
from webcrawl.seen.fingerprint import fingerprint, hexadecimal
from webcrawl.storage.line_log import LineLog

#: Maximum size of a line. URLs are longer only if URL_MAX_LENGTH_BYTES is 0, or in ordinary
#: Requests.
MAX_LINE_BYTES = 1 << 16
#: Maximum length of the field ``url``.
MAX_URL = 1 << 14
#: Maximum length of the fields ``redirect`` and ``via``.
MAX_OTHER_URL = 1 << 11
#: Maximum number of entries of the field ``unloaded``, and length of a URL in it.
MAX_UNLOADED = 20
MAX_UNLOADED_URL = 500
#: The type of most responses.
HTML = "text/html"
_MAX_ROBOTS = 500
# Only ordinary Requests have any. URLs in a query must stay as they are.
_USERINFO = re.compile(r"\A([^/?#]+://)[^/?#]*@")
_MAX_TYPE = 100

INFO_LOG = "logs/info.jsonl"

#: Outcome of URLs that robots.txt denies.
DENIED = "robots_denied"
#: Outcome of subresources whose host or domain is over a budget.
OVER_BUDGET = "over_budget"
#: Outcome of parked URLs that a user has dropped, see control/table.py.
DROPPED = "dropped"
#: Outcome of URLs whose stored pages ``scrapy purge`` has removed.
PURGED = "purged"
#: Every outcome of a URL except ``http_NNN``: those of fetches, those of URLs for which nothing was
#: sent, and that of a request replaced by a middleware.
NAMES = OUTCOMES | {
    DENIED,
    "robots_unreachable",
    "crawl_delay_too_long",
    RIGHTS_REFUSED,
    "excluded",
    "host_failing",
    OVER_BUDGET,
    PRIVATE_ADDRESS,
    DROPPED,
    PURGED,
    "replaced",
}
#: Outcomes of URLs that were given up, without those in `_WITH_ENDING`. A replaced Request was not
#: given up, because it continues as another one. A page that was purged had been fetched.
GIVEN_UP = NAMES - {"replaced", PURGED}
# Their endings are the categories of BLOCKLISTS, and status codes.
_WITH_ENDING = re.compile(r"excluded_\w+|http_[4-9]\d\d", re.ASCII)


def is_given_up(outcome: str) -> bool:
    """Return whether a URL with *outcome* was given up, so that a user can have it retried."""
    return outcome in GIVEN_UP or bool(_WITH_ENDING.fullmatch(outcome))


_Fingerprint = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{0,16}$")]


class OutcomeLine(msgspec.Struct, omit_defaults=True, gc=False):
    """One line of the log. The module's docstring describes the fields."""

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
    rights: Rights = NO_RIGHTS
    passes: Count = 0
    unloaded: list[tuple[str, str]] = []

    @property
    def history(self) -> History:
        """Return the history of the URL's document, as far as the line records it."""
        # The line of a first fetch leaves out ``stored``, which is the time of the request.
        is_first_copy = self.content and not self.visit
        stored_at = self.stored or (is_first_copy and (self.sent or self.at)) or 0.0
        content, links, text = (
            int(digits or "0", 16) for digits in (self.content, self.links, self.text)
        )
        # When the denial is first noticed, ``denied`` is left out: it began with this line.
        history = History(
            stored_at,
            content,
            self.duplicate,
            self.etag,
            self.modified,
            links,
            text,
            denied_at=int(self.denied or self.at) if self.outcome == DENIED else 0,
        )
        return history.without_document() if self.visit in (MOVED, GONE) else history


_encode = msgspec.json.Encoder().encode


@dataclass(kw_only=True, eq=False)
class OutcomeLog:
    """Counts and logs the outcomes of URLs, and sends a signal for each.

    *comparison_form* returns the form in which URLs are compared, see ``Equivalence``.
    """

    crawler: Crawler
    log: LineLog
    comparison_form: Callable[[str], str]
    clock: TimeSource = wall_time

    def open(self) -> None:
        """Open the log, to append to it. Raises OSError when it cannot be written."""
        self.log.open()
        self.crawler.signals.connect(self.sync, signal=signals.checkpoint)

    def report_finish(
        self,
        entry: Entry,
        outcome: str,
        visit: Visit,
        *,
        fetch: Fetch | None = None,
        robots: str = "",
    ) -> None:
        """Report *outcome* of the page of *entry*. Takes 10 us. For the arguments see ``write``.

        Raises OSError when the disk is full: then nothing was counted, and the URL must not be
        finished.
        """
        self.write(entry, outcome, visit, fetch=fetch, robots=robots)
        crawler = self.crawler
        # Repeat visits have counts of their own, so that each URL has one outcome.
        is_first = visit.before is None
        crawler.stats.inc_value(f"outcome/{outcome}" if is_first else f"visits/{visit.change}")
        if signals.has_receivers(crawler.signals, signals.url_finished):
            crawler.signals.send_catch_log(
                signals.url_finished, url=entry.url, outcome=outcome, spider=crawler.spider
            )

    def write(
        self,
        entry: Entry,
        outcome: str,
        visit: Visit,
        *,
        fetch: Fetch | None = None,
        robots: str = "",
    ) -> None:
        """Write the line of *entry*, which ended with *outcome*.

        *fetch* is the contact, if something was requested; *robots* the line of robots.txt that
        denied the URL. Raises OSError when the disk is full.
        """
        line = OutcomeLine(
            at=round(self.clock(), 3),
            url=_mask(entry.url)[:MAX_URL],
            host=entry.host,
            outcome=outcome,
            form=hexadecimal(fingerprint(self.comparison_form(entry.url))),
            robots=robots[:_MAX_ROBOTS],
            tries=entry.attempts + 1,
            depth=entry.depth,
            kind=entry.kind,
            via=_mask(entry.via)[:MAX_OTHER_URL],
        )
        _add_document(line, visit)
        if fetch is not None:
            _add_fetch(line, fetch)
        self.log.append(_encode(line))

    async def sync(self) -> OSError | None:
        """Wait until all lines are on disk; return the error if they cannot be written.

        Handler of the signal ``checkpoint``: the checkpoint is about to mark these URLs as done.
        """
        try:
            await asyncio.to_thread(self.log.sync)
        except OSError as error:
            return error
        return None

    def close(self) -> None:
        """Close the log. All lines are in it already."""
        self.log.close()


def _mask(url: str) -> str:
    """Return *url* with its user name and password hidden."""
    return _USERINFO.sub(rf"\1{HIDDEN}@", url) if "@" in url else url  # the test takes less time


def _add_document(line: OutcomeLine, visit: Visit) -> None:
    """Add the fields that describe the document after *visit* to *line*."""
    after = visit.after
    line.content = _optional_hexadecimal(after.content)
    line.duplicate = after.is_duplicate
    line.etag = after.etag
    line.modified = after.modified
    line.links = _optional_hexadecimal(after.links)
    line.text = _optional_hexadecimal(after.text)
    if visit.before is not None:  # at a first fetch, ``sent`` is the time of the copy
        line.stored = after.stored_at
        line.visit = visit.change
        line.denied = after.denied_at if line.outcome == DENIED else 0


def _optional_hexadecimal(number: int) -> str:
    """Return the fingerprint *number* in hexadecimal, or "" if it is 0."""
    return hexadecimal(number) if number else ""


def _add_fetch(line: OutcomeLine, fetch: Fetch) -> None:
    """Add the fields that describe the download of *fetch* and its page to *line*."""
    page = fetch.page
    response = fetch.response
    line.sent = fetch.sent_wall
    line.took = round(fetch.took, 3)
    line.redirect = page.redirect_target[:MAX_OTHER_URL]
    line.redirect_refused = page.redirect_refused
    line.flags = page.flags
    line.rights = page.rights
    if fetch.stored is not None:
        line.passes = fetch.stored.passes
        line.unloaded = [
            (url[:MAX_UNLOADED_URL], reason) for url, reason in fetch.stored.refusals[:MAX_UNLOADED]
        ]

    if response is not None:
        flags = response.flags
        line.status = response.status
        line.bytes = fetch.received_bytes
        if "wire_body" in response.meta:
            line.decoded = len(response.body)
        media_type, _ = content_type_of(dict.get(response.headers, b"Content-Type", ()))
        if media_type != HTML:
            line.type = media_type[:_MAX_TYPE]
        line.truncated = "length" if "body_cut" in flags else truncation(flags)
        line.undecodable = BROKEN in flags
        line.not_decoded = NOT_DECODED in flags
