"""TLS: what servers may choose, what that costs, who they are, and what a connection leaves."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import random
import re
import socket
import ssl
import time
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import trustme
from cryptography.hazmat.bindings.openssl.binding import Binding
from fetching import OK, handler_with, outcome_by
from loopback import (
    each_loop,  # noqa: F401  runs every test twice
    raw_server,
    untrusted,
)
from OpenSSL import SSL
from scrapy import Request
from scrapy.settings import Settings

from webcrawl import settings as project
from webcrawl.errors import FatalError
from webcrawl.net.http import tls as tls_module
from webcrawl.net.http.tls import TlsContext, TlsTransport, cipher_suite
from webcrawl.net.outcomes import outcome_of

if TYPE_CHECKING:
    from pathlib import Path


async def page_and_end(reader, writer) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\n\r\nuntil the end of the connection")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_key_exchange_in_a_finite_field_is_refused_at_no_cost(tmp_path, version):
    tls = untrusted("a.test", key_type=trustme.KeyType.RSA)
    tls.minimum_version = tls.maximum_version = version
    if version is ssl.TLSVersion.TLSv1_2:
        tls.set_ciphers("kDHE:@SECLEVEL=0")
        tls.load_dh_params(made_up_group(tmp_path, bits=8192))
    else:
        tls.set_ecdh_curve("ffdhe8192")
    ciphers = {"DOWNLOADER_CLIENT_TLS_CIPHERS": project.DOWNLOADER_CLIENT_TLS_CIPHERS}
    async with raw_server(OK, tls=tls) as server, handler_with(**ciphers) as handler:
        began = time.process_time()
        with pytest.raises(Exception) as refused:  # noqa: PT011  any, for its outcome
            await handler.download_request(Request(f"https://127.0.0.1:{server.port}/"))
        # Most servers say why; this one hangs up.
        assert outcome_of(refused.value) in {"tls_failed", "connection_lost"}
        assert time.process_time() - began < 0.15  # a handshake takes 0.24


@pytest.mark.parametrize("curve", ["X25519", "prime256v1", "secp384r1", "secp521r1"])
async def test_every_curve_that_servers_insist_on_is_offered(curve):
    tls = untrusted("a.test")
    tls.set_ecdh_curve(curve)
    async with raw_server(OK, tls=tls) as server, handler_with() as handler:
        request = Request(f"https://127.0.0.1:{server.port}/")
        assert (await handler.download_request(request)).body == b"hello"
        assert re.fullmatch(r"TLSv1\.3 TLS_\w+_SHA(256|384)", request.meta["tls"])


@pytest.mark.parametrize("lib", [SimpleNamespace(), Binding().lib], ids=["gone", "changed"])
async def test_another_pyopenssl_is_a_warning_and_offers_its_groups(monkeypatch, caplog, lib):
    """Of its private parts the crawl uses one; *changed*: it is no pointer any more."""
    monkeypatch.setattr(tls_module, "Binding", lambda: SimpleNamespace(lib=lib))
    if isinstance(lib, SimpleNamespace):
        context = SSL.Context
    else:
        context = partial(_Wrapped, SSL.Context(SSL.TLS_CLIENT_METHOD))
    monkeypatch.setattr(tls_module.SSL, "Context", context)
    TlsContext.from_settings(Settings())
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.endswith("takes no list of groups: handshakes may cost up to 0.13 s more")


class _Wrapped:
    """A context whose pointer is in an object of another kind."""

    def __init__(self, context: SSL.Context, _method: int) -> None:
        self._of = context
        self._context = object()

    def __getattr__(self, name: str) -> object:
        return getattr(self._of, name)


@pytest.mark.parametrize(
    ("openssl", "iana"),
    [
        ("TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
        ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
        ("ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
        ("DHE-RSA-AES128-SHA256", "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256"),
        ("ECDHE-ECDSA-AES256-CCM8", "TLS_ECDHE_ECDSA_WITH_AES_256_CCM_8"),
        ("AES128-SHA", "TLS_RSA_WITH_AES_128_CBC_SHA"),
        ("PSK-AES128-CBC-SHA", "PSK-AES128-CBC-SHA"),
    ],
)
def test_cipher_suites_have_the_names_of_the_registry(openssl, iana):
    """As ``openssl ciphers -stdname`` has them."""
    assert cipher_suite(openssl) == iana


async def test_the_version_is_that_of_the_connection():
    tls = untrusted("a.test", key_type=trustme.KeyType.RSA)
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    tls.set_ciphers("ECDHE-RSA-AES256-SHA")  # which is older than TLS 1.2
    async with raw_server(OK, tls=tls) as server, handler_with() as handler:
        request = Request(f"https://127.0.0.1:{server.port}/")
        await handler.download_request(request)
        assert request.meta["tls"] == "TLSv1.2 TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA"


@pytest.mark.parametrize(
    ("address", "outcome"), [("127.0.0.1", "http_200"), ("127.0.0.2", "tls_failed")]
)
async def test_an_address_has_to_be_in_the_certificate(monkeypatch, tmp_path, address, outcome):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    async with (
        raw_server(OK, tls=untrusted("a.test", authority=authority), address=address) as server,
        handler_with(DOWNLOAD_VERIFY_CERTIFICATES=True) as handler,
    ):
        assert await outcome_by(handler, f"https://{address}:{server.port}/") == outcome


@pytest.mark.parametrize(
    ("says", "verified", "outcome"),
    [(OK, False, "http_200"), (page_and_end, False, "http_200"), (OK, True, "tls_failed")],
)
async def test_a_connection_that_has_ended_leaves_no_garbage(says, verified, outcome):
    """It has 80 kB of OpenSSL's, of which the collector knows nothing."""
    gc.collect()
    gc.disable()
    try:
        async with (
            raw_server(says, tls=untrusted("a.test")) as server,
            handler_with(DOWNLOAD_VERIFY_CERTIFICATES=verified) as handler,
        ):
            assert await outcome_by(handler, f"https://127.0.0.1:{server.port}/") == outcome
            await handler.close()
            await server.left(0)
            # The frame of a fetch that failed is a cycle, and has the transport.
            kinds = (SSL.Connection,) if verified else (SSL.Connection, TlsTransport)
            assert not [one for one in gc.get_objects() if isinstance(one, kinds)]
    finally:
        gc.enable()


@pytest.mark.parametrize("size", [100_000, 3_000_000])
async def test_a_body_is_whole_that_the_connection_ends_with(size):
    body = random.Random(size).randbytes(size)

    async def page(reader, writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body)

    async with raw_server(page, tls=untrusted("a.test")) as server, handler_with() as handler:
        request = Request(f"https://127.0.0.1:{server.port}/", meta={"download_maxsize": size})
        response = await handler.download_request(request)
        assert (response.body == body, response.flags) == (True, [])


@pytest.mark.parametrize("length", [b"", b"Content-Length: 4\r\n"])
@pytest.mark.parametrize("is_orderly", [True, False], ids=["close_notify", "cut"])
@pytest.mark.parametrize("robots_url", ["", "https://127.0.0.1/robots.txt"], ids=["page", "robots"])
async def test_a_body_without_length_is_cut_where_tls_is(length, is_orderly, robots_url):
    def serve() -> None:
        plain, _ = listener.accept()
        with untrusted("a.test").wrap_socket(plain, server_side=True) as tls:
            tls.recv(1 << 16)
            tls.sendall(b"HTTP/1.1 200 OK\r\n" + length + b"\r\nbody")
            if is_orderly:
                tls.settimeout(5)
                with contextlib.suppress(OSError):  # the client answers with no close_notify
                    tls.unwrap()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(asyncio.to_thread(serve))
        async with handler_with(DOWNLOAD_FAIL_ON_DATALOSS=False) as handler:
            meta = {"fetch": SimpleNamespace(robots_url=robots_url)}
            request = Request(f"https://127.0.0.1:{listener.getsockname()[1]}/", meta=meta)
            response = await handler.download_request(request)
        await serving
    assert response.body == b"body"
    is_whole = is_orderly or length or robots_url
    assert response.flags == ([] if is_whole else ["dataloss"])


async def test_a_handshake_that_is_given_up_leaves_nothing_behind():
    """Whether its end comes before, with or after the last bytes of the server."""
    loop = asyncio.get_running_loop()
    errors: list[object] = []
    loop.set_exception_handler(lambda _, context: errors.append(context))
    async with raw_server(OK, tls=untrusted("a.test")) as server, handler_with() as handler:
        url = f"https://127.0.0.1:{server.port}/"
        for number in range(100):
            task = loop.create_task(handler.download_request(Request(url)))
            await asyncio.sleep(number / 20_000)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await handler.close()
        await server.left(0)
    assert errors == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DOWNLOAD_TLS_MIN_VERSION", "1.2"),
        ("DOWNLOAD_TLS_MAX_VERSION", "SSLv3"),
        ("DOWNLOADER_CLIENT_TLS_CIPHERS", "no such cipher"),
    ],
)
async def test_what_is_unknown_to_tls_is_one_sentence(name, value):
    with pytest.raises(FatalError, match=rf"^[^.\n]*{name}.*{value}[^\n]*\.$"):
        async with handler_with(**{name: value}):
            pass


async def test_the_versions_are_those_of_the_settings():
    tls = untrusted("a.test")
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    async with raw_server(OK, tls=tls) as server:
        url = f"https://127.0.0.1:{server.port}/"
        async with handler_with(DOWNLOAD_TLS_MIN_VERSION="TLSv1.3") as handler:
            # Most servers say why; this one hangs up.
            assert await outcome_by(handler, url) in {"tls_failed", "connection_lost"}
        async with handler_with(DOWNLOAD_TLS_MAX_VERSION="TLSv1.2") as handler:
            assert await outcome_by(handler, url) == "http_200"


async def test_keys_are_logged_for_who_looks_into_packets(monkeypatch, tmp_path):
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    async with (
        raw_server(OK, tls=untrusted("a.test")) as server,
        handler_with() as handler,
    ):
        assert await outcome_by(handler, f"https://127.0.0.1:{server.port}/") == "http_200"
    assert "CLIENT_HANDSHAKE_TRAFFIC_SECRET " in (tmp_path / "keys").read_text()


def made_up_group(directory: Path, *, bits: int) -> Path:
    """A file of Diffie-Hellman parameters with an odd number for a prime."""

    def der(tag: int, content: bytes) -> bytes:
        return bytes([tag, 0x82]) + len(content).to_bytes(2, "big") + content

    number = b"\0" + (random.Random(1).getrandbits(bits) | 1 | 1 << bits - 1).to_bytes(
        bits // 8, "big"
    )
    encoded = base64.encodebytes(der(0x30, der(2, number) + b"\2\1\2"))
    path = directory / "group.pem"
    path.write_bytes(b"-----BEGIN DH PARAMETERS-----\n%b-----END DH PARAMETERS-----\n" % encoded)
    return path
