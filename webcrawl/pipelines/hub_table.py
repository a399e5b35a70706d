"""Table of the feeds of a crawl that name a hub, and of the subscriptions to them (WebSub).

The extension WebSub fills and uses it, see there for the life of a subscription. On disk: a JSON
object in each line, one for each subscription.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlencode

import msgspec

from webcrawl.clock import TimeSource
from webcrawl.configuration.decoding import Count, Epoch, json_lines_decoder
from webcrawl.items import Page
from webcrawl.randomness import random_hex
from webcrawl.storage.atomic import write_atomic
from webcrawl.urls import host_of
from webcrawl.urls.extraction.hubs import hub_of

_MAX_HUBS = 100
_MAX_FEEDS = 1000
_MAX_FEEDS_OF_HOST = 10
# A subscription is renewed after this share of its lease, but not sooner than after some minutes.
_RENEWED_AT = 0.8
_MIN_RENEWAL_SECS = 300.0
# A request is repeated after an hour, then after 8 times as long each time, and not after the last.
_REPEAT_SECS = 3600.0
_REPEAT_FACTOR = 8
_MAX_TRIES = 4
# The longest lease, and pause between requests: 30 days.
_MAX_SECS = 2_592_000.0
# Hubs may also sign with SHA-1, which is not enough.
_ALGORITHMS = ("sha256", "sha384", "sha512")


class Subscription(msgspec.Struct):
    """Subscription to the feed *url*, or *topic* as its publisher has written it, at *hub*.

    name, secret: known to the hub only; the name is the end of the address that the hub calls.
    depth: that of the page with the feed.
    news_since: when the feed was last pushed, or found, epoch seconds.
    lease_end: when the lease ends, epoch seconds; 0.0 if the hub has not verified the subscription.
    due_at: when to send the next request to the hub, epoch seconds.
    tries: requests since the hub has last verified one.
    """

    url: str
    topic: str
    hub: str
    name: str
    secret: str
    depth: Count
    news_since: Epoch
    lease_end: Epoch = 0.0
    due_at: Epoch = 0.0
    tries: Count = 0


_encode_lines = msgspec.json.Encoder().encode_lines
_decode = json_lines_decoder(Subscription)


class HubTable:
    """The subscriptions in the file *path*. Hubs call addresses below *url*.

    *count* increments the stat with the given name, *clock* returns epoch seconds. *is_excluded*
    says whether a feed is excluded from the crawl.
    """

    def __init__(
        self,
        path: Path,
        *,
        url: str,
        is_excluded: Callable[[str], object],
        count: Callable[[str], object],
        clock: TimeSource,
    ) -> None:
        self._path = path
        self._url = url
        self._is_excluded = is_excluded
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
        lines = _encode_lines([*self._by_name.values()])
        if lines != self._saved:
            write_atomic(self._path, lines, is_secret=True)
            self._saved = lines

    def note_page(self, page: Page) -> None:
        """Add *page* if it is a feed that names a hub.

        A subscription ends if its feed names another hub, or none.
        """
        hub, topic = hub_of(page.body, page.url, page.charset, page.headers)
        known = next((one for one in self._by_name.values() if one.url == page.url), None)
        if known is not None:
            if known.hub != hub:
                del self._by_name[known.name]
        elif hub and self._has_room(hub, host_of(page.url)):
            name = random_hex("hub name", 16)
            secret = random_hex("hub secret", 32)
            self._by_name[name] = Subscription(
                page.url, topic, hub, name, secret, page.depth, page.fetched_at
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

    def begin_requests(self) -> Iterator[Subscription]:
        """Yield the subscriptions for which a request is due, and count it as sent.

        Forgets those whose feed is excluded, and those whose hub does not answer.
        """
        at = self._clock()
        for one in [*self._by_name.values()]:
            if one.due_at > at:
                continue
            if self._is_excluded(one.url) or (one.tries >= _MAX_TRIES and one.lease_end <= at):
                del self._by_name[one.name]
                continue
            one.due_at = at + min(_REPEAT_SECS * _REPEAT_FACTOR**one.tries, _MAX_SECS)
            one.tries += 1
            yield one

    def form_of(self, name: str) -> bytes:
        """Return the form that asks the hub for the subscription *name*; b"" if it has ended."""
        one = self._by_name.get(name)
        if one is None:
            return b""
        form = {
            "hub.mode": "subscribe",
            "hub.topic": one.topic,
            "hub.callback": f"{self._url}/{name}",
            "hub.lease_seconds": 864_000,  # 10 days, as the standard suggests
            "hub.secret": one.secret,
        }
        return urlencode(form).encode()

    # --- what hubs say

    def is_confirmed(self, name: str, question: Mapping[str, str]) -> bool:
        """Return whether a hub may begin the subscription *name*, or end it; note that it does.

        *question* has the parameters of the hub's request.
        """
        one = self._by_name.get(name)
        if one is None or question.get("hub.topic") != one.topic:
            return False
        mode = question.get("hub.mode", "")
        # The lease of a denied subscription ends.
        lease = {"subscribe": question.get("hub.lease_seconds", ""), "denied": "0"}.get(mode, "")
        if not lease.isdecimal():
            return False
        secs = min(float(lease[:9]), _MAX_SECS)
        one.lease_end = self._clock() + secs
        pause = max(_RENEWED_AT * secs, _MIN_RENEWAL_SECS) if secs else _MAX_SECS
        one.due_at = self._clock() + pause
        one.tries = 0 if secs else _MAX_TRIES
        self._count(f"websub/{mode}")
        return True

    def is_active(self, name: str) -> bool:
        """Return whether a hub may push the feed of the subscription *name*."""
        one = self._by_name.get(name)
        if one is None or self._is_excluded(one.url):
            return False
        return one.lease_end > self._clock()

    def pushed_feed(self, name: str, body: bytes, signature: str) -> Page | None:
        """Return the feed *body* that was pushed, with ``stored_at`` of its last push.

        Returns None without a valid *signature*, in the form of X-Hub-Signature.
        """
        one = self._by_name[name]
        algorithm, _, digest = signature.partition("=")
        is_usable = algorithm in _ALGORITHMS and digest.isascii()
        if not is_usable or not hmac.compare_digest(
            hmac.new(one.secret.encode(), body, algorithm).hexdigest(), digest.lower()
        ):
            self._count("websub/forged")
            return None
        self._count("websub/pushed")
        last_push = one.news_since
        one.news_since = self._clock()
        return Page(
            url=one.url,
            status=200,
            headers=[],
            body=body,
            wire_body=body,
            fetched_at=one.news_since,
            depth=one.depth,
            stored_at=last_push,
        )
