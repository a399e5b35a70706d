"""Questions to name servers: how many at once, which server, and whom to believe."""

import asyncio
import socket
from functools import partial

import dns.message
import dns.rrset
import pytest
from loopback import (
    each_loop,  # noqa: F401  runs every test twice
    name_server,
    raw_server,
    respond,
    zone,
)
from resolving import asking, resolver_on

from webcrawl.clock import now
from webcrawl.net.dns import query as dnsquery
from webcrawl.net.dns.resolver import LookupFailedError, LookupTimeoutError

GOOD = zone({f"{name}.test": ["300 A 127.0.0.1"] for name in "abcdefgh"})
refuse = partial(respond, rcode="SERVFAIL")


def channels(resolver):
    return [*resolver.servers._channels.values()]


def silence(query):
    return None


async def test_only_so_many_questions_are_under_way_and_all_are_answered(monkeypatch):
    monkeypatch.setattr(dnsquery, "MAX_IN_PROGRESS", 20)
    held = []

    def answer(query):
        # Silent until as many are there as there may be, or the last have come.
        held.append(query)
        if len(held) < 20 and len(names.asked) < 110:
            return []
        most.append(len(resolver.servers.open))
        replies = [respond(one, "@ 300 A 127.0.0.1").to_wire() for one in held]
        held.clear()
        return replies

    most = []
    async with asking(answer) as (resolver, names):
        found = await asyncio.gather(*(resolver.resolve(f"{n}.x.test") for n in range(110)))
        assert found == [["127.0.0.1"]] * 110
        assert max(most) == 20
        assert not resolver.servers.open


async def test_thousands_of_questions_that_cannot_be_sent_fail_one_after_the_other():
    async with resolver_on(("255.255.255.255", 53)) as resolver:
        lookups = (resolver.resolve(f"{n}.test") for n in range(5000))
        results = await asyncio.gather(*lookups, return_exceptions=True)
        assert {type(result) for result in results} == {LookupFailedError}


async def test_closing_answers_the_questions_that_wait_for_their_turn(monkeypatch):
    monkeypatch.setattr(dnsquery, "MAX_IN_PROGRESS", 2)
    async with asking(silence) as (resolver, _):
        lookups = [asyncio.create_task(resolver.resolve(f"{n}.test")) for n in range(9)]
        await asyncio.sleep(0)
        await resolver.close()
        results = await asyncio.gather(*lookups, return_exceptions=True)
        assert {type(result) for result in results} == {LookupFailedError}
        assert all("closed" in str(result) for result in results)


async def test_a_server_that_fell_silent_is_tried_again_with_one_question():
    alive = False

    async with asking(lambda query: GOOD(query) if alive else None, GOOD, secs=0.4) as (
        resolver,
        first,
        second,
    ):
        for name in "abc":
            await resolver.resolve(f"{name}.test")
        assert (len(first.asked), len(second.asked)) == (1, 3)
        channel = channels(resolver)[0]
        assert channel.probe_at > now()
        channel.probe_at = 0.0
        await asyncio.gather(*(resolver.resolve(f"{name}.test") for name in "def"))
        assert (len(first.asked), len(second.asked)) == (2, 6)
        alive = True
        channel.probe_at = 0.0
        await resolver.resolve("g.test")
        await resolver.resolve("h.test")
        assert (len(first.asked), len(second.asked)) == (4, 6)


async def test_a_server_silent_about_one_name_is_not_left_for_a_dead_one():
    def mostly(query):
        return None if "gone" in str(query.question[0].name) else GOOD(query)

    async with asking(mostly, silence, secs=0.4, tries=2) as (resolver, _, dead):
        with pytest.raises(LookupTimeoutError):
            await resolver.resolve("gone.test")
        await asyncio.gather(*(resolver.resolve(f"{name}.test") for name in "ab"))
        dead.asked.clear()
        await asyncio.gather(*(resolver.resolve(f"{name}.test") for name in "cdefgh"))
        assert dead.asked == []


async def test_a_flood_of_answers_to_nothing_makes_it_ask_again_from_another_port(monkeypatch):
    monkeypatch.setattr(dnsquery, "_MAX_UNWANTED", 50)

    def answer(query):
        if len(names.asked) > 2:
            return GOOD(query)
        wire = respond(query).to_wire()
        return [bytes((wire[0] ^ 0x55, n)) + wire[2:] for n in range(25)]

    async with asking(answer, secs=0.4) as (resolver, names):
        lookups = asyncio.gather(resolver.resolve("a.test"), resolver.resolve("b.test"))
        await asyncio.sleep(0)
        port = channels(resolver)[0]._socket.getsockname()
        assert await lookups == [["127.0.0.1"]] * 2
        assert channels(resolver)[0]._socket.getsockname() != port
        assert len(names.asked) == 4
        counts = resolver.counts()
        assert (counts["queries"], counts["query_timeouts"]) == (4, 2)
        assert counts["unwanted_answers"] == 50


async def test_a_silent_server_is_spoken_to_through_another_socket_after_a_while(monkeypatch):
    monkeypatch.setattr(dnsquery, "_PROBE_EVERY", 0.0)

    def answer(query):
        ports.append(channels(resolver)[0]._socket.getsockname())
        return GOOD(query) if len(set(ports)) > 1 else None

    ports = []
    async with asking(answer, secs=0.2) as (resolver, _):
        assert await resolver.resolve("a.test") == ["127.0.0.1"]


async def test_a_socket_that_cannot_send_any_more_is_replaced():
    async with asking(GOOD, GOOD) as (resolver, one, two):
        await resolver.resolve("a.test")
        channels(resolver)[0]._socket.shutdown(socket.SHUT_WR)
        assert await resolver.resolve("b.test") == ["127.0.0.1"]
        assert await resolver.resolve("c.test") == ["127.0.0.1"]
        assert one.asked == ["udp a.test. A", "udp c.test. A"]
        assert two.asked == ["udp b.test. A"]


async def test_answers_from_anywhere_but_the_name_server_are_not_seen():
    def answer(query):
        there = channels(resolver)[0]._socket.getsockname()
        forged = respond(query, "@ 300 A 10.6.6.6").to_wire()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as elsewhere:
            elsewhere.sendto(forged, there)

    async with asking(answer, secs=0.1, tries=2) as (resolver, names):
        with pytest.raises(LookupTimeoutError):
            await resolver.resolve("a.test")
        assert len(names.asked) == 2
        assert resolver.counts()["unwanted_answers"] == 0


async def test_answers_of_a_name_server_that_was_not_asked_are_not_taken():
    queries = []
    is_asked = asyncio.Event()

    def hold(query):
        queries.append(query)
        is_asked.set()

    def forge(query):
        forged = [respond(queries[0], "@ 300 A 10.6.6.6").to_wire()]
        return [*forged, GOOD(query).to_wire()]

    async with (
        name_server(hold) as asked,
        name_server(forge) as other,
        resolver_on(asked.address, secs=60) as resolver,
    ):
        waiting = asyncio.create_task(resolver.resolve("a.test"))
        await is_asked.wait()
        resolver.servers.servers = lambda: (other.address,)
        assert await resolver.resolve("b.test") == ["127.0.0.1"]
        assert not waiting.done()
        assert resolver.counts()["unwanted_answers"] == 1
        await resolver.close()
        with pytest.raises(LookupFailedError):
            await waiting


async def test_addresses_that_nobody_asked_for_are_not_taken():
    def answer(query):
        extra = dns.rrset.from_text("bank.test.", 9999, "IN", "A", "10.6.6.6")
        response = GOOD(query)
        response.answer.append(extra)
        response.additional.append(extra)
        return response

    async with asking(answer) as (resolver, _):
        assert await resolver.resolve("a.test") == ["127.0.0.1"]
        assert resolver.cached_result("bank.test") is None


async def test_the_system_changes_its_name_servers_and_open_questions_go_to_the_new_ones():
    async with (
        name_server(silence) as old,
        name_server(GOOD) as new,
        resolver_on(old.address, secs=0.4) as resolver,
    ):
        waiting = asyncio.create_task(resolver.resolve("a.test"))
        await asyncio.sleep(0)
        resolver.servers.servers = lambda: (new.address,)
        assert await resolver.resolve("b.test") == ["127.0.0.1"]
        assert await waiting == ["127.0.0.1"]
        assert old.asked == ["udp a.test. A"]
        assert sorted(new.asked) == ["udp a.test. A", "udp b.test. A"]


async def test_only_so_many_connections_are_made_for_truncated_answers(monkeypatch):
    monkeypatch.setattr(dnsquery, "_MAX_OVER_TCP", 3)

    open_connection = asyncio.open_connection
    most = 0

    async def over_tcp(reader, writer):
        nonlocal most
        most = max(most, tcp.open)
        size = int.from_bytes(await reader.readexactly(2), "big")
        query = dns.message.from_wire(await reader.readexactly(size))
        reply = respond(query, "@ 300 A 127.0.0.1").to_wire()
        writer.write(len(reply).to_bytes(2, "big") + reply)
        await writer.drain()

    async with (
        raw_server(over_tcp) as tcp,
        asking(partial(respond, is_truncated=True)) as (resolver, _),
    ):
        monkeypatch.setattr(dnsquery.asyncio, "open_connection", lambda *_: open_connection(*there))
        there = (tcp.address, tcp.port)
        found = await asyncio.gather(*(resolver.resolve(f"{n}.test") for n in range(30)))
        assert found == [["127.0.0.1"]] * 30
        assert resolver.counts()["over_tcp"] == 30
    # The server may see that a connection has ended after the next one has begun.
    assert 1 < most <= 6


async def test_what_came_of_the_look_ups_is_counted():
    def answer(query):
        known = {"mute": silence, "broken": refuse, "text": respond}
        return known.get(str(query.question[0].name).partition(".")[0], GOOD)(query)

    async with asking(answer, secs=0.4, tries=2) as (resolver, _):
        hosts = ("a.test", "b.test", "text.test", "no.such.test", "broken.test", "mute.test")
        await asyncio.gather(*map(resolver.resolve, hosts), return_exceptions=True)
        counts = resolver.counts()
        # text.test was asked for its IPv6 addresses too.
        assert [counts[name] for name in ("found", "not_found", "no_address")] == [2, 1, 1]
        assert [counts[name] for name in ("failed", "timed_out")] == [1, 1]
        assert counts["queries"] == 7 + 1
