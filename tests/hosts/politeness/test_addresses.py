"""Tests of address look-ups before a worker is used, with a real resolver and name server."""

import asyncio
import contextlib

import dns.message
import dns.rcode
from host_rig import Records
from loopback import name_server, zone
from patience import LIMIT_SECS
from resolving import asked
from text_tables import each

from webcrawl.hosts.politeness.addresses import HostAddresses
from webcrawl.hosts.records import HostRecord
from webcrawl.net.dns.resolver import DnsError, LookupFailedError, NameNotFoundError, Resolver
from webcrawl.net.guard import AddressGuard

ANSWER = zone(
    {
        "a.test": ["300 A 8.8.8.8"],
        "inside.test": ["300 A 10.0.0.1"],
        "both.test": ["300 A 192.168.0.1", "300 A 9.9.9.9"],
        "several.test": ["300 A 8.8.8.8", "300 A 10.0.0.1", "300 A 9.9.9.9", "300 A 1.1.1.1"],
    }
)


@contextlib.asynccontextmanager
async def addresses_by(clock, records=None, *, answer=ANSWER, allow_private=False):
    async with name_server(answer) as names:
        resolver = Resolver(servers=asked(names.address, timeout=2.0), cache_size=100, clock=clock)
        addresses = HostAddresses(
            resolver=resolver,
            guard=AddressGuard(allow_private=allow_private),
            records=records or Records(),
            clock=clock,
        )
        try:
            yield addresses, names
        finally:
            addresses.close()
            await resolver.close()


async def looked_up(addresses, host):
    answered = asyncio.get_running_loop().create_future()
    addresses.look_up(host, lambda *told: answered.set_result(told))
    has_addresses, error = await asyncio.wait_for(answered, LIMIT_SECS)
    found = addresses.known_addresses(host)
    assert error is None
    assert has_addresses is isinstance(found, list)
    return found


@each(
    "host found",
    ("a.test", ["8.8.8.8"]),
    ("inside.test", []),
    ("both.test", ["9.9.9.9"]),
    ("several.test", ["8.8.8.8", "9.9.9.9"]),
    ("10.1.1.1", []),
)
async def test_only_addresses_that_may_be_contacted_are_returned(clock, host, found):
    async with addresses_by(clock) as (addresses, _):
        assert await looked_up(addresses, host) == found


async def test_private_addresses_are_returned_where_they_are_allowed(clock):
    async with addresses_by(clock, allow_private=True) as (found, _):
        assert await looked_up(found, "inside.test") == ["10.0.0.1"]


async def test_an_unknown_host_must_be_looked_up_once(clock):
    async with addresses_by(clock) as (addresses, names):
        assert addresses.known_addresses("a.test") is None
        assert await looked_up(addresses, "a.test") == ["8.8.8.8"]
        assert addresses.known_addresses("a.test") == ["8.8.8.8"]
        assert names.asked == ["udp a.test. A"]


async def test_the_record_keeps_the_answer_over_a_restart_for_its_time(clock):
    records = Records()
    async with addresses_by(clock, records) as (addresses, _):
        await looked_up(addresses, "a.test")
    async with addresses_by(clock, records) as (addresses, names):
        clock.advance(299)
        assert addresses.known_addresses("a.test") == ["8.8.8.8"]
        clock.advance(2)
        assert addresses.known_addresses("a.test") is None
        assert names.asked == []


async def test_an_address_from_the_record_is_guarded_too(clock):
    records = Records()
    records.put(HostRecord("a.test", addresses=["127.0.0.1"], addresses_until=clock() + 60))

    async with addresses_by(clock, records) as (addresses, _):
        assert addresses.known_addresses("a.test") == []


def servfail(query):
    response = dns.message.make_response(query)
    response.set_rcode(dns.rcode.SERVFAIL)
    return response


@each("answer error", (zone({}), NameNotFoundError), (servfail, LookupFailedError))
async def test_a_name_without_address_is_not_a_server_failure(clock, answer, error):
    records = Records()
    async with addresses_by(clock, records, answer=answer) as (addresses, _):
        found = await looked_up(addresses, "a.test")
        assert isinstance(found, DnsError)
        assert isinstance(found, error)
        assert addresses.retry_in("a.test") > 0
        assert records.hosts == {}


async def test_an_answer_that_cannot_be_stored_is_an_error_for_the_caller(clock):
    class Damaged(Records):
        def put(self, record):
            raise OSError(5, "Input/output error")

    async with addresses_by(clock, Damaged()) as (addresses, _):
        told = asyncio.get_running_loop().create_future()
        addresses.look_up("a.test", lambda *answer: told.set_result(answer))
        _, error = await asyncio.wait_for(told, LIMIT_SECS)
        assert isinstance(error, OSError)


async def test_closing_cancels_look_ups_without_a_call(clock):
    told = []
    async with addresses_by(clock, answer=lambda query: None) as (addresses, _):
        addresses.look_up("a.test", lambda *answer: told.append(answer))
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert told == []
