"""The addresses that hosts are connected to: permitted ones only, and the one that is bound."""

import asyncio
import contextlib
from types import SimpleNamespace

import pytest
from fetching import OK, handler_with, outcome_by, served
from loopback import each_loop, name_server, raw_server, untrusted, zone
from scrapy import Request
from scrapy.http import Response
from scrapy.utils.test import get_crawler
from text_tables import each

from webcrawl.crawl.lease.downloader import MercatorDownloader
from webcrawl.crawl.lease.fetch import Fetch
from webcrawl.frontier import Entry
from webcrawl.net.contact import open_streams
from webcrawl.net.dialer import Dialer
from webcrawl.net.guard import BOUND_ADDRESS, AddressGuard
from webcrawl.net.http.request import ADDED, NOTHING_ADDED, additions
from webcrawl.net.outcomes import ForbiddenAddressError, outcome_of

__all__ = ["each_loop"]

FIRST, SECOND = "127.0.0.1", "127.0.0.2"


@contextlib.contextmanager
def bound_to(address):
    token = BOUND_ADDRESS.set(address)
    try:
        yield
    finally:
        BOUND_ADDRESS.reset(token)


@each("scheme", "http", "https")
async def test_a_connection_to_another_address_of_the_host_is_not_used_again(scheme):
    tls = untrusted("a.test") if scheme == "https" else None
    async with (
        name_server(zone({"a.test": [f"300 A {FIRST}", f"300 A {SECOND}"]})) as names,
        raw_server(OK, tls=tls, address=FIRST) as first,
        raw_server(OK, tls=tls, address=SECOND, port=first.port) as second,
        handler_with(DNS_SERVERS=f"127.0.0.1:{names.port}") as handler,
    ):
        request = Request(f"{scheme}://a.test:{first.port}/")
        for address, connections in (
            (FIRST, (1, 0)),
            (SECOND, (1, 1)),
            (SECOND, (1, 1)),
            ("::ffff:127.0.0.2", (1, 1)),  # the same in another spelling
            (FIRST, (2, 1)),
            ("", (2, 1)),
        ):
            with bound_to(address):
                response = await handler.download_request(request)
            assert (first.connections, second.connections) == connections
        assert str(response.ip_address) == FIRST
        await second.left(0)


async def test_no_name_server_is_asked_for_the_address_that_is_bound():
    """Its answer may be another one than when the clock was claimed."""

    async with (
        name_server(zone({"a.test": [f"300 A {SECOND}"]})) as names,
        raw_server(OK) as server,
        handler_with(DNS_SERVERS=f"127.0.0.1:{names.port}") as handler,
    ):
        with bound_to(FIRST):
            await handler.download_request(Request(f"http://a.test:{server.port}/"))
            dialer = Dialer.from_crawler(handler.crawler, handler.limits)
            _, writer = await dialer.dial("a.test", server.port, open_streams)
        assert writer.get_extra_info("peername")[0] == FIRST
        writer.close()
        assert server.connections == 2
        assert names.asked == []


async def test_a_bound_address_is_judged_by_the_guard_all_the_same():
    async with raw_server(OK) as server, handler_with(ALLOW_PRIVATE_ADDRESSES=False) as handler:
        dialer = Dialer.from_crawler(handler.crawler, handler.limits)
        with bound_to(FIRST):
            with pytest.raises(ForbiddenAddressError):
                await handler.download_request(Request(f"http://a.test:{server.port}/"))
            with pytest.raises(ForbiddenAddressError):
                await dialer.dial("a.test", server.port, open_streams)
        assert server.connections == 0


async def test_a_proxy_is_connected_to_whatever_address_is_bound():
    async with served(OK) as (proxy, get):
        with bound_to("8.8.8.8"):
            for _ in range(2):
                await get("http://a.test/", meta={"proxy": f"http://localhost:{proxy.port}"})
        assert proxy.connections == 1


def _contacts(see, *contacts, added=NOTHING_ADDED):
    """What *see* returns while each of *contacts*, facts of a Fetch, is downloaded."""
    seen = []

    async def connect(request):
        seen.append(see())
        return Response(request.url)

    async def scenario():
        nothing = {"http": None, "https": None}
        crawler = get_crawler(settings_dict={"DOWNLOAD_HANDLERS": nothing})
        rates = SimpleNamespace(count_received=lambda _: None)
        rules = SimpleNamespace(hosts=SimpleNamespace(additions_for=lambda url: added), rates=rates)
        parts = SimpleNamespace(
            hooks=SimpleNamespace(fence=None), services=SimpleNamespace(rules=rules)
        )
        process = SimpleNamespace(parts=parts)
        crawler.engine = SimpleNamespace(scheduler=SimpleNamespace(process=process))
        downloader = MercatorDownloader(crawler)
        downloader.handlers = SimpleNamespace(download_request_async=connect)
        for facts in contacts:
            lease = SimpleNamespace(entry=Entry("http://a.test/", "a.test"))
            fetch = Fetch(lease=lease, task=None, release=lambda _: None, **facts)
            await downloader._download(fetch.bind(Request("http://a.test/")))

    asyncio.run(scenario())
    return seen


def test_the_downloader_hands_the_address_of_each_contact_down():
    """A download that a middleware of another begins is bound to none."""
    with bound_to("9.9.9.9"):
        seen = _contacts(BOUND_ADDRESS.get, {"address": "8.8.8.8"}, {})
    assert seen == ["8.8.8.8", ""]


def test_scripts_get_header_fields_only_if_no_page_of_another_site_waits_for_them():
    added = additions({"Authorization": "Bearer x"}, {}, "http://127.0.0.1:1")
    seen = _contacts(ADDED.get, {}, {"has_credentials": False}, added=added)
    assert [bool(one.headers) for one in seen] == [True, False]
    assert {one.proxy for one in seen} == {added.proxy}


# --- the guard, from the server's side


@each("scheme", "http", "https")
@each("address", "127.0.0.1", "::1")
async def test_a_host_that_is_a_forbidden_address_is_never_connected_to(scheme, address):
    async with (
        raw_server(OK, address=address) as server,
        handler_with(ALLOW_PRIVATE_ADDRESSES=False) as handler,
    ):
        host = f"[{address}]" if ":" in address else address
        hosts = [host, "localhost", "a.localhost"]
        if ":" not in address:
            hosts += ["0.0.0.0", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]"]
        for name in hosts:
            request = Request(f"{scheme}://{name}:{server.port}/")
            with pytest.raises(ForbiddenAddressError):
                await handler.download_request(request)
        assert server.connections == 0


@each("host", "127.1", "2130706433", "0x7f000001", "017700000001", "0")
async def test_other_spellings_of_loopback_lead_nowhere(host):
    async with raw_server(OK) as server, handler_with(ALLOW_PRIVATE_ADDRESSES=False) as handler:
        found = await outcome_by(handler, f"http://{host}:{server.port}/")
        assert found in ("bad_url", "dns_not_found", "dns_failed")
        assert server.connections == 0


async def test_a_name_that_leads_to_forbidden_addresses_is_never_connected_to():
    records = {
        "a.test": ["300 A 127.0.0.1"],
        "b.test": ["300 AAAA ::1"],
        "c.test": ["300 A 10.0.0.1", "300 A 169.254.169.254"],
        "d.test": ["300 AAAA ::ffff:127.0.0.1"],
        "e.test": ["300 CNAME a.test."],
    }
    async with (
        name_server(zone(records)) as names,
        raw_server(OK) as server,
        handler_with(
            DNS_SERVERS=f"127.0.0.1:{names.port}", ALLOW_PRIVATE_ADDRESSES=False
        ) as handler,
    ):
        for name in records:
            with pytest.raises(ForbiddenAddressError, match=name) as refused:
                await handler.download_request(Request(f"http://{name}:{server.port}/"))
            assert outcome_of(refused.value) == "address_forbidden"
        assert server.connections == 0


async def test_a_permitted_address_is_used_though_others_are_forbidden(monkeypatch):
    """Judged by a guard that permits 127.0.0.1 alone, since tests reach nothing else."""

    class OnlyOne(AddressGuard):
        def is_permitted(self, address):
            return address == "127.0.0.1"

    monkeypatch.setattr(AddressGuard, "from_settings", lambda _: OnlyOne(allow_private=False))
    records = {"a.test": [f"300 A 127.0.0.{n}" for n in (9, 8, 7, 1)]}
    async with (
        name_server(zone(records)) as names,
        raw_server(OK) as server,
        handler_with(DNS_SERVERS=f"127.0.0.1:{names.port}") as handler,
    ):
        for method in ("GET", "POST"):
            request = Request(f"http://a.test:{server.port}/", method=method)
            response = await handler.download_request(request)
            assert str(response.ip_address) == "127.0.0.1"


async def test_a_named_proxy_may_stand_anywhere_and_is_not_asked_for_forbidden_addresses():
    async with (
        raw_server(OK) as proxy,
        handler_with(
            ALLOW_PRIVATE_ADDRESSES=False, HTTP_PROXY=f"http://127.0.0.1:{proxy.port}"
        ) as handler,
    ):
        meta = {"proxy": f"http://127.0.0.1:{proxy.port}"}
        for host in ("a.test", "b.test"):
            response = await handler.download_request(Request(f"http://{host}/", meta=meta))
            assert response.body == b"hello"
        for host in ("127.0.0.1", "localhost", "[::1]", "127.1"):
            with pytest.raises(ForbiddenAddressError):
                await handler.download_request(Request(f"http://{host}/", meta=meta))
        assert len(proxy.heads) == 2
        # What is permitted for a proxy is for a proxy only.
        with pytest.raises(ForbiddenAddressError):
            await handler.download_request(Request(f"http://127.0.0.1:{proxy.port}/"))
