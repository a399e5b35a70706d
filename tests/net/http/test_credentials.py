"""Credentials of host policies, by the record of the servers and proxies that get them or not."""

import contextlib
import ssl

import pytest
import trustme
from fetching import OK, handler_with, outcome_by, tunnelled
from loopback import (
    each_loop,  # noqa: F401  runs every test twice
    name_server,
    raw_server,
    zone,
)
from text_tables import cases, each

from webcrawl.net.http.request import ADDED, additions

FIELDS = {"Authorization": "Bearer T0KEN"}
COOKIES = {"session": "T0KEN"}


@pytest.fixture
def certified(tmp_path, monkeypatch):
    """Return a function from a word to the server side of TLS; None for no TLS."""
    known = trustme.CA()
    known.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))

    def context(kind):
        if kind == "none":
            return None
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority = trustme.CA() if kind == "untrusted" else known
        authority.issue_cert("b.test" if kind == "wrong" else "a.test").configure_cert(made)
        return made

    return context


@contextlib.asynccontextmanager
async def named(server, **settings):
    """A handler for which a.test is where *server* is."""
    records = zone({"a.test": [f"300 A {server.address}"]})
    async with (
        name_server(records) as names,
        handler_with(DNS_SERVERS=f"127.0.0.1:{names.port}", **settings) as handler,
    ):
        yield handler


@cases(
    "certificate policy outcome",
    """
        valid     | {}                | http_200
        valid     | {"verify": False} | http_200
        untrusted | {}                | unverified
        untrusted | {"verify": False} | http_200
        wrong     | {}                | unverified
        wrong     | {"verify": False} | http_200
        none      | {}                | unverified
        none      | {"verify": False} | http_200
    """,
)
@each("added", (FIELDS, {}), ({}, COOKIES))
async def test_credentials_go_only_to_verified_servers(
    certified, added, certificate, policy, outcome
):
    sent = int(outcome == "http_200")
    tls = certified(certificate)
    async with raw_server(OK, tls=tls) as server, named(server) as handler:
        url = f"http{'s' * bool(tls)}://a.test:{server.port}/"
        ADDED.set(additions(*added, "", **policy))
        assert await outcome_by(handler, url) == outcome
        assert [b"T0KEN" in head for head in server.heads] == [True] * sent
        assert server.connections == sent


@cases(
    "certificate outcome",
    """
        valid     | http_200
        untrusted | tls_failed
        wrong     | tls_failed
    """,
)
async def test_the_setting_verifies_as_before_where_nothing_is_added(
    certified, certificate, outcome
):
    tls = certified(certificate)
    async with (
        raw_server(OK, tls=tls) as server,
        named(server, DOWNLOAD_VERIFY_CERTIFICATES=True) as handler,
    ):
        for policy in ({}, {"verify": False}):
            ADDED.set(additions(FIELDS if policy else {}, {}, "", **policy))
            assert await outcome_by(handler, f"https://a.test:{server.port}/") == outcome


async def test_a_connection_without_a_check_is_not_used_for_credentials(certified):
    async with raw_server(OK, tls=certified("untrusted")) as server, named(server) as handler:
        url = f"https://a.test:{server.port}/"
        outcomes = []
        for policy in ({"verify": False}, {}, {"verify": False}):
            ADDED.set(additions(FIELDS, {}, "", **policy))
            outcomes.append(await outcome_by(handler, url))
        assert outcomes == ["http_200", "unverified", "http_200"]
        assert len(server.heads) == 2


@cases(
    "proxy asked policy outcome",
    """
        none      | me:pw@ http://a.test/  | {}                      | unverified
        none      | me:pw@ https://a.test/ | {}                      | unverified
        none      | me:pw@ http://a.test/  | {"verify": False}       | unverified
        none      | me:pw@ https://a.test/ | {"proxy_verify": False} | http_200
        none      |  https://a.test/ | {}                      | http_200
        untrusted | me:pw@ https://a.test/ | {}                      | unverified
        untrusted | me:pw@ https://a.test/ | {"proxy_verify": False} | http_200
        untrusted |  https://a.test/ | {}                      | http_200
        wrong     | me:pw@ https://a.test/ | {}                      | unverified
        valid     | me:pw@ https://a.test/ | {}                      | http_200
    """,
)
async def test_the_password_of_a_proxy_goes_only_to_a_verified_proxy(
    certified, proxy, asked, policy, outcome
):
    login, _, url = asked.rpartition(" ")
    tls = certified(proxy)
    async with (
        tunnelled(tls=certified("untrusted"), proxy_tls=tls) as (server, relay, _),
        named(relay) as handler,
    ):
        where = f"http{'s' * bool(tls)}://{login}a.test:{relay.port}"
        ADDED.set(additions({}, {}, where, **policy))
        assert await outcome_by(handler, url) == outcome
        is_sent = outcome == "http_200"
        assert [b"Basic " in head for head in relay.heads] == [bool(login)] * is_sent
        assert len(server.heads) == is_sent


@cases(
    "certificate outcome",
    """
        valid     | http_200
        untrusted | unverified
    """,
)
async def test_the_server_behind_a_proxy_is_verified_for_its_fields(
    certified, certificate, outcome
):
    async with (
        tunnelled(tls=certified(certificate)) as (server, relay, _),
        named(relay) as handler,
    ):
        ADDED.set(additions(FIELDS, {}, f"http://a.test:{relay.port}"))
        assert await outcome_by(handler, "https://a.test/") == outcome
        assert [b"T0KEN" in head for head in server.heads] == [True] * (outcome == "http_200")
        assert await outcome_by(handler, "http://a.test/") == "unverified"
        assert [head.split()[0] for head in relay.heads] == [b"CONNECT"]
