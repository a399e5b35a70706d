"""The name server, asked over UDP with a well-kept resolver library and with plain bytes."""

import asyncio
import contextlib
import time

import dns.flags
import dns.message
import dns.opcode
import dns.query
import dns.rcode
import dns.rdatatype
import pytest
from hypothesis import given
from hypothesis import strategies as st
from patience import LIMIT_SECS
from simweb_client import hosts_of
from text_tables import each

from webcrawl.simweb import Faults, World, start_in_process
from webcrawl.simweb.host_spec import Behaviour
from webcrawl.simweb.nameserver import reply, start_name_server

WORLD = World(
    hosts=200,
    http_port=0,
    https_share=0.0,
    addresses=2,
    faults=Faults(nxdomain=0.1, servfail=0.1, dns_timeout=0.1),
)


def host_that(behaviour):
    return next(hosts_of(WORLD, behaviour=behaviour))


@pytest.fixture(scope="module")
def port():
    with start_in_process(WORLD, log_path=None) as web:
        yield int(web.dns.partition(":")[2])


def ask(port, name, kind="A", *, timeout=LIMIT_SECS, **options):
    return dns.query.udp(
        dns.message.make_query(name, kind, **options), "127.0.0.1", timeout=timeout, port=port
    )


def test_each_name_resolves_to_the_address_of_its_host(port):
    for host in hosts_of(WORLD, behaviour=Behaviour.SOUND):
        answer = ask(port, host.name)
        assert answer.rcode() == dns.rcode.NOERROR
        assert answer.flags & dns.flags.AA
        assert [str(record) for record in answer.answer[0]] == [host.address]
        assert answer.answer[0].ttl == 300


def test_there_are_no_ipv6_addresses_but_the_name_exists(port):
    answer = ask(port, host_that(Behaviour.SOUND).name, "AAAA")
    assert answer.rcode() == dns.rcode.NOERROR
    assert not answer.answer
    assert answer.authority[0].rdtype == dns.rdatatype.SOA


@each("kind", "A", "AAAA")
def test_unknown_and_missing_names_do_not_exist(port, kind):
    for name in (
        *("site00200.sim.test", "nothing.sim.test", "a.site00001.sim.test"),
        host_that(Behaviour.NXDOMAIN).name,
    ):
        answer = ask(port, name, kind)
        assert answer.rcode() == dns.rcode.NXDOMAIN, name
        assert answer.authority[0].rdtype == dns.rdatatype.SOA


def test_some_names_fail_and_some_are_not_answered(port):
    assert ask(port, host_that(Behaviour.SERVFAIL).name).rcode() == dns.rcode.SERVFAIL
    with pytest.raises(dns.exception.Timeout):
        ask(port, host_that(Behaviour.DNS_TIMEOUT).name, timeout=0.2)


def test_what_is_no_plain_query_is_not_answered():
    query = dns.message.make_query("site00001.sim.test", "A")
    wire = query.to_wire()
    assert query.is_response(dns.message.from_wire(reply(WORLD.find, wire)))
    for length in range(len(wire)):
        assert reply(WORLD.find, wire[:length]) is None
    assert reply(WORLD.find, dns.message.make_response(query).to_wire()) is None
    query.set_opcode(dns.opcode.STATUS)
    assert reply(WORLD.find, query.to_wire()) is None


@given(st.binary(max_size=80))
def test_no_bytes_are_too_strange(data):
    answer = reply(WORLD.find, data)
    assert answer is None or answer[:2] == data[:2]


def test_answers_wait_for_the_latency_asked_for():
    async def measure():
        server = await start_name_server(WORLD, 0, latency=0.1)
        with contextlib.closing(server):
            begin = time.monotonic()
            await asyncio.to_thread(ask, server.get_extra_info("sockname")[1], "sim.test", "SOA")
            return time.monotonic() - begin

    assert asyncio.run(measure()) > 0.09
