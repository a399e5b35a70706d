"""TLS: what servers may choose, what that costs, who they are, and what a connection leaves."""

import asyncio
import base64
import contextlib
import datetime as dt
import gc
import ipaddress
import random
import re
import socket
import ssl
import time
import warnings
from functools import cache, partial
from types import SimpleNamespace

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from fetching import OK, handler_with, outcome_at, outcome_by, served
from loopback import (
    each_loop,  # noqa: F401  runs every test twice
    head,
    name_server,
    raw_server,
    untrusted,
    zone,
)
from odd_tls import (
    ALERT,
    ANY_CLIENT_CERTIFICATE,
    DATA,
    HELLO_REQUEST,
    RENEGOTIATION_INFO,
    OddServer,
)
from OpenSSL import SSL
from patience import LIMIT_SECS
from scrapy import Request
from scrapy.settings import Settings
from text_tables import cases, each

from webcrawl import settings as project
from webcrawl.errors import FatalError
from webcrawl.net.http import tls as tls_module
from webcrawl.net.http.tls import TlsContext, TlsTransport, cipher_suite
from webcrawl.net.outcomes import FetchError, outcome_of

PAGE_AND_END = [head, b"HTTP/1.1 200 OK\r\n\r\nuntil the end of the connection"]
CIPHERS = {"DOWNLOADER_CLIENT_TLS_CIPHERS": project.DOWNLOADER_CLIENT_TLS_CIPHERS}
# Most servers say why; those here hang up.
REFUSED = {"tls_failed", "connection_lost"}


def can_be_insisted_on(group):
    """Whether servers of this Python can. Those of 3.11.2 can only insist on curves of the NIST."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ecdh_curve(group)
    except ssl.SSLError:
        return False
    return True


VERSIONS = [ssl.TLSVersion.TLSv1_2, *[ssl.TLSVersion.TLSv1_3] * can_be_insisted_on("ffdhe8192")]


@each("version", *VERSIONS)
async def test_key_exchange_in_a_finite_field_is_refused_at_no_cost(tmp_path, version):
    tls = untrusted("a.test", key_type=trustme.KeyType.RSA)
    tls.minimum_version = tls.maximum_version = version
    if version is ssl.TLSVersion.TLSv1_2:
        tls.set_ciphers("kDHE:@SECLEVEL=0")
        tls.load_dh_params(made_up_group(tmp_path, bits=8192))
    else:
        tls.set_ecdh_curve("ffdhe8192")
    async with raw_server(OK, tls=tls) as server, handler_with(**CIPHERS) as handler:
        began = time.process_time()
        assert await outcome_by(handler, f"https://127.0.0.1:{server.port}/") in REFUSED
        assert time.process_time() - began < 0.15  # a handshake takes 0.24


@each("curve", "prime256v1", "secp384r1", "secp521r1", *["X25519"] * can_be_insisted_on("X25519"))
async def test_every_curve_that_servers_insist_on_is_offered(curve):
    tls = untrusted("a.test")
    tls.set_ecdh_curve(curve)
    async with served(OK, tls=tls) as (_, get):
        assert re.fullmatch(r"TLSv1\.3 TLS_\w+_SHA(256|384)", (await get()).meta["tls"])


@pytest.mark.cures("pyOpenSSL {} is not supported: install the version in requirements.txt.")
async def test_another_pyopenssl_is_one_sentence(monkeypatch):
    """Of its private parts the crawl uses one."""
    made = partial(_Wrapped, SSL.Context(SSL.TLS_CLIENT_METHOD))
    monkeypatch.setattr(tls_module.SSL, "Context", made)
    with pytest.raises(FatalError, match=r"^pyOpenSSL [\d.]+ is not supported: [^\n]+\.$"):
        TlsContext(Settings())
    monkeypatch.undo()
    TlsContext(Settings())


class _Wrapped:
    """A context whose pointer is in an object of another kind."""

    def __init__(self, context, _method):
        self._of = context
        self._context = object()

    def __getattr__(self, name):
        return getattr(self._of, name)


@cases(
    "openssl iana",
    """
        TLS_AES_256_GCM_SHA384 | TLS_AES_256_GCM_SHA384
        ECDHE-ECDSA-AES256-GCM-SHA384 | TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
        ECDHE-RSA-CHACHA20-POLY1305 | TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
        DHE-RSA-AES128-SHA256 | TLS_DHE_RSA_WITH_AES_128_CBC_SHA256
        ECDHE-ECDSA-AES256-CCM8 | TLS_ECDHE_ECDSA_WITH_AES_256_CCM_8
        AES128-SHA | TLS_RSA_WITH_AES_128_CBC_SHA
        PSK-AES128-CBC-SHA | PSK-AES128-CBC-SHA
    """,
)
def test_cipher_suites_have_the_names_of_the_registry(openssl, iana):
    """As ``openssl ciphers -stdname`` has them."""
    assert cipher_suite(openssl) == iana


async def test_the_version_is_that_of_the_connection():
    tls = untrusted("a.test", key_type=trustme.KeyType.RSA)
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    tls.set_ciphers("ECDHE-RSA-AES256-SHA")  # which is older than TLS 1.2
    async with served(OK, tls=tls) as (_, get):
        assert (await get()).meta["tls"] == "TLSv1.2 TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA"


@cases(
    "address outcome",
    """
        127.0.0.1 | http_200
        127.0.0.2 | tls_failed
    """,
)
async def test_an_address_has_to_be_in_the_certificate(monkeypatch, tmp_path, address, outcome):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    tls = untrusted("a.test", authority=authority)
    where = {"host": address, "address": address}
    assert await outcome_at(OK, tls=tls, **where, DOWNLOAD_VERIFY_CERTIFICATES=True) == outcome


@cases(
    "says verified outcome",
    """
        OK           | False | http_200
        PAGE_AND_END | False | http_200
        OK           | True  | tls_failed
    """,
    globals(),
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
            left = [one for one in gc.get_objects() if isinstance(one, TlsTransport)]
            assert not [one for one in left if not verified or hasattr(one, "_tls")]
    finally:
        gc.enable()


@each("size", 100_000, 3_000_000)
async def test_a_body_is_whole_that_the_connection_ends_with(size):
    body = random.Random(size).randbytes(size)
    talk = [head, b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body]
    async with served(talk, tls=untrusted("a.test")) as (_, get):
        response = await get(meta={"download_maxsize": size})
        assert (response.body == body, response.flags) == (True, [])


async def test_a_request_of_many_records_is_sent_whole():
    body = random.Random(1).randbytes(100_000)

    async def echo(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        sent = await reader.readexactly(len(body))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(sent), sent))

    async with served(echo, tls=untrusted("a.test")) as (_, get):
        assert (await get(method="POST", body=body)).body == body


@each("length", b"", b"Content-Length: 4\r\n")
@each("is_orderly", True, False, ids=["close_notify", "cut"])
@each("robots_url", "", "https://127.0.0.1/robots.txt", ids=["page", "robots"])
async def test_a_body_without_length_is_cut_where_tls_is(length, is_orderly, robots_url):
    def serve():
        plain, _ = listener.accept()
        with untrusted("a.test").wrap_socket(plain, server_side=True) as tls:
            tls.recv(1 << 16)
            tls.sendall(b"HTTP/1.1 200 OK\r\n" + length + b"\r\nbody")
            if is_orderly:
                tls.settimeout(LIMIT_SECS)
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
    errors = []
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


@cases(
    "name value",
    """
        DOWNLOAD_TLS_MIN_VERSION      | "1.2"
        DOWNLOAD_TLS_MAX_VERSION      | SSLv3
        DOWNLOADER_CLIENT_TLS_CIPHERS | no such cipher
    """,
)
async def test_what_is_unknown_to_tls_is_one_sentence(name, value):
    with pytest.raises(FatalError, match=rf"^[^.\n]*{name}.*{value}[^\n]*\.$"):
        async with handler_with(**{name: value}):
            pass


async def test_the_versions_are_those_of_the_settings():
    tls = untrusted("a.test")
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    assert await outcome_at(OK, tls=tls, DOWNLOAD_TLS_MIN_VERSION="TLSv1.3") in REFUSED
    assert await outcome_at(OK, tls=tls, DOWNLOAD_TLS_MAX_VERSION="TLSv1.2") == "http_200"


def made_up_group(directory, *, bits):
    """A file of Diffie-Hellman parameters with an odd number for a prime."""

    def der(tag, content):
        return bytes([tag, 0x82]) + len(content).to_bytes(2, "big") + content

    number = b"\0" + (random.Random(1).getrandbits(bits) | 1 | 1 << bits - 1).to_bytes(
        bits // 8, "big"
    )
    encoded = base64.encodebytes(der(0x30, der(2, number) + b"\2\1\2"))
    path = directory / "group.pem"
    path.write_bytes(b"-----BEGIN DH PARAMETERS-----\n%b-----END DH PARAMETERS-----\n" % encoded)
    return path


# --- Odd servers: docs/reference/odd-servers.md has what Scrapy, curl and Chromium do with them.


@cache
def credentials(bits=2048):
    """A key, and a certificate for it that it signs itself, DER."""
    key = rsa.generate_private_key(65537, bits)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a.test")])
    now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 5, now - day, now + day)
    addresses = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = builder.add_extension(addresses, critical=False).sign(key, hashes.SHA256())
    return key, made.public_bytes(serialization.Encoding.DER)


def changed(old, new, times=1):
    """A chain of as many certificates, with *new* in place of *old*."""
    _, certificate = credentials()
    assert old in certificate
    return {"certificates": [certificate.replace(old, new, 1)] * times}


CLOSE_NOTIFY = b"\1\0"


async def answers(server):
    await server.request()
    server.send(DATA, OK)
    server.send(ALERT, CLOSE_NOTIFY)


async def renegotiates(server, times=1):
    await server.request()
    for _ in range(times):
        await server.renegotiate()
    server.send(DATA, OK)


async def asks_for_a_certificate_late(server):
    server.client_request = ANY_CLIENT_CERTIFICATE
    await renegotiates(server)


async def renegotiates_within_the_answer(server):
    await server.request()
    server.send(DATA, OK[:-2])
    await server.renegotiate()
    server.send(DATA, OK[-2:])


async def asks_for_a_handshake_and_forgets_it(server):
    await server.request()
    server.say(HELLO_REQUEST)
    server.send(DATA, OK)
    await server.request()  # to the end of the connection


async def sends_empty_records(server):
    await server.request()
    for part in (OK[:20], b"", OK[20:], b""):
        server.send(DATA, part)


UNKNOWN_NAME = b"\x15\3\3\0\2\1\x70"  # a warning, in a record
H2 = b"\0\x10\0\5\0\3\2h2"
VERSION_3 = b"\xa0\x03\x02\x01\x02"


ODD = {
    # RFC 5746, section 4.1: such a server "may be vulnerable", and answers nevertheless.
    "no RFC 5746": ({"extensions": b""}, answers, "http_200"),
    # RFC 5246, section 7.4.1.1.
    "renegotiation": ({}, renegotiates, "http_200"),
    "late certificate request": ({}, asks_for_a_certificate_late, "http_200"),
    "renegotiation in answer": ({}, renegotiates_within_the_answer, "http_200"),
    "HelloRequest": ({}, asks_for_a_handshake_and_forgets_it, "http_200"),
    "renegotiations": ({}, partial(renegotiates, times=5), "connection_lost"),
    # RFC 6066, section 3: "not recommended" as a warning.
    "unrecognized_name": ({"early": UNKNOWN_NAME}, answers, "http_200"),
    # RFC 5246, section 7.4.6: a client without a certificate sends an empty list.
    "certificate request": ({"client_request": ANY_CLIENT_CERTIFICATE}, answers, "http_200"),
    # RFC 5246, section 6.2.1.
    "records of a byte": ({"record_size": 1}, answers, "http_200"),
    "empty records": ({}, sends_empty_records, "http_200"),
    # Nobody verifies these; OpenSSL reads them.
    "version 8": (changed(VERSION_3, VERSION_3[:-1] + b"\7"), answers, "http_200"),
    "negative serial number": (changed(b"\x02\x01\x05", b"\x02\x01\xfb"), answers, "http_200"),
    "no date": (changed(b"\x17\x0d2", b"\x17\x0d?"), answers, "http_200"),
    "long chain": (changed(b"", b"", times=61), answers, "http_200"),
    # Refused, as docs/reference/odd-servers.md says why.
    "SHA-1 in handshake": ({"scheme": 0x0201}, answers, "tls_failed"),
    "HTTP/2 not offered": ({"extensions": RENEGOTIATION_INFO + H2}, answers, "tls_failed"),
    "name not in UTF-8": (changed(b"a.test", b"\xff\xfetest"), answers, "tls_failed"),
    "no certificate": ({"certificates": []}, answers, "tls_failed"),
}


@each("case", *ODD)
async def test_odd_servers_are_read(case):
    odd, talk, outcome = ODD[case]
    assert await outcome_with(odd, talk) == outcome


async def test_no_server_renegotiates_where_certificates_are_verified(monkeypatch, tmp_path):
    """The certificate of the new handshake could be for another name."""
    _, certificate = credentials()
    (tmp_path / "ca.pem").write_text(ssl.DER_cert_to_PEM_cert(certificate))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    settings = {"DOWNLOAD_VERIFY_CERTIFICATES": True}
    assert await outcome_with({}, answers, **settings) == "http_200"
    assert await outcome_with({}, renegotiates, **settings) == "connection_lost"


async def outcome_with(odd, talk, **settings):
    """How a fetch from an `OddServer` ends; a document is "hello"."""
    key, certificate = credentials()

    async def serve(reader, writer):
        odd_one = OddServer(**{"key": key, "certificates": [certificate]} | odd)
        await odd_one.serve(reader, writer, talk)

    async with served(serve, **settings) as (server, get):
        try:
            response = await get(f"https://127.0.0.1:{server.port}/")
        except FetchError as error:
            return outcome_of(error)
    assert response.body == b"hello"
    return outcome_of(response)


@each("length", 1, 30, 63)
async def test_no_hello_has_a_length_at_which_old_servers_hang(length):
    """RFC 7685: between 256 and 511 bytes."""
    name = f"{'a' * length}.test"

    async def hang(reader, writer):
        sizes.append(int.from_bytes((await reader.readexactly(9))[6:], "big"))

    sizes = []
    async with (
        name_server(zone({name: ["300 A 127.0.0.1"]})) as names,
        raw_server(hang) as server,
        handler_with(DNS_SERVERS=f"127.0.0.1:{names.port}") as handler,
    ):
        await outcome_by(handler, f"https://{name}:{server.port}/")
    assert [size for size in sizes if not 256 <= size + 4 <= 511] == sizes != []


@cases(
    "host indicated",
    """
        a.test    | a.test
        a.test.   | a.test
        a_b.test  | a_b.test
        127.0.0.1 | None
    """,
)
async def test_servers_are_told_names_as_certificates_have_them(host, indicated):
    """RFC 6066, section 3: without the dot at the end, and no addresses."""
    told = []
    tls = untrusted("a.test")
    tls.sni_callback = lambda _, name, __: told.append(name)
    assert await outcome_at(OK, tls=tls, host=host) == "http_200"
    assert told == [indicated]


@cases(
    "bits ciphers",
    """
        1024 | ALL:@SECLEVEL=0
        2048 | kRSA
        2048 | AES128-SHA
    """,
)
async def test_old_keys_and_cipher_suites_are_accepted(tmp_path, bits, ciphers):
    tls = old_server(tmp_path, bits)
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    tls.set_ciphers(ciphers)
    assert await outcome_at(OK, tls=tls, **CIPHERS) == "http_200"


@each("version", "TLSv1", "TLSv1_1")
async def test_older_versions_are_accepted_where_the_setting_says_so(tmp_path, version):
    tls = old_server(tmp_path, 2048)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        tls.minimum_version = tls.maximum_version = ssl.TLSVersion[version]
    settings = {"DOWNLOAD_TLS_MIN_VERSION": "TLSv1.0", **CIPHERS}
    assert await outcome_at(OK, tls=tls, **CIPHERS) in REFUSED
    assert await outcome_at(OK, tls=tls, **settings) == "http_200"
    assert await outcome_with({"scheme": 0x0201}, answers, **settings) == "http_200"


def old_server(directory, bits):
    """The server's side of TLS, with an RSA key of *bits* and all that OpenSSL still has."""
    key, certificate = credentials(bits)
    pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    path = directory / "server.pem"
    private = key.private_bytes(*pem, serialization.NoEncryption()).decode()
    path.write_text(private + ssl.DER_cert_to_PEM_cert(certificate))
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.set_ciphers("ALL:@SECLEVEL=0")
    made.load_cert_chain(path)
    return made
