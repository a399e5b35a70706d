"""The resolver against real name servers on UDP and TCP."""

import asyncio
import gc
import random
import socket
from array import array
from functools import partial

import dns.message
import dns.rrset
import pytest
from loopback import (
    each_loop,  # noqa: F401  runs every test twice
    name_server,
    respond,
    zone,
)
from patience import LIMIT_SECS
from resolving import asked, asking, resolver_on
from scrapy.utils.test import get_crawler
from text_tables import cases, each

from webcrawl.errors import FatalError
from webcrawl.net.dns.resolver import (
    InvalidNameError,
    LookupFailedError,
    LookupTimeoutError,
    NameNotFoundError,
    NoAddressError,
    Resolver,
)
from webcrawl.net.dns.servers import SystemServers, server_address

GOOD = zone({
    "a.test": ["300 A 127.0.0.1", "300 A 127.0.0.2"],
    "six.test": ["300 AAAA ::1"],
    "both.test": ["300 A 127.0.0.1", "300 AAAA ::1"],
    "nothing.test": ["300 TXT text"],
    "www.test": ["300 CNAME a.test."],
    "www.test1": ["300 A 127.0.0.1"],
    "short.test": ["1 A 127.0.0.1"],
    "many.test": [f"300 A 127.0.{n // 200}.{n % 200}" for n in range(400)],
})  # fmt: skip
refuse = partial(respond, rcode="SERVFAIL")
reject = partial(respond, rcode="REFUSED")
truncate = partial(respond, is_truncated=True)


def silence(query):
    return None


def closed_port():
    """An address where nobody listens."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()


async def test_names_are_resolved_to_ipv6_only_where_there_is_no_ipv4():
    async with asking(GOOD) as (resolver, names):
        assert sorted(await resolver.resolve("a.test")) == ["127.0.0.1", "127.0.0.2"]
        assert sorted(await resolver.resolve("WWW.test.")) == ["127.0.0.1", "127.0.0.2"]
        assert await resolver.resolve("www.test1") == ["127.0.0.1"]
        assert await resolver.resolve("both.test") == ["127.0.0.1"]
        assert await resolver.resolve("six.test") == ["::1"]
        assert await resolver.resolve("six.test") == ["::1"]
        assert names.asked == [
            *("udp a.test. A", "udp www.test. A", "udp www.test1. A", "udp both.test. A"),
            *("udp six.test. A", "udp six.test. AAAA"),
        ]


@cases(
    "host addresses",
    """
        127.0.0.9      | ["127.0.0.9"]
        ::1            | ["::1"]
        [2001:DB8::1]  | ["2001:db8::1"]
        localhost      | ["127.0.0.1"]
        www.localhost. | ["127.0.0.1"]
        ""             | None
        a..test        | None
        xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx.test | None
        1.2.3          | None
        1.2.3.256      | None
        [::x]          | None
    """,
)
async def test_literals_and_what_can_be_no_name_are_known_without_a_query(host, addresses):
    async with resolver_on(closed_port()) as resolver:
        known = resolver.cached_result(host)
        if addresses is None:
            with pytest.raises(NameNotFoundError):
                await resolver.resolve(host)
            assert known is None or type(known) is InvalidNameError
        else:
            assert await resolver.resolve(host) == known == addresses
        assert resolver.ttl(host) > 24 * 3600 - 60
        assert resolver.counts()["queries"] == 0


# --- servers that fail


@each(
    "bad secs",
    (refuse, 60),
    (truncate, 60),
    (silence, 0.4),
    (closed_port(), 60),
    (("255.255.255.255", 53), 60),
)
async def test_a_server_that_fails_is_left_for_the_next_one(bad, secs):
    def fail(query):
        return None if names.asked[-1].startswith("tcp") else bad(query)

    async with name_server(fail) as names, name_server(GOOD) as good:
        first = names.address if callable(bad) else bad
        async with resolver_on(first, good.address, secs=secs) as resolver:
            assert len(await resolver.resolve("a.test")) == 2
            assert len(good.asked) == 1
            await resolver.resolve("www.test")
            if bad is silence:  # it is avoided
                assert (len(names.asked), resolver.counts()["query_timeouts"]) == (1, 1)


def wrong_id(query):
    response = GOOD(query)
    response.id ^= 1
    return response


def refuse_at_length(query):
    return refuse(query, *(f"@ 300 A 127.0.0.{n}" for n in range(99)))


def truncate_always(query):
    return truncate(query).to_wire()


def alias_without_end(query):
    return respond(query, "@ 300 CNAME x@")


@cases(
    "answer error why asked",
    """
        refuse            | LookupFailedError  | answered SERVFAIL | u
        reject            | LookupFailedError  | answered REFUSED  | u
        refuse_at_length  | LookupFailedError  | SERVFAIL          | ut
        truncate_always   | LookupFailedError  | over TCP, too     | ut
        silence           | LookupTimeoutError | a.test            | uuu
        wrong_id          | LookupTimeoutError | a.test            | uuu
        # for an address of either family
        alias_without_end | NoAddressError     | a.test            | uuuuuuuuuuuuuuuuuu
    """,
    globals(),
)
async def test_failure_by_every_server_names_the_reason(answer, error, why, asked):
    secs = 0.1 if error is LookupTimeoutError else 60
    async with asking(answer, secs=secs) as (resolver, names):
        with pytest.raises(error, match=why) as failed:
            await resolver.resolve("a.test")
        assert type(failed.value) is error
        assert "".join(question[0] for question in names.asked) == asked
    async with resolver_on(("255.255.255.255", 53)) as resolver:
        with pytest.raises(LookupFailedError, match="cannot send"):
            await resolver.resolve("a.test")


async def test_closed_ports_everywhere_are_a_failed_lookup():
    async with (
        resolver_on(closed_port(), secs=20 * LIMIT_SECS) as resolver,
        asyncio.timeout(LIMIT_SECS),
    ):
        for n in range(3):
            # The second is sent when the fate of the first is known to the socket.
            lookups = (resolver.resolve(f"{name}{n}.test") for name in "ab")
            for result in await asyncio.gather(*lookups, return_exceptions=True):
                assert isinstance(result, LookupFailedError)


async def test_two_open_questions_never_share_an_id():
    class Repeating(random.Random):
        def randbytes(self, n):
            return array("H", next(ids)).tobytes()

    ids = iter([[7, 7], [8, 7]])  # taken from behind
    async with asking(GOOD, rng=Repeating()) as (resolver, _):
        lookups = (resolver.resolve(name) for name in ("a.test", "short.test"))
        assert [len(found) for found in await asyncio.gather(*lookups)] == [2, 1]
    assert list(ids) == []


async def test_a_late_answer_to_the_first_query_still_counts():
    queries = []

    def answer(query):
        queries.append(query)
        # The answer to the first query is sent when the second arrives.
        return None if len(queries) == 1 else GOOD(queries[0])

    async with asking(answer, secs=0.3, tries=2) as (resolver, _):
        assert len(await resolver.resolve("a.test")) == 2


async def test_garbage_and_answers_to_other_questions_are_waited_over():
    def answer(query):
        other = dns.message.make_query("other.test", "A", id=query.id)
        answers = [query.to_wire()[:2] + b"garbage", respond(other), GOOD(query)]
        return answers[len(names.asked) - 1]

    async with asking(answer, secs=0.2) as (resolver, names):
        assert len(await resolver.resolve("a.test")) == 2
        assert len(names.asked) == 3


# --- TCP


async def test_a_truncated_answer_is_fetched_over_tcp():
    async with asking(GOOD) as (resolver, names):
        assert len(await resolver.resolve("many.test")) == 16
        assert names.asked == ["udp many.test. A", "tcp many.test. A"]
        assert resolver.counts()["over_tcp"] == 1


async def test_part_of_an_answer_will_do_where_there_is_no_tcp():
    def answer(query):
        if names.asked[-1].startswith("tcp"):
            return None
        return truncate(query, "@ 300 A 127.0.0.1", "@ 300 A 127.0.0.2").to_wire()

    async with asking(answer) as (resolver, names):
        assert len(await resolver.resolve("a.test")) == 2
        assert names.asked == ["udp a.test. A", "tcp a.test. A"]
        assert resolver.ttl("a.test") > 290


async def test_answers_that_come_twice_do_no_harm():
    def answer(query):
        if names.asked[-1].startswith("tcp"):
            return GOOD(query)
        answers = [truncate(query)] * 2
        if "a.test" in names.asked[-1]:
            answers += [GOOD(query)] * 2
        return [answer.to_wire() for answer in answers]

    async with asking(answer) as (resolver, names):
        # The whole answer overtakes the connection, which then has nobody to tell.
        assert len(await resolver.resolve("a.test")) == 2
        assert len(await resolver.resolve("many.test")) == 16
        assert names.asked.count("tcp many.test. A") == 1


async def test_an_alias_into_another_zone_is_followed_by_another_question():
    aliases = {"a.test.": "CNAME b.test.", "b.test.": "CNAME c.test.", "c.test.": "A 127.0.0.1"}

    def answer(query):
        return respond(query, f"@ 300 {aliases[str(query.question[0].name)]}")

    async with asking(answer) as (resolver, names):
        assert await resolver.resolve("a.test") == ["127.0.0.1"]
        assert [question.split()[1] for question in names.asked] == [*aliases]


async def test_many_waiters_share_one_lookup_and_a_cancelled_one_stops_nobody():
    go = asyncio.Event()
    replies = []

    def answer(query):
        replies.append(GOOD(query).to_wire())
        go.set()

    async with asking(answer) as (resolver, names):
        waiting = [asyncio.create_task(resolver.resolve("a.test")) for _ in range(50)]
        await go.wait()
        waiting[0].cancel()
        await asyncio.sleep(0)
        (channel,) = resolver.servers._channels.values()
        names._transport.sendto(replies[0], channel._socket.getsockname())
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(results[0], asyncio.CancelledError)
        assert [len(result) for result in results[1:]] == [2] * 49
        assert names.asked == ["udp a.test. A"]


# --- what is remembered


@cases(
    "host waits",
    """
        a.test     | ((0, 1), (299, 1), (1, 2), (299, 2))
        # for a minute at least
        short.test | ((0, 1), (59, 1), (1, 2))
    """,
)
async def test_answers_are_cached_until_their_time_has_come(clock, host, waits):
    async with asking(GOOD, clock=clock) as (resolver, names):
        for wait, queries in waits:
            clock.advance(wait)
            await resolver.resolve(host)
            assert len(names.asked) == queries
        assert resolver.counts()["cache_hits"] == len(waits) - queries


async def test_missing_names_and_failures_are_cached_too(clock):
    failing = {"a.test."}

    def answer(query):
        return (refuse if str(query.question[0].name) in failing else GOOD)(query)

    async with asking(answer, clock=clock) as (resolver, names):
        for _ in range(3):
            with pytest.raises(NameNotFoundError):
                await resolver.resolve("no.such.test")
            with pytest.raises(LookupFailedError):
                await resolver.resolve("a.test")
        assert len(names.asked) == 2
        failing.clear()
        clock.advance(30)
        assert len(await resolver.resolve("a.test")) == 2
        with pytest.raises(NameNotFoundError):
            await resolver.resolve("no.such.test")
        assert len(names.asked) == 3


async def test_closing_fails_those_who_wait_and_those_who_come():
    async with name_server(silence) as silent:
        resolver = Resolver(servers=asked(silent.address, timeout=60), cache_size=9)
        waiting = asyncio.create_task(resolver.resolve("a.test"))
        await asyncio.sleep(0)
        await resolver.close()
        for late in (waiting, resolver.resolve("a.test")):
            with pytest.raises(LookupFailedError, match="closed"):
                await late
        await resolver.close()
    gc.collect()


async def test_what_is_cached_can_be_asked_for_without_waiting(clock):
    async with asking(GOOD, clock=clock) as (resolver, names):
        # That six.test has no IPv4 address is known for a minute only.
        expected = {"a.test": 300, "www.test": 300, "six.test": 60, "both.test": 300}
        for host, ttl in expected.items():
            assert (resolver.cached_result(host), resolver.ttl(host)) == (None, 0)
            addresses = await resolver.resolve(host)
            assert resolver.cached_result(host) == addresses
            assert resolver.cached_result(host.upper() + ".") == addresses
            assert resolver.ttl(host) == ttl
        names.asked.clear()
        clock.advance(59.5)
        assert (resolver.ttl("a.test"), resolver.ttl("six.test")) == (240.5, 0.5)
        assert resolver.cached_result("six.test") == ["::1"]
        clock.advance(240.5)
        for host in ("a.test", "A.TEST", "www.test", "six.test"):
            assert (resolver.cached_result(host), resolver.ttl(host)) == (None, 0)
        assert names.asked == []
        assert resolver.counts()["checks"] == 4 * 3 + 1 + 4
        assert resolver.counts()["checks_unknown"] == 4 + 4
        assert resolver.counts()["lookups"] == 4


async def test_remembered_failures_are_told_apart_without_waiting_and_not_raised(clock):
    def answer(query):
        return (refuse if "broken" in str(query.question[0].name) else GOOD)(query)

    expected = {
        "no.such.test": (NameNotFoundError, 60),
        "nothing.test": (NoAddressError, 60),
        "broken.test": (LookupFailedError, 5),
        "x" * 64 + ".test": (InvalidNameError, 24 * 3600),
    }
    async with asking(answer, clock=clock) as (resolver, _):
        for host, (error, ttl) in expected.items():
            assert resolver.cached_result(host) is None
            with pytest.raises(error) as raised:
                await resolver.resolve(host)
            for spelling in (host, host.title()):
                known = resolver.cached_result(spelling)
                assert type(known) is error
                assert str(known).lower() == str(raised.value).lower()
            assert resolver.ttl(host) == ttl
        clock.advance(60)
        assert [resolver.cached_result(host) for host in list(expected)[:3]] == [None] * 3
        with pytest.raises(NameNotFoundError):
            await resolver.resolve("no.such.test")


@cases(
    "answers works",
    """
        host               | True
        host=found         | True
        host=SERVFAIL      | False
        test com           | True
        com                | True
        test=REFUSED       | True
        com=SERVFAIL       | True
        none               | False
    """,
)
async def test_name_servers_are_probed_whatever_is_cached(answers, works):
    """They work unless they do not answer, or deny even the top-level domains."""
    given = dict(f"{answer}=NOERROR".split("=")[:2] for answer in answers.split())

    def answer(query):
        name = str(query.question[0].name).rstrip(".")
        rcode = given.get("host" if "." in name else name, "NXDOMAIN")
        if rcode == "found":
            return respond(query, "@ 300 A 192.0.2.2")
        return respond(query, rcode=rcode)

    async with asking(answer) as (resolver, names):
        resolver.remember("a.test", ["192.0.2.1"], 60)
        found = asyncio.get_running_loop().create_future()
        resolver.probe("a.test", found.set_result)
        assert await found is works
        assert resolver.cached_result("a.test") == ["192.0.2.1"]
        resolver.forget()
        assert resolver.cached_result("a.test") is None
        # Home routers deny addresses of top-level domains.
        assert [asked for asked in names.asked if asked.count(".") < 2] == [
            asked for asked in names.asked if asked.endswith("SOA")
        ]


async def test_who_has_resolved_a_name_finds_it_cached_even_with_a_ttl_of_zero(clock):
    def answer(query):
        response = respond(query, rcode="NXDOMAIN")
        response.authority.append(
            dns.rrset.from_text("test.", 0, "IN", "SOA", "ns.test. admin.test. 1 1 1 1 0")
        )
        return response

    async with asking(answer, clock=clock) as (resolver, _):
        with pytest.raises(NameNotFoundError):
            await resolver.resolve("a.test")
        assert type(resolver.cached_result("a.test")) is NameNotFoundError
        assert resolver.ttl("a.test") == 30


async def test_addresses_of_an_earlier_run_are_remembered_without_a_query(clock):
    async with resolver_on(closed_port(), clock=clock) as resolver:
        resolver.remember("A.test.", ["10.0.0.1", "10.0.0.2"], 50)
        resolver.remember("six.test", ["2001:db8::1", "2001:db8::2"], 1e9)
        for host, addresses, ttl in (
            ("a.test", ["10.0.0.1", "10.0.0.2"], 50),
            ("six.test", ["2001:db8::1", "2001:db8::2"], 24 * 3600),
        ):
            assert resolver.cached_result(host) == await resolver.resolve(host) == addresses
            assert resolver.ttl(host) == ttl
        clock.advance(50)
        assert resolver.cached_result("a.test") is None
        assert resolver.counts()["remembered"] == 2
        assert resolver.counts()["queries"] == 0


async def test_an_earlier_run_knows_nothing_better_than_this_one(clock):
    async with asking(GOOD, clock=clock) as (resolver, _):
        addresses = await resolver.resolve("a.test")
        with pytest.raises(NameNotFoundError):
            await resolver.resolve("gone.test")
        for host in ("a.test", "gone.test", "127.0.0.1"):
            resolver.remember(host, ["10.0.0.1"], 500)
        assert resolver.cached_result("a.test") == addresses
        assert type(resolver.cached_result("gone.test")) is NameNotFoundError
        assert resolver.cached_result("127.0.0.1") == ["127.0.0.1"]
        clock.advance(300)
        resolver.remember("a.test", ["10.0.0.1"], 500)
        assert resolver.cached_result("a.test") == ["10.0.0.1"]


# --- settings


@cases(
    "text address",
    """
        127.0.0.1          | ("127.0.0.1", 53)
        " 127.0.0.1:5353 " | ("127.0.0.1", 5353)
        ::1                | ("::1", 53)
        [::1]              | ("::1", 53)
        [::1]:5353         | ("::1", 5353)
    """,
)
def test_name_servers_are_given_as_address_and_port(text, address):
    assert server_address(text) == address


@cases(
    "text",
    """
        ""
        dns.test
        1.2.3
        127.0.0.1:0
        127.0.0.1:x
        [::1
    """,
)
def test_what_is_no_name_server_is_refused_with_a_sentence(text):
    with pytest.raises(FatalError, match=r"^DNS_SERVERS must contain addresses .*\.$"):
        server_address(text)


def test_the_system_is_asked_for_its_name_servers_now_and_then(tmp_path, clock, monkeypatch):
    path = tmp_path / "resolv.conf"
    monkeypatch.setattr("webcrawl.net.dns.servers._RESOLV_CONF", path)
    system = SystemServers(clock=clock)
    assert system.current_servers() == (("127.0.0.1", 53),)
    path.write_text(
        "# nameserver 9.9.9.9\nsearch test\nnameserver 10.0.0.1\nnameserver ::1\n"
        "nameserver nonsense\nnameserver\n"
    )
    assert system.current_servers() == (("127.0.0.1", 53),)
    # Written anew, and no other; being written; gone.
    for text in (None, "nameserver 10.0.0.1\nnameserver ::1\n", "", "\xff nonsense"):
        if text is not None:
            path.write_text(text)
        clock.advance(5)
        assert system.current_servers() == (("10.0.0.1", 53), ("::1", 53))
    path.unlink()
    clock.advance(5)
    assert system.current_servers() == (("10.0.0.1", 53), ("::1", 53))
    path.write_text("nameserver fe80::1%lo\n")
    clock.advance(5)
    assert system.current_servers() == (("fe80::1%lo", 53),)


def test_the_system_is_asked_only_where_no_name_server_is_named():
    named = Resolver.from_crawler(get_crawler(settings_dict={"DNS_SERVERS": "127.0.0.1:5353,::1"}))
    assert named.servers.servers() == [("127.0.0.1", 5353), ("::1", 53)]
    left_open = Resolver.from_crawler(get_crawler())
    assert left_open.servers.servers() == SystemServers().current_servers()
