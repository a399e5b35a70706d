"""Server for the hubs of subscriptions (WebSub): their questions, and the feeds that they push.

Every request is of a hub or an attacker, and comes through the operator's proxy. Refused are those
with another Host (403), or after too many (429); questions that do not fit (404); feeds of a
subscription that has ended (410), without a signature by SHA-256 or better (403), of more than 1 MB
(413), or while the crawl has no room or time for them (503).
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress

from aiohttp import web

from webcrawl.clock import now
from webcrawl.crawl.links.reading import ReadingTooLongError
from webcrawl.crawl.process import Process
from webcrawl.monitor.serving import Handler, RequestTimeout, read
from webcrawl.pipelines.hub_table import HubTable

_MAX_BODY_BYTES = 1_000_000
# Limit of the requests for a subscription in a minute, and of all others together.
_MAX_REQUESTS = 60
# After a feed was read, none is for so many times as long: reading takes a tenth of the time.
_PAUSE_FACTOR = 9


class CallbackSite:
    """Site at the *host* of WEBSUB_URL: answers hubs from *table*, and gives feeds to *process*."""

    def __init__(self, table: HubTable, host: str, process: Process) -> None:
        self._table = table
        self._host = host
        self._process = process
        self.timeout = RequestTimeout()
        # The requests of this minute by subscription; "" for all others.
        self._requests: Counter[str] = Counter()
        self._minute = 0.0
        # When the next feed may be read; infinity while one is being read.
        self._next_reading_at = 0.0

    def app(self) -> web.Application:
        """Return the site as an aiohttp application."""
        middlewares = [self.timeout.manage, self._check_access]
        app = web.Application(middlewares=middlewares, client_max_size=_MAX_BODY_BYTES)
        path = "/{prefix:(.*/)?}{name}"
        app.add_routes([web.get(path, self._confirm, allow_head=False), web.post(path, self._take)])
        return app

    @web.middleware
    async def _check_access(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let *handler* answer *request* if its Host is ours, unless there were too many."""
        if request.headers.get("Host", "").partition(":")[0].lower() != self._host:
            raise web.HTTPForbidden
        minute = now() // 60
        if minute != self._minute:
            self._minute = minute
            self._requests.clear()
        name = request.path.rpartition("/")[2]
        # Whoever does not know the name of a subscription is not told apart from others.
        key = name if self._table.form_of(name) else ""
        self._requests[key] += 1
        if self._requests[key] > _MAX_REQUESTS:
            raise web.HTTPTooManyRequests
        return await handler(request)

    async def _confirm(self, request: web.Request) -> web.Response:
        """Repeat the challenge of a hub if its question fits a subscription."""
        if not self._table.is_confirmed(request.match_info["name"], request.query):
            raise web.HTTPNotFound
        headers = {"X-Content-Type-Options": "nosniff"}
        return web.Response(text=request.query.get("hub.challenge"), headers=headers)

    async def _take(self, request: web.Request) -> web.Response:
        """Take a feed, and submit its links."""
        name = request.match_info["name"]
        if not self._table.is_active(name):
            raise web.HTTPGone
        if self._process.stop.is_ending or self._process.intake.is_full:
            raise web.HTTPServiceUnavailable
        body = await read(request)
        if now() < self._next_reading_at:
            raise web.HTTPServiceUnavailable
        feed = self._table.pushed_feed(name, body, request.headers.get("X-Hub-Signature", ""))
        if feed is None:
            raise web.HTTPForbidden
        began_at = now()
        self._next_reading_at = math.inf
        try:
            with suppress(ReadingTooLongError):
                await self._process.parts.leases.reader.read_pushed(feed)
        finally:
            self._next_reading_at = now() + _PAUSE_FACTOR * (now() - began_at)
        return web.Response(status=202)
