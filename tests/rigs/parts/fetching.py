"""Fetches with the download handler, for tests: one handler, one answer, one outcome."""

import asyncio
import contextlib

from loopback import head, name_server, raw_server, untrusted, zone
from patience import LIMIT_SECS
from scrapy import Request
from scrapy.utils.test import get_crawler

from webcrawl.net.dns.resolver import resolver_of
from webcrawl.net.http.handler import HttpDownloadHandler
from webcrawl.net.outcomes import outcome_of

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello"
ESTABLISHED = b"HTTP/1.1 200 Established\r\n\r\n"


@contextlib.asynccontextmanager
async def handler_with(handler_class=HttpDownloadHandler, **settings):
    defaults = {"DNS_SERVERS": "127.0.0.1:9", "ALLOW_PRIVATE_ADDRESSES": True}
    crawler = get_crawler(settings_dict=defaults | settings)
    handler = handler_class.from_crawler(crawler)
    try:
        yield handler
    finally:
        await handler.close()
        await resolver_of(crawler).close()


@contextlib.asynccontextmanager
async def served(talk, *, tls=None, address="127.0.0.1", **settings):
    """A server that does *talk*, and what gets a response from it, always with the same handler;
    the options are those of a Request."""
    async with (
        raw_server(talk, tls=tls, address=address) as server,
        handler_with(**settings) as handler,
    ):

        async def get(url=f"http{'s' * bool(tls)}://127.0.0.1:{server.port}/", **options):
            request = Request(url, **options)
            response = await handler.download_request(request)
            response.request = request
            return response

        yield server, get


@contextlib.asynccontextmanager
async def tunnelled(talk=OK, *, tls=None, proxy_tls=None, established=ESTABLISHED, **settings):
    """A server of TLS, a proxy whose tunnels all lead there, and what gets a response by it."""

    async def relay(source, sink):
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        sink.close()

    async def tunnel(raw, reader, writer):
        there = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(established)
        await asyncio.gather(relay(reader, there[1]), relay(there[0], writer))

    async with (
        raw_server(talk, tls=tls or untrusted("a.test")) as server,
        raw_server([head, tunnel], tls=proxy_tls) as proxy,
    ):
        via = f"http{'s' * bool(proxy_tls)}://127.0.0.1:{proxy.port}"
        async with handler_with(HTTP_PROXY=via, **settings) as handler:

            async def get(url="https://a.test/"):
                return await handler.download_request(Request(url, meta={"proxy": via}))

            yield server, proxy, get
        await proxy.left(0)


async def fetch(server, path="/", **options):
    """Fetch once with a handler of its own; *options* in capitals are settings, others meta."""
    return await fetch_url(f"http://{server.address}:{server.port}{path}", options)


async def fetch_url(url, options, handler_class=HttpDownloadHandler):
    """The same of any URL, and with any handler."""
    settings = {name: value for name, value in options.items() if name.isupper()}
    meta = {name: value for name, value in options.items() if name.islower()}
    async with handler_with(handler_class, **settings) as handler, asyncio.timeout(LIMIT_SECS):
        request = Request(url, meta=meta)
        response = await handler.download_request(request)
        response.request = request
        return response


async def outcome_by(handler, request):
    """How fetching *request* with *handler* ends, in one word."""
    request = Request(request) if isinstance(request, str) else request
    try:
        return outcome_of(await handler.download_request(request))
    except Exception as error:  # noqa: BLE001  the outcome is what is asked for
        return outcome_of(error)


async def outcome_at(talk, *, tls=None, host="127.0.0.1", address="127.0.0.1", **settings):
    """How the fetch of a page of *host* from a server at *address* that does *talk* ends."""
    async with (
        name_server(zone({host.rstrip("."): [f"300 A {address}"]})) as names,
        raw_server(talk, tls=tls, address=address) as server,
        handler_with(DNS_SERVERS=f"127.0.0.1:{names.port}", **settings) as handler,
    ):
        return await outcome_by(handler, f"http{'s' * bool(tls)}://{host}:{server.port}/")


def ending(talk, **options):
    """The response of a server that does *talk*, or the exception; its connection is closed."""

    async def scenario():
        async with raw_server(talk) as server:
            try:
                return await fetch(server, **options)
            except Exception as error:  # noqa: BLE001  any, for its outcome
                return error
            finally:
                await server.left(0)

    return asyncio.run(scenario())


def answer_to(says, **options):
    """What the handler makes of a server that says these bytes and hangs up."""
    found = ending([head, says], **options)
    if isinstance(found, Exception):
        raise found
    return found


def outcome_for(says, **options):
    return outcome_of(ending([head, says], **options))


def outcome_of_url(url, **options):
    async def scenario():
        request = Request(url, meta={"verbatim_url": True})
        async with handler_with(**options) as handler, asyncio.timeout(LIMIT_SECS):
            found = await outcome_by(handler, request)
        assert request.meta["download_seconds"] >= 0
        return found

    return asyncio.run(scenario())
