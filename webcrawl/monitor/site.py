"""Site of the monitor: the page, its commands, and the API.

    GET /, ?url=, ?host=     the page, and what it is asked
    GET /events              its first screen, again and again (Server-Sent Events)
    GET /token               makes the browser ask for the token, and keep it
    POST /commands/NAME      a form of the page: a command, then back to the page
    GET /api/state           JSON: how the crawl stands
    POST /api/command        JSON: {"name": ..., "arguments": {...}, "reason": ...}

Refused are, with 4xx and without any effect: other sites' requests and pages (403), wrong tokens
(401), methods (405), media types (415), shapes (400), sizes (413), and of an address without the
token more than can be for a person or a program that asks at ease (429).
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections import OrderedDict
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec
from aiohttp import web
from aiohttp.http import HttpProcessingError
from msgspec.structs import replace

from webcrawl.clock import wall_time
from webcrawl.configuration.decoding import UndecodableError, json_decoder
from webcrawl.crawl.job.control_journal import Request
from webcrawl.errors import FatalError
from webcrawl.jobs.report.page import ask_for_token, asset, first_screen, page
from webcrawl.monitor.access import Patience
from webcrawl.monitor.watch import arguments_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from webcrawl.monitor.access import Access
    from webcrawl.monitor.watch import Watch

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

# Of reading a job, or of writing to a page.
_FAILURES = (FatalError, OSError, sqlite3.Error)
# Of reading a request: chunks, a content coding, a connection that has gone.
UNREADABLE = (HttpProcessingError, web.RequestPayloadError, OSError, ValueError)
#: aiohttp's own, which process.py bounds.
LOG = logging.getLogger("aiohttp.server")
_MOST_BYTES = 1 << 16
_decode = json_decoder(Request)
_MOST_STREAMS = 32
_READ_SECS = 10.0
_LOOK_SECS = 1.0
# Answers to commands that pages may still ask for.
_MOST_SAID = 64
_ASKS = {"WWW-Authenticate": 'Basic realm="webcrawl", charset="UTF-8"'}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Site:
    """Site for *watch*, by *access*."""

    def __init__(self, watch: Watch, access: Access) -> None:
        self._watch = watch
        self._access = access
        #: That with connections; the body of a request has as long.
        self.patience = Patience(_READ_SECS)
        self._streams = 0
        self._said: OrderedDict[str, str] = OrderedDict()
        self._commands = 0

    def app(self) -> web.Application:
        """It as an application of aiohttp."""
        app = web.Application(middlewares=[self._timed, self._guarded], client_max_size=_MOST_BYTES)
        app.on_response_prepare.append(_with_headers)
        app.add_routes(
            [
                web.get("/", self._page),
                web.get("/page.css", self._asset),
                web.get("/page.js", self._asset),
                web.get("/events", self._events),
                web.get("/token", self._token),
                web.post("/commands/{name}", self._command),
                web.get("/api/state", self._state),
                web.post("/api/command", self._api_command),
            ]
        )
        return app

    @web.middleware
    async def _timed(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.patience.end(request.protocol)
        try:
            return await handler(request)
        finally:
            self.patience.wait(request.protocol)

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        access = self._access
        if not (access.has_token(request) or access.is_at_ease(request)):
            raise web.HTTPTooManyRequests(text="Too many requests at once: try again.\n")
        if not access.is_ours(request):
            raise web.HTTPForbidden(text="This is for the monitor's own pages and names.\n")
        if not (request.path == "/page.css" or access.may_look(request)):
            handler = self._asked
        try:
            async with asyncio.timeout(_READ_SECS):
                await request.read()
        except TimeoutError:
            raise web.HTTPRequestTimeout(text="The request did not come in time.\n") from None
        except UNREADABLE as error:
            LOG.warning("The request from %s cannot be read", request.remote, exc_info=error)
            raise web.HTTPBadRequest(text="The request cannot be read.\n") from None
        try:
            return await handler(request)
        except _FAILURES as error:
            raise web.HTTPConflict(text=f"{error}\n") from error

    async def _page(self, request: web.Request) -> web.Response:
        may_change = self._access.has_token(request)
        query = request.query
        live = await self._watch.live(
            form=self._access.form if may_change else "",
            said=self._said.get(query.get("said", ""), ""),
            url=query.get("url", ""),
            host=query.get("host", ""),
        )
        model = replace(await self._watch.page(), live=live)
        return _html(await asyncio.to_thread(page, model))

    async def _asset(self, request: web.Request) -> web.Response:
        name = request.path[1:]
        kind = "text/css" if name.endswith(".css") else "text/javascript"
        return web.Response(text=asset(name), content_type=kind)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        if self._streams >= _MOST_STREAMS:
            raise web.HTTPTooManyRequests(text="Too many pages are open.\n")
        model, at = await self._watch.page(), 0.0
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        self._streams += 1
        try:
            while True:
                if model.at != at:
                    at, screen = model.at, await asyncio.to_thread(first_screen, model)
                    lines = "".join(f"data: {line}\n" for line in screen.splitlines())
                    await response.write(
                        f"event: now\nid: {wall_time():.3f}\n{lines}\n".encode("utf-8", "replace")
                    )
                await asyncio.sleep(_LOOK_SECS)
                model = await self._watch.page()
        except _FAILURES:  # the page was closed, or the job cannot be read: it asks again
            return response
        finally:
            self._streams -= 1

    async def _token(self, request: web.Request) -> web.Response:
        if not self._access.has_token(request):
            return await self._asked(request)
        raise web.HTTPSeeOther("./#commands")

    async def _asked(self, request: web.Request) -> web.Response:
        """The answer that makes a browser ask for the token, and what it shows if there is none."""
        if request.path.startswith("/api/"):
            return web.Response(
                text="This needs Authorization: Bearer TOKEN.\n", status=401, headers=_ASKS
            )
        text = ask_for_token((await self._watch.page()).title)
        return _html(text, status=401, headers=_ASKS)

    async def _command(self, request: web.Request) -> web.Response:
        is_form = self._access.is_form(await _field(request, "token"))
        if not (is_form and self._access.has_token(request)):
            return await self._asked(request)
        name = request.match_info["name"]
        form = {key: str(value) for key, value in (await request.post()).items()}
        try:
            given = {"name": name, "arguments": arguments_of(name, form)}
            given |= {"reason": form.get("why", ""), "origin": _origin(request)}
            answers = await self._watch.send(msgspec.convert(given, Request))
            said = "; ".join(f"{one.drone}: {one.said}".removeprefix(": ") for one in answers)
        except (FatalError, msgspec.ValidationError) as error:
            said = str(error)
        self._commands += 1
        key = f"{self._commands}"
        self._said[key] = said
        if len(self._said) > _MOST_SAID:
            self._said.popitem(last=False)
        raise web.HTTPSeeOther(f"../?{urlencode({'said': key})}#commands")

    async def _state(self, _: web.Request) -> web.Response:
        model = await self._watch.page()
        shown = {
            "title": model.title,
            "at": model.at,
            "head": model.head,
            "alarms": model.alarms,
            "summary": dict(model.summary),
            "processes": model.processes,
        }
        return _json(shown)

    async def _api_command(self, request: web.Request) -> web.Response:
        if not self._access.has_token(request):
            return await self._asked(request)
        if request.content_type != "application/json":
            raise web.HTTPUnsupportedMediaType(text="This takes application/json.\n")
        try:
            given = _decode(await request.read())
        except UndecodableError as error:
            raise web.HTTPBadRequest(text=f"No command: {error}\n") from error
        return _json(await self._watch.send(replace(given, origin=_origin(request))))


async def _with_headers(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)


async def _field(request: web.Request, name: str) -> str:
    """The text of a form's field."""
    if request.content_type != "application/x-www-form-urlencoded":
        raise web.HTTPUnsupportedMediaType(text="This takes a form of the page.\n")
    try:
        return str((await request.post()).get(name, ""))
    except (ValueError, LookupError) as error:  # of bytes, of a name of an encoding
        raise web.HTTPBadRequest(text=f"No form: {error}\n") from error


def _origin(request: web.Request) -> str:
    return f"the monitor, from {request.remote}"


def _html(text: str, **more: Any) -> web.Response:
    return web.Response(
        body=text.encode("utf-8", "replace"), content_type="text/html", charset="utf-8", **more
    )


def _json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")
