"""Web site of the monitor: the page, its commands, and the API.

    GET /, ?url=             the page, with an answer about a URL or a host
       ?range=, &drone=      with charts of the last hour or day, or all; of one drone
    GET /hosts?q=, &state=, &sort=, &offset=
                             all hosts of the crawl, filtered and sorted
    GET /help/, /help/NAME   the guides, and one of them
    GET /search?q=, &offset= the pages of the crawl with these words
    GET /copy?url=           the stored copy of a page
    GET /token               makes the browser ask for the token and remember it
    POST /commands/NAME      a form of the page: runs a command, then redirects to the page
    GET /api/state           JSON: the state of the crawl
    GET /api/search?q=, &offset=, &limit=
                             JSON: the pages of the crawl with these words
    POST /api/command        JSON: {"name": ..., "arguments": {...}, "reason": ...}

Requests are refused, without any effect, if they come from a page of another site (403), have a
wrong token (401), a wrong method (405) or media type (415), malformed content (400) or a body that
is too large (413).
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import msgspec
from aiohttp import web
from msgspec.structs import replace

from webcrawl.configuration.decoding import UndecodableError, json_decoder
from webcrawl.crawl.job.control_journal import Request
from webcrawl.errors import FatalError
from webcrawl.jobs.report.guides import guide_index, guide_names, guide_sections
from webcrawl.jobs.report.hosts_page import FILTERS, HOSTS_SHOWN, ORDERS
from webcrawl.jobs.report.page import HITS_SHOWN, page, render
from webcrawl.jobs.search import MAX_HITS, SearchResult
from webcrawl.monitor.access import Access
from webcrawl.monitor.serving import Handler, RequestTimeout, read
from webcrawl.monitor.watch import Watch, arguments_of

# Errors of reading a job, or of writing to a browser.
_FAILURES = (FatalError, OSError, sqlite3.Error)
_MAX_BODY_BYTES = 1 << 16
_decode = json_decoder(Request)
# Interval of the checks whether an update is due.
_CHECK_SECS = 1.0
# Limit of the pages in an answer of /api/search.
_MAX_API_HITS = 100
# Limit of the hosts that are skipped.
_MAX_OFFSET = 99_999_999
# Number of answers to commands that are kept until their pages have shown them.
_MAX_ANSWERS = 64
# The parts of the page that /api/state has, apart from the summary.
_STATE = ("title", "at", "head", "alarms", "compared", "processes")
_CHALLENGE = {"WWW-Authenticate": 'Basic realm="webcrawl", charset="UTF-8"'}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

# Headers of a stored page, which may be hostile.
_COPY_HEADERS = {
    "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; "
    "img-src data:",
    "Referrer-Policy": "no-referrer",
    "X-DNS-Prefetch-Control": "off",
}
# Frames are not loaded, but Chromium would already have connected to their server.
_FRAME_TAG = re.compile("<(?=i?frame)", re.IGNORECASE)


class Site:
    """Web site that answers the requests admitted by *access* with data from *watch*."""

    def __init__(self, watch: Watch, access: Access) -> None:
        self._watch = watch
        self._access = access
        #: Timeout for the head of a request; its body has the same timeout.
        self.timeout = RequestTimeout()
        self._answers: OrderedDict[str, str] = OrderedDict()  # to the last commands, oldest first
        self._commands = 0  # number of commands so far; the key of the last answer

    def app(self) -> web.Application:
        """Return the site as an aiohttp application."""
        app = web.Application(
            middlewares=[self.timeout.manage, self._check_access], client_max_size=_MAX_BODY_BYTES
        )
        app.on_response_prepare.append(_add_headers)
        app.cleanup_ctx.append(self._keep_fresh)
        app.add_routes(
            [
                web.get("/", self._page),
                web.get("/page.css", self._asset),
                web.get("/page.js", self._asset),
                web.get("/hosts", self._hosts),
                web.get("/help/{name:[^/]*}", self._guide),
                web.get("/search", self._search),
                web.get("/copy", self._copy),
                web.get("/token", self._token),
                web.post("/commands/{name}", self._command),
                web.get("/api/state", self._state),
                web.get("/api/search", self._api_search),
                web.post("/api/command", self._api_command),
            ]
        )
        return app

    async def _keep_fresh(self, _: web.Application) -> AsyncIterator[None]:
        """Update the page while the site is open, so that a reader finds a recent one."""
        updating = asyncio.ensure_future(self._update_page())
        yield
        updating.cancel()

    async def _update_page(self) -> None:
        while True:
            with suppress(*_FAILURES):  # a reader of the page will get the error
                await self._watch.page()
            await asyncio.sleep(_CHECK_SECS)

    @web.middleware
    async def _check_access(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let *handler* answer *request* if it is allowed and can be read."""
        access = self._access
        if not access.is_same_site(request):
            raise web.HTTPForbidden(text="Only the monitor's own pages may send requests here.\n")
        # The page that asks for the token needs its style.
        if not (request.path == "/page.css" or access.may_read(request)):
            handler = self._ask_for_token

        await read(request)
        try:
            return await handler(request)
        except _FAILURES as error:
            raise web.HTTPConflict(text=f"{error}\n") from error

    async def _page(self, request: web.Request) -> web.Response:
        """Return the page, with the answer to the question in the query."""
        may_change = self._access.has_token(request)
        query = request.query
        live = await self._watch.live_part(
            form=self._access.form if may_change else "",
            answer=self._answers.get(query.get("said", ""), ""),
            question=query.get("url", query.get("host", "")),  # host is an old name
            period=query.get("range", "day"),
            drone=query.get("drone", ""),
        )
        model = await self._watch.shown_page(live)
        answer = _html(await asyncio.to_thread(page, model))
        answer.enable_compression()
        return answer

    async def _hosts(self, request: web.Request) -> web.Response:
        """Return the page of all hosts that the query selects."""
        query = request.query
        hosts = await self._watch.hosts(
            words=query.get("q", "").strip(),
            state=query.get("state", ""),
            order=query.get("sort", ""),
            offset=_whole_number(request, "offset", default=0, limit=_MAX_OFFSET),
        )
        title = (await self._watch.page()).title
        values = {"states": FILTERS, "orders": ORDERS, "step": HOSTS_SHOWN}
        return _html(
            await asyncio.to_thread(render, "hosts.html", title=title, hosts=hosts, **values)
        )

    async def _guide(self, request: web.Request) -> web.Response:
        """Return the page of a guide that messages name, or the list of all guides."""
        name = request.match_info["name"]
        if name and name not in guide_names():
            raise web.HTTPNotFound(text="There is no such guide.\n")
        sections = guide_sections(name) if name else [guide_index()]
        return _html(render("guide.html", title="webcrawl", sections=sections))

    async def _search(self, request: web.Request) -> web.Response:
        """Return the page of a search; without words, only its form."""
        words = request.query.get("q", "").strip()
        offset = _whole_number(request, "offset", default=0, limit=MAX_HITS)
        result = None
        if words:
            try:
                result = await self._watch.search(words, limit=HITS_SHOWN, offset=offset)
            except FatalError as error:  # the page has a form to try other words
                result = SearchResult(0, [], [str(error)])
        title = (await self._watch.page()).title
        return _html(
            await asyncio.to_thread(
                render,
                "search.html",
                title=title,
                words=words,
                result=result,
                offset=offset,
                step=HITS_SHOWN,
            )
        )

    async def _copy(self, request: web.Request) -> web.Response:
        """Return the stored copy of a page, in which nothing can run or be loaded."""
        try:
            page = await self._watch.stored_copy(request.query.get("url", ""))
        except ValueError as error:  # the index or the stored page cannot be read
            raise web.HTTPConflict(text=f"{error}\n") from error
        if page is None:
            raise web.HTTPNotFound(text="There is no copy of this page that may be shown.\n")
        content_type = "text/plain" if page.content_type == "text/plain" else "text/html"
        text = _FRAME_TAG.sub("<x-", page.text)
        response = _html(text, headers=_COPY_HEADERS)
        response.content_type = content_type
        return response

    async def _asset(self, request: web.Request) -> web.Response:
        """Return the style sheet or the script of the page."""
        name = request.path[1:]
        content_type = "text/css" if name.endswith(".css") else "text/javascript"
        return web.Response(text=render(name), content_type=content_type)

    async def _token(self, request: web.Request) -> web.Response:
        """Make the browser ask for the token; then redirect to the commands of the page."""
        if not self._access.has_token(request):
            return await self._ask_for_token(request)
        raise web.HTTPSeeOther("./#commands")

    async def _ask_for_token(self, request: web.Request) -> web.Response:
        """Return the answer that makes a browser ask for the token.

        Its text is only shown if the user cancels.
        """
        if request.path.startswith("/api/"):
            return web.Response(
                text="This needs Authorization: Bearer TOKEN.\n", status=401, headers=_CHALLENGE
            )
        text = render("token.html", title=(await self._watch.page()).title)
        return _html(text, status=401, headers=_CHALLENGE)

    async def _command(self, request: web.Request) -> web.Response:
        """Run the command in a form of the page, and redirect to the page with the answer."""
        is_form = self._access.is_form_value(await _form_token(request))
        if not (is_form and self._access.has_token(request)):
            return await self._ask_for_token(request)

        name = request.match_info["name"]
        form = {key: str(value) for key, value in (await request.post()).items()}
        try:
            command = {
                "name": name,
                "arguments": arguments_of(name, form),
                "reason": form.get("why", ""),
                "origin": _origin(request),
            }
            answers = await self._watch.send(msgspec.convert(command, Request))
            # Only the processes of a hive have names.
            answer = "; ".join(
                f"{reply.drone}: {reply.said}".removeprefix(": ") for reply in answers
            )
        except (FatalError, msgspec.ValidationError) as error:
            answer = str(error)

        # The page shows the answer, which it finds by its key.
        self._commands += 1
        key = f"{self._commands}"
        self._answers[key] = answer
        if len(self._answers) > _MAX_ANSWERS:
            self._answers.popitem(last=False)
        raise web.HTTPSeeOther(f"../?{urlencode({'said': key})}#commands")

    async def _state(self, _: web.Request) -> web.Response:
        """Return the state of the crawl as JSON."""
        model = await self._watch.page()
        facts = {name: getattr(model, name) for name in _STATE}
        return _json(facts | {"summary": dict(model.summary)})

    async def _api_search(self, request: web.Request) -> web.Response:
        """Return the pages found as JSON."""
        offset = _whole_number(request, "offset", default=0, limit=MAX_HITS)
        limit = _whole_number(request, "limit", default=HITS_SHOWN, limit=_MAX_API_HITS)
        words = request.query.get("q", "").strip()
        if not words:
            raise web.HTTPBadRequest(text="Give the words to search for: /api/search?q=WORDS\n")
        return _json(await self._watch.search(words, limit=max(limit, 1), offset=offset))

    async def _api_command(self, request: web.Request) -> web.Response:
        """Run the command in the JSON body, and return the answers as JSON."""
        if not self._access.has_token(request):
            return await self._ask_for_token(request)
        if request.content_type != "application/json":
            raise web.HTTPUnsupportedMediaType(text="Content-Type must be application/json.\n")
        try:
            command = _decode(await request.read())
        except UndecodableError as error:
            raise web.HTTPBadRequest(text=f"Not a valid command: {error}\n") from error
        return _json(await self._watch.send(replace(command, origin=_origin(request))))


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)


async def _form_token(request: web.Request) -> str:
    """Return the hidden value in the form that *request* submits, or ""."""
    if request.content_type != "application/x-www-form-urlencoded":
        raise web.HTTPUnsupportedMediaType(
            text="This must be submitted from a form on the monitor's page.\n"
        )
    try:
        return str((await request.post()).get("token", ""))
    except (ValueError, LookupError) as error:  # because of bad bytes or an unknown encoding
        raise web.HTTPBadRequest(text=f"Not a valid form: {error}\n") from error


def _whole_number(request: web.Request, name: str, *, default: int, limit: int) -> int:
    """Return the number *name* in the query of *request*, from 0 to *limit*."""
    text = request.query.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 9 and int(text) <= limit):
        raise web.HTTPBadRequest(text=f"{name} must be a number from 0 to {limit}.\n")
    return int(text)


def _origin(request: web.Request) -> str:
    """Return the origin of a command for the journal."""
    return f"the monitor, from {request.remote}"


def _html(text: str, **options: Any) -> web.Response:
    return web.Response(
        body=text.encode("utf-8", "replace"), content_type="text/html", charset="utf-8", **options
    )


def _json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")
