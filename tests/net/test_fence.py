"""What must not be sent any more is not, however far its download has come."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from contacting import FtpTalk, fetch
from fetching import OK, served
from loopback import each_loop  # noqa: F401  runs every test twice

from webcrawl.net.guard import MAY_SEND


async def broken_off(download, *, after):
    """Await *download*, which may send so many times; whether it was broken off."""
    times = itertools.count(1)
    token = MAY_SEND.set(lambda: next(times) <= after)
    try:
        await download
    except asyncio.CancelledError:
        return True
    finally:
        MAY_SEND.reset(token)
    return False


@pytest.mark.parametrize(("after", "connections"), [(0, 0), (1, 1)])
async def test_a_request_is_not_sent_once_its_host_is_lost(after, connections):
    async with served(OK) as (server, get):
        assert await broken_off(get(), after=after)
        await asyncio.sleep(0.05)
        assert (server.heads, server.connections) == ([], connections)
        assert not await broken_off(get(), after=2)
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
