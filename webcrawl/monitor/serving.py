"""Serves an aiohttp application to clients that may be slow, many, or hostile.

For the monitor, and for the server of the extension WebSub.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.http import HttpProcessingError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

#: Errors of reading a request: bad chunks, a bad content coding, a lost connection.
UNREADABLE = (HttpProcessingError, web.RequestPayloadError, OSError, ValueError)
#: The logger of aiohttp.
LOG = logging.getLogger("aiohttp.server")
# The head of a request must arrive within this time, and so must its body.
_READ_SECS = 10.0
# Limit of the connections that wait for one.
_MAX_WAITING = 128


class RequestTimeout:
    """Closes connections that do not send a complete request head within ``_READ_SECS``.

    If too many wait for one, it closes the one that has waited longest.
    """

    def __init__(self) -> None:
        self._timers: dict[web.RequestHandler, asyncio.TimerHandle] = {}

    def wait(self, connection: web.RequestHandler) -> None:
        """Start the timer for the next request on *connection*."""
        if len(self._timers) >= _MAX_WAITING:  # the longest waiting one makes room
            oldest = next(iter(self._timers))
            self._end(oldest)
            oldest.force_close()
        loop = asyncio.get_running_loop()
        self._timers[connection] = loop.call_later(_READ_SECS, self._close, connection)

    def _close(self, connection: web.RequestHandler) -> None:
        del self._timers[connection]
        connection.force_close()

    def _end(self, connection: web.RequestHandler) -> None:
        """Stop the timer: the head of a request has arrived."""
        timer = self._timers.pop(connection, None)
        if timer is not None:
            timer.cancel()

    @web.middleware
    async def manage(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Stop the connection's timeout while *handler* answers *request*."""
        self._end(request.protocol)
        try:
            return await handler(request)
        finally:
            self.wait(request.protocol)


async def read(request: web.Request) -> bytes:
    """Return the body of *request*. Raises an HTTPException if it cannot be read."""
    try:
        async with asyncio.timeout(_READ_SECS):
            return await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(text="The request took too long to arrive.\n") from None
    except UNREADABLE as error:
        LOG.warning("A request from %s could not be read", request.remote, exc_info=error)
        raise web.HTTPBadRequest(text="The request could not be read.\n") from None


class Server:
    """Server of *app*, whose connections *timeout* limits."""

    def __init__(self, app: web.Application, timeout: RequestTimeout) -> None:
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        self._timeout = timeout
        self._listening: asyncio.Server | None = None

    async def open(self, host: str, port: int) -> int:
        """Listen on *port*, or with 0 on any, and return it. Raises OSError or OverflowError."""
        await self._runner.setup()
        listen = asyncio.get_running_loop().create_server
        self._listening = await listen(self._make_connection, host, port)
        return int(self._listening.sockets[0].getsockname()[1])

    def _make_connection(self) -> asyncio.Protocol:
        assert self._runner.server is not None  # it is set up
        connection = self._runner.server()
        self._timeout.wait(connection)  # limits the time until its first request
        return connection

    async def close(self) -> None:
        """Stop listening, and close all connections."""
        if self._listening is not None:
            self._listening.close()
        await self._runner.cleanup()
