"""Table of the feeds of a crawl that name a hub, and of the subscriptions to them (WebSub).

The extension WebSub fills and uses it, see there for the life of a subscription. On disk: a JSON
object in each line, one for each subscription.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlencode

import msgspec

from webcrawl.clock import TimeSource
from webcrawl.configuration.decoding import json_lines_decoder
from webcrawl.items import Page
from webcrawl.randomness import random_hex
from webcrawl.storage.atomic import write_atomic
from webcrawl.urls import host_of, normalize
from webcrawl.urls.extraction.document import MarkupDocument
from webcrawl.urls.extraction.hubs import hub_of

_MAX_HUBS = 100
_MAX_FEEDS = 1000
_MAX_FEEDS_OF_HOST = 10
_MAX_URL_CHARS = 2000
# The lease to ask for, as the standard suggests.
_LEASE_SECS = 10 * 86_400
# A subscription is renewed after this share of its lease, but not sooner than after some minutes.
_RENEWED_AT = 0.8
_MIN_RENEWAL_SECS = 300.0
# A request is repeated after an hour, then after 8 times as long each time, and not after the last.
_FIRST_REPEAT_SECS = 3600.0
_REPEAT_FACTOR = 8
_MAX_TRIES = 4
_MAX_SECS = 30 * 86_400.0
# A feed may change again while the news of its last change is on its way.
_PUSH_DELAY_SECS = 3600.0
_SECONDS = re.compile("[0-9]{1,9}")
# Hubs may also sign with SHA-1, which is not enough.
_ALGORITHMS = frozenset({"sha256", "sha384", "sha512"})


class Subscription(msgspec.Struct):
    """Subscription to the feed *url*, as its publisher has written it, at *hub*.

    name, secret: known to the hub only; the name is the end of the address that the hub calls.
    target: where to send the next request: *hub*, or where it redirects to.
    depth, rank: those of the page with the feed.
    news_since: when the feed was last pushed, or found, epoch seconds.
    lease_end: when the lease ends, epoch seconds; 0.0 if the hub has not verified the subscription.
    due_at: when to send the next request to the hub, epoch seconds.
    tries: requests since the hub has last verified one.
    """

    url: str
    hub: str
    name: str
    secret: str
    target: str
    depth: int
    rank: int
    news_since: float
    lease_end: float = 0.0
    due_at: float = 0.0
    tries: int = 0


_decode = json_lines_decoder(Subscription)


class HubTable:
    """The subscriptions in the file *path*. Hubs call addresses below *url*.

    *count* increments the stat with the given name, *clock* returns epoch seconds.
    """

    def __init__(
        self, path: Path, *, url: str, count: Callable[[str], object], clock: TimeSource
    ) -> None:
        self._path = path
        self._url = url
        self._count = count
        self._clock = clock
        self._saved = b""
        self._by_name: dict[str, Subscription] = {}

    def open(self) -> None:
        """Read the file. Raises OSError, and UndecodableError for a damaged file."""
        if self._path.exists():
            self._by_name = {one.name: one for one in _decode(self._path.read_bytes())}

    def save(self) -> None:
        """Write the file if anything has changed. Raises OSError."""
        lines = b"".join(msgspec.json.encode(one) + b"\n" for one in self._by_name.values())
        if lines != self._saved:
            write_atomic(self._path, lines, is_secret=True)
            self._saved = lines

    def note_page(self, page: Page) -> None:
        """Add the feed *page* if it names a hub, and its own URL on the same host.

        A subscription ends if its feed names another hub, or none.
        """
        link_headers = [value for name, value in page.headers if name.lower() == b"link"]
        hub, written = hub_of(MarkupDocument(page.body, page.url, page.charset), link_headers)
        hub = normalize(hub, page.url) or "" if hub else ""
        own_url = normalize(written, page.url) or page.url
        # Hubs compare URLs letter by letter.
        url = written if "://" in written else own_url
        known = next((one for one in self._by_name.values() if one.url == url), None)
        host = host_of(page.url)
        if host_of(own_url) != host or len(url) > _MAX_URL_CHARS:
            return
        if known is not None and known.hub != hub:
            del self._by_name[known.name]
        elif known is None and hub and self._has_room(hub, host):
            name = random_hex("hub name", 16)
            secret = random_hex("hub secret", 32)
            self._by_name[name] = Subscription(
                url, hub, name, secret, hub, page.depth, page.rank, page.fetched_at
            )

    def _has_room(self, hub: str, host: str) -> bool:
        """Return whether there may be another subscription at *hub*, to a feed of *host*."""
        subscriptions = self._by_name.values()
        return (
            len({one.hub for one in subscriptions} | {hub}) <= _MAX_HUBS
            and len(subscriptions) < _MAX_FEEDS
            and sum(host_of(one.url) == host for one in subscriptions) < _MAX_FEEDS_OF_HOST
        )

    # --- requests to hubs

    def begin_requests(self, is_excluded: Callable[[str], object]) -> list[Subscription]:
        """Return the subscriptions for which a request is due, and count it as sent.

        Forgets those whose feed *is_excluded*, and those whose hub does not answer.
        """
        at = self._clock()
        due = [one for one in self._by_name.values() if one.due_at <= at]
        for one in due:
            if is_excluded(one.url) or (one.tries >= _MAX_TRIES and one.lease_end <= at):
                del self._by_name[one.name]
            one.due_at = at + min(_FIRST_REPEAT_SECS * _REPEAT_FACTOR**one.tries, _MAX_SECS)
            one.tries += 1
        return [one for one in due if one.name in self._by_name]

    def form_of(self, name: str) -> bytes:
        """Return the form that asks the hub for the subscription *name*; b"" if it has ended."""
        one = self._by_name.get(name)
        if one is None:
            return b""
        form = {
            "hub.mode": "subscribe",
            "hub.topic": one.url,
            "hub.callback": f"{self._url}/{name}",
            "hub.lease_seconds": _LEASE_SECS,
            "hub.secret": one.secret,
        }
        return urlencode(form).encode()

    def note_redirect(self, name: str, url: str) -> None:
        """Send the next request for the subscription *name* to *url*, and soon."""
        if name in self._by_name:
            self._by_name[name].target = url
            self._by_name[name].due_at = self._clock()

    # --- what hubs say

    def is_confirmed(self, name: str, question: Mapping[str, str]) -> bool:
        """Return whether a hub may begin the subscription *name*, or end it; note that it does.

        *question* has the parameters of the hub's request.
        """
        one = self._by_name.get(name)
        if one is None or question.get("hub.topic") != one.url:
            return False
        mode = question.get("hub.mode")
        lease = question.get("hub.lease_seconds", "")
        if mode == "subscribe" and _SECONDS.fullmatch(lease):
            secs = min(float(lease), _MAX_SECS)
            one.due_at = self._clock() + max(_RENEWED_AT * secs, _MIN_RENEWAL_SECS)
            one.tries = 0
            one.target = one.hub
        elif mode == "denied":
            secs = 0.0
            one.due_at = self._clock() + _MAX_SECS
            one.tries = _MAX_TRIES
        else:
            return False
        one.lease_end = self._clock() + secs
        self._count(f"websub/{mode}")
        return True

    def is_active(self, name: str) -> bool:
        """Return whether a hub may push the feed of the subscription *name*."""
        return name in self._by_name and self._by_name[name].lease_end > self._clock()

    def pushed_feed(self, name: str, body: bytes, signature: str) -> tuple[Page, float] | None:
        """Return the feed *body*, and since when its changes are news, in epoch seconds.

        Returns None without a valid *signature*, in the form of X-Hub-Signature.
        """
        one = self._by_name[name]
        algorithm, _, digest = signature.partition("=")
        if algorithm in _ALGORITHMS:
            expected = hmac.new(one.secret.encode(), body, algorithm).hexdigest()
            if hmac.compare_digest(expected.encode(), digest.lower().encode()):
                self._count("websub/pushed")
                since = one.news_since - _PUSH_DELAY_SECS
                one.news_since = self._clock()
                page = Page(
                    url=one.url,
                    status=200,
                    headers=[],
                    body=body,
                    wire_body=body,
                    fetched_at=one.news_since,
                    depth=one.depth,
                    rank=one.rank,
                )
                return page, since
        self._count("websub/forged")
        return None
