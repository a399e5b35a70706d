"""What must not be sent any more is not, however far its download has come."""

import asyncio
import contextlib
import itertools
import os
import socket
import struct
from pathlib import Path

import pytest
from contacting import FtpTalk, fetch, line, origin_of
from fetching import OK, handler_with, served
from loopback import (
    each_loop,  # noqa: F401  runs every test twice
    head,
    hold,
    raw_server,
    untrusted,
)
from patience import LIMIT_SECS
from scrapy import Request
from text_tables import cases

from webcrawl.net.fence import FENCE, Fence
from webcrawl.net.outcomes import FetchError

LEASE_SECS = 30.0


@contextlib.contextmanager
def fenced(is_open=lambda: True):
    """The fence of this context within."""
    fence = Fence(is_open, LEASE_SECS)
    token = FENCE.set(fence)
    try:
        yield fence
    finally:
        FENCE.reset(token)


async def broken_off(download, *, after):
    """Await *download*, which may send so many times; whether it was broken off."""
    times = itertools.count(1)
    with fenced(lambda: next(times) <= after):
        try:
            await download
        except asyncio.CancelledError:
            return True
    return False


@cases(
    "scheme after connections",
    """
        http  | 0 | 0
        http  | 1 | 1
        https | 0 | 0
        # The handshake ends with the request.
        https | 2 | 0
        # while the request is encrypted
        https | 3 | 0
    """,
)
async def test_a_request_is_not_sent_once_its_host_is_lost(scheme, after, connections):
    tls = untrusted("a.test") if scheme == "https" else None
    async with served(OK, tls=tls) as (server, get):
        assert await broken_off(get(), after=after)
        await asyncio.sleep(0.05)
        assert (server.heads, server.connections) == ([], connections)
        assert not await broken_off(get(), after=4)
        assert len(server.heads) == 1


async def test_a_connection_that_waits_is_no_way_around():
    async with served(OK) as (server, get):
        await get()
        assert await broken_off(get(), after=0)
        assert len(server.heads) == 1


async def test_a_talk_of_many_commands_ends_in_the_middle():
    talk = FtpTalk(data=b"hello")
    async with talk.served() as root:
        assert not await broken_off(fetch(f"{root}a"), after=99)
        whole = len(talk.commands)
        assert await broken_off(fetch(f"{root}a"), after=3)
        assert talk.commands[whole:] == ["USER anonymous", talk.commands[1]]


# --- what has left the process


@contextlib.asynccontextmanager
async def by_ftp():
    async with FtpTalk({"RETR": b""}).served() as root:
        yield lambda: fetch(f"{root}a")


@contextlib.asynccontextmanager
async def by_gopher():
    async with raw_server([line, hold]) as server:
        yield lambda: fetch(f"{origin_of(server)}/1a")


@contextlib.asynccontextmanager
async def by_http(scheme):
    tls = untrusted("a.test") if scheme == "https" else None
    async with served([head, hold], tls=tls) as (_, get):
        yield get


@contextlib.asynccontextmanager
async def by_proxy(scheme):
    says = [b"HTTP/1.1 200 Established\r\n\r\n"] if scheme == "https" else []
    async with raw_server([head, *says, hold]) as proxy:
        via = f"http://127.0.0.1:{proxy.port}"
        async with handler_with(HTTP_PROXY=via) as handler:
            request = Request(f"{scheme}://a.test/", meta={"proxy": via})
            yield lambda: handler.download_request(request)


def options_of_clients():
    """Of each connection that this process has made to a server of its own: its linger, and for how
    many milliseconds the kernel sends again."""
    found = []
    with contextlib.ExitStack() as ends:
        for link in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):  # the descriptor of this listing
                if str(link.readlink()).startswith("socket:"):
                    copy = socket.socket(fileno=os.dup(int(link.name)))
                    found.append(ends.enter_context(copy))
        found = [one for one in found if one.family == socket.AF_INET]
        listening = {
            one.getsockname()[1]
            for one in found
            if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        }
        return [options_of(one) for one in found if peer_port(one) in listening]


def options_of(sock):
    linger = struct.unpack("ii", sock.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8))
    return linger, sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)


def peer_port(sock):
    with contextlib.suppress(OSError):
        return sock.getpeername()[1]
    return 0


async def until(happened):
    async with asyncio.timeout(LIMIT_SECS):
        while not happened():  # noqa: ASYNC110  the system's word
            await asyncio.sleep(0.01)


@cases(
    "way scheme number",
    """
        by_http   | http  | 1
        by_http   | https | 1
        by_proxy  | http  | 1
        by_proxy  | https | 1
        by_ftp    |       | 2
        by_gopher |       | 1
    """,
    globals(),
)
async def test_the_kernel_sends_nothing_again_after_a_lease(way, scheme, number):
    reset_at_once, half_a_lease = (1, 0), 1000 * LEASE_SECS / 2
    async with way(*scheme.split()) as get:
        with fenced() as fence:
            download = asyncio.create_task(get())
            await until(lambda: options_of_clients() == [(reset_at_once, half_a_lease)] * number)
            fence.abort()
            with pytest.raises(FetchError):
                await download
            assert options_of_clients() == []


async def test_an_idle_connection_of_a_lost_host_is_reset_and_not_used_again():
    resets = []

    async def talk(reader, writer):
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(OK)
        except ConnectionResetError:
            resets.append(reader)
            raise

    async with served(talk) as (server, get):
        with fenced() as fence:
            await get()
            await get()
            assert server.connections == 1
            fence.abort()
            await until(lambda: resets)
            await get()
            assert server.connections == 2


async def test_a_handshake_of_tls_is_not_begun_once_its_host_is_lost():
    received, left = [], asyncio.Event()

    async def talk(reader, writer):
        with contextlib.suppress(ConnectionResetError):
            received.append(await reader.read(1))
        left.set()

    async with served(talk) as (server, get):
        times = itertools.count(1)
        with fenced(lambda: next(times) <= 1):  # the connection
            download = asyncio.create_task(get(f"https://127.0.0.1:{server.port}/"))
            await until(lambda: server.connections)
            await asyncio.sleep(0.05)
            download.cancel()  # as who notices the loss does
            await left.wait()
            assert received == []
