"""Fetches through a proxy: what it is asked for, its failures, and TLS behind it."""

import pytest
import trustme
from fetching import ESTABLISHED, OK, handler_with, served, tunnelled
from loopback import (
    each_loop,  # noqa: F401  runs every test twice
    head,
    hold,
    raw_server,
    untrusted,
)
from scrapy import Request
from text_tables import cases, each

from webcrawl.net.outcomes import FetchError, outcome_of


async def failure_of(handler, url, proxy, **headers):
    request = Request(url, meta={"proxy": proxy}, headers=headers)
    with pytest.raises(Exception) as failed:  # noqa: PT011  any, for its outcome
        await handler.download_request(request)
    assert str(failed.value).startswith(url)
    return outcome_of(failed.value)


async def test_a_proxy_is_asked_in_the_place_of_the_host():
    async with served(OK) as (proxy, get):
        response = await get(
            "http://a.test/x",
            headers={"Proxy-Authorization": "Basic dXNlcjpwYXNz"},
            meta={"proxy": f"127.0.0.1:{proxy.port}"},
        )
        assert (response.body, str(response.ip_address)) == (b"hello", "127.0.0.1")
        assert response.meta["wire_address"] == ""  # the proxy's is not the host's
        assert proxy.heads == [
            (
                b"GET http://a.test/x HTTP/1.1\r\nHost: a.test\r\n"
                b"Proxy-Authorization: Basic dXNlcjpwYXNz\r\n\r\n"
            )
        ]


async def test_a_body_is_sent_to_the_proxy_behind_its_header():
    async def read(raw, reader, writer):
        assert await reader.readexactly(4) == b"q=42"

    async with served([head, read, OK]) as (proxy, get):
        meta = {"proxy": f"http://u:p@127.0.0.1:{proxy.port}"}
        response = await get("http://a.test/", method="POST", body=b"q=42", meta=meta)
        assert response.body == b"hello"
        assert proxy.heads[0] == (
            b"POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\n"
            b"Proxy-Authorization: Basic dTpw\r\nContent-Length: 4\r\n\r\n"
        )


async def test_a_connection_to_a_proxy_is_used_again_for_its_own_host_only():
    """Nor with other credentials, nor without the proxy."""

    async with served(OK) as (proxy, get):
        port = proxy.port
        for host, via, connections in (
            ("a.test", f"127.0.0.1:{port}", 1),
            ("a.test", f"http://127.0.0.1:{port}/", 1),
            ("b.test", f"127.0.0.1:{port}", 2),
            ("a.test", f"u:p@127.0.0.1:{port}", 3),
            ("a.test", f"127.0.0.1:{port}", 3),
        ):
            await get(f"http://{host}/", meta={"proxy": via})
            assert proxy.connections == connections


@each("answer", ESTABLISHED, b"HTTP/1.1 200 OK\r\nbroken line\r\n\r\n")
async def test_a_tunnel_is_kept_unless_the_proxy_s_answer_was_mended(answer):
    async with tunnelled(established=answer) as (_, proxy, get):
        for _ in range(2):
            assert (await get()).body == b"hello"
        assert proxy.connections == (1 if answer is ESTABLISHED else 2)


async def test_a_connection_to_a_proxy_whose_answer_was_mended_is_not_kept():
    async with served(OK.replace(b"\r\n", b"\r\nbroken line\r\n", 1)) as (proxy, get):
        for connections in (1, 2):
            response = await get("http://a.test/", meta={"proxy": f"127.0.0.1:{proxy.port}"})
            assert (response.body, proxy.connections) == (b"hello", connections)


async def test_a_tunnel_carries_a_fetch_with_bounds_of_its_own():
    """The bounds on the proxy's answer end with it; those of the host begin anew."""

    page = [head, b"HTTP/1.1 200 OK\r\nContent-Length: 600\r\n\r\n", *[0.2, b"x" * 100] * 6]
    settings = {
        "ALLOW_PRIVATE_ADDRESSES": False,
        "NET_FIRST_BYTE_TIMEOUT_SECS": 0.7,
        "NET_MIN_BYTES_PER_SEC": 100,
        "NET_MIN_RATE_SECS": 0.7,
    }
    async with tunnelled(page, **settings) as (server, proxy, get):
        response = await get()
        assert (response.body, response.flags) == (b"x" * 600, [])
        assert response.certificate.startswith(b"\x30\x82")
        assert server.heads == [b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"]
        assert proxy.heads == [b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n"]


async def test_a_tunnel_is_used_again_like_any_connection():
    async with tunnelled() as (server, proxy, get):
        for url, connections in (("a.test/1", 1), ("a.test/2", 1), ("b.test/", 2)):
            assert (await get(f"https://{url}")).body == b"hello"
            assert (proxy.connections, server.connections) == (connections, connections)


@cases(
    "host authority outcome",
    """
        a.test | True  | http_200
        a.test | False | tls_failed
        b.test | True  | tls_failed
    """,
)
async def test_certificates_are_verified_in_a_tunnel(
    monkeypatch, tmp_path, host, authority, outcome
):
    known, other = trustme.CA(), trustme.CA()
    (known if authority else other).cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    tls = untrusted("a.test", authority=known)
    async with tunnelled(tls=tls, DOWNLOAD_VERIFY_CERTIFICATES=True) as (_, _, get):
        try:
            found = await get(f"https://{host}/")
        except FetchError as error:
            found = error
        assert outcome_of(found) == outcome


async def test_a_proxy_may_be_spoken_to_by_tls():
    async with tunnelled(proxy_tls=untrusted("a.test")) as (_, _, get):
        assert (await get()).body == b"hello"


@cases(
    "says outcome",
    r"""
        b"HTTP/1.1 407 Denied\r\nContent-Length: 0\r\n\r\n" | bad_answer
        b"HTTP/1.1 302 Elsewhere\r\nLocation: /\r\n\r\n"    | bad_answer
        b"SSH-2.0-OpenSSH_9.2\r\n"                          | bad_answer
        b""         | connection_lost
        LARGE       | header_too_large
        ESTABLISHED | tls_failed
        DENIED      | tls_failed
    """,
    {
        "LARGE": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300_000,
        "ESTABLISHED": ESTABLISHED,
        "DENIED": ESTABLISHED + b"HTTP/1.1 400 Bad Request\r\n\r\n",
    },
)
async def test_a_tunnel_that_does_not_come_about_has_an_outcome(says, outcome):
    async def read(raw, reader, writer):
        await reader.read(100)

    talk = [head, says, *[read, b"no TLS here"] * says.startswith(ESTABLISHED)]
    async with raw_server(talk) as proxy, handler_with() as handler:
        via = f"http://127.0.0.1:{proxy.port}"
        credentials = {"Proxy-Authorization": "Basic dXNlcjpwYXNz"}
        found = await failure_of(handler, "https://a.test/x", via, **credentials)
        assert found in {outcome, "connection_lost" if outcome == "tls_failed" else outcome}
        await proxy.left(0)
        assert proxy.heads == [
            (
                b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n"
                b"Proxy-Authorization: Basic dXNlcjpwYXNz\r\n\r\n"
            )
        ]


@cases(
    "says outcome bound",
    """
        b""         | first_byte_timeout | {"NET_FIRST_BYTE_TIMEOUT_SECS": 0.1}
        b""         | timeout            | {"DOWNLOAD_TIMEOUT": 0.1}
        ESTABLISHED | connect_timeout    | {"NET_CONNECT_TIMEOUT_SECS": 0.1}
        ESTABLISHED | timeout            | {"DOWNLOAD_TIMEOUT": 0.1}
    """,
    globals(),
)
async def test_a_silent_proxy_is_given_up_in_time(says, outcome, bound):
    async with raw_server([head, says, hold]) as proxy, handler_with(**bound) as handler:
        via = f"127.0.0.1:{proxy.port}"
        assert await failure_of(handler, "https://a.test/", via) == outcome
        await proxy.left(0)


async def test_a_proxy_that_is_not_there_has_the_outcome_of_a_host():
    async with handler_with() as handler:
        for url in ("http://a.test/", "https://a.test/"):
            assert await failure_of(handler, url, "127.0.0.1:1") == "connect_refused"
            assert await failure_of(handler, url, "nowhere.test") == "dns_failed"
            assert await failure_of(handler, url, "socks5://127.0.0.1:1") == "bad_url"


@each("name", "HTTP_PROXY", "MY_PROXIES", "environment", None)
async def test_a_proxy_at_a_private_address_is_one_that_settings_name(name, monkeypatch):
    async with raw_server(OK) as proxy:
        via = f"http://127.0.0.1:{proxy.port}"
        # The server of another setting is no proxy.
        settings = {"ALLOW_PRIVATE_ADDRESSES": False, "REDIS_URL": via}
        if name == "environment":
            monkeypatch.setenv("http_proxy", via)
        elif name is not None:
            settings[name] = (
                via if name == "HTTP_PROXY" else ["http://10.0.0.1:1", f"u:p@{via[7:]}"]
            )
        async with handler_with(**settings) as handler:
            if name is None:
                assert await failure_of(handler, "http://a.test/", via) == "address_forbidden"
                assert proxy.connections == 0
                return
            request = Request("http://a.test/", meta={"proxy": via})
            assert (await handler.download_request(request)).body == b"hello"
