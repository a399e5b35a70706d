"""The download handler for ftp, against Twisted's server and servers that mean harm."""

import asyncio
import socket
import subprocess
import sys
import time
from types import SimpleNamespace
from urllib.parse import unquote, urljoin

import psutil
import pytest
from contacting import FtpTalk, fetch, outcome
from loopback import (
    each_loop,  # noqa: F401  a fixture
    hold,
    in_virtual_time,
    raw_server,
    virtual_time,  # noqa: F401  a fixture
)
from scrapy.http import HtmlResponse, TextResponse
from text_tables import cases, each
from wire_text import table, wire

from webcrawl.net.ftp.handler import target_of
from webcrawl.net.outcomes import outcome_of
from webcrawl.urls import SCHEMES, normalize
from webcrawl.urls.extraction.html import extract

# As much of the crawl's own record as the handler looks at.
OF_ROBOTS = SimpleNamespace(robots_url="ftp://a.test/robots.txt", request_id=0)

# An independent implementation: Twisted's, in a process of its own.
SERVER = """
import sys
from pathlib import Path
from twisted.cred.checkers import AllowAnonymousAccess, InMemoryUsernamePasswordDatabaseDontUse
from twisted.cred.portal import Portal
from twisted.internet import reactor
from twisted.protocols.ftp import FTPAnonymousShell, FTPFactory, FTPRealm

root = sys.argv[1]
portal = Portal(FTPRealm(root, root), [AllowAnonymousAccess()])
users = InMemoryUsernamePasswordDatabaseDontUse()
users.addUser("me", "secret")
portal.registerChecker(users)
factory = FTPFactory(portal)
factory.timeOut = 10
port = reactor.listenTCP(0, factory, interface="127.0.0.1")
print(port.getHost().port, flush=True)
reactor.run()
"""


@pytest.fixture(scope="module")
def twisted_ftp(tmp_path_factory):
    """The origin of a server of Twisted's and the directory that it serves."""
    root = tmp_path_factory.mktemp("ftp")
    (root / "robots.txt").write_text("User-agent: *\nDisallow: /private/\n")
    (root / "pub" / "deep").mkdir(parents=True)
    (root / "pub" / "page.html").write_text("<a href='other.html'>other</a>")
    (root / "pub" / "data.tar.gz").write_bytes(b"\x1f\x8b" + bytes(300_000))
    (root / "pub" / "empty").touch()
    # Twisted's server reads commands as ISO 8859-1, so only ASCII.
    (root / "pub" / "a & <b>?#%41;type=a").write_text("odd")
    (root / "pub" / "-R").mkdir()
    (root / "me").mkdir()  # a user's home
    (root / "me" / "mine.txt").write_text("mine")
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(root)], stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            yield f"ftp://127.0.0.1:{int(process.stdout.readline())}", root
        finally:
            process.kill()


def get(url, **options):
    return asyncio.run(fetch(url, **options))


def links(response):
    """The links of a listing as the crawl would take them, relative to it."""
    found = extract(
        response.body,
        url=response.url,
        charset="utf-8",
        limit=100_000,
        schemes=frozenset({"ftp", "http"}),
    ).links
    return [link.url.removeprefix(response.url) for link in found]


def from_server(says=None, path="", data=b"", **options):
    """The response to *path*, or the exception, and what was heard of the client."""

    async def scenario():
        server = FtpTalk(says, data=data)
        async with server.served() as root:
            try:
                return await fetch(root + path, **options), server
            except Exception as error:  # noqa: BLE001  any, for its outcome
                return error, server

    return asyncio.run(scenario())


def outcome_from(*arguments, **options):
    return outcome_of(from_server(*arguments, **options)[0])


def test_a_file_of_an_independent_server(twisted_ftp):
    origin, _ = twisted_ftp
    response = get(origin + "/pub/page.html")
    assert isinstance(response, HtmlResponse)
    assert (response.status, response.protocol, response.flags) == (200, "FTP", [])
    assert response.body == b"<a href='other.html'>other</a>"
    assert response.headers["Content-Type"] == b"text/html"
    assert str(response.ip_address) == "127.0.0.1"
    assert 0 < response.meta["download_latency"] <= response.meta["download_seconds"]
    assert "wire_body" not in response.meta
    robots = get(origin + "/robots.txt")
    assert isinstance(robots, TextResponse)
    assert robots.text == "User-agent: *\nDisallow: /private/\n"


def test_a_large_binary_file_and_an_empty_one_of_an_independent_server(twisted_ftp):
    origin, root = twisted_ftp
    response = get(origin + "/pub/data.tar.gz")
    assert response.body == (root / "pub" / "data.tar.gz").read_bytes()
    assert response.headers["Content-Type"] == b"application/gzip"
    assert get(origin + "/pub/empty").body == b""


def test_a_directory_of_an_independent_server_is_a_page_of_links(twisted_ftp):
    origin, root = twisted_ftp
    response = get(origin + "/pub/")
    assert isinstance(response, HtmlResponse)
    assert response.status == 200
    assert b"page.html\r\n" in response.meta["wire_body"]
    found = links(response)
    assert {unquote(link) for link in found} == {
        name.name + "/" * name.is_dir() for name in (root / "pub").iterdir()
    }
    for link in found:
        if not link.endswith("/"):
            again = get(urljoin(response.url, link))
            assert again.body == (root / "pub" / unquote(link)).read_bytes()
    assert sorted(links(get(origin + "/"))) == ["me/", "pub/", "robots.txt"]
    assert links(get(origin + "/pub/-R/")) == []


def test_directories_of_the_same_names_are_different_pages():
    data = b"type=file; README\r\n"
    bodies = {from_server(data=data, path=path)[0].body for path in ("", "a/", "a/b/", "")}
    # Each server has a port of its own.
    assert len(bodies) == 4


def test_a_directory_without_its_slash_is_redirected_to_it(twisted_ftp):
    origin, _ = twisted_ftp
    for path, target in (("/pub", "/pub/"), ("/pub/deep", "/pub/deep/"), ("/pub/-R", "/pub/-R/")):
        response = get(origin + path)
        assert response.status == 301
        assert urljoin(response.url, response.headers["Location"].decode()) == origin + target


def test_what_is_not_there_is_not_found(twisted_ftp):
    origin, _ = twisted_ftp
    for path in ("/missing", "/missing/", "/pub/missing.html", "/robots.txt/"):
        response = get(origin + path)
        assert (response.status, response.body) == (404, b""), path
        assert response.meta["wire_reason"].startswith("550 ")


def test_user_and_password_may_be_in_the_url_or_the_meta(twisted_ftp):
    origin, _ = twisted_ftp
    mine = origin.replace("://", "://me:secret@") + "/mine.txt"
    assert get(mine).text == "mine"
    assert get(mine.replace("secret", "wrong")).status == 401
    assert get(origin + "/mine.txt", ftp_user="me", ftp_password="secret").text == "mine"
    assert get(origin + "/mine.txt").status == 404


# what is said


def test_the_dialogue_is_short_and_ends_with_goodbye():
    response, server = from_server(data=b"hello", path="a/b%20c.txt;type=i")
    assert response.body == b"hello"
    assert server.commands == [
        "USER anonymous", "PASS guest", "TYPE I", "EPSV", "RETR a/b c.txt", "QUIT",
    ]  # fmt: skip
    assert server.data_connections == 1


def test_a_directory_is_listed_without_naming_it_to_the_listing():
    _, server = from_server(path="-R/x/", FTP_PASSWORD="", CRAWLER_CONTACT="me@example.org")
    assert server.commands == [
        "USER anonymous", "PASS me@example.org", "CWD -R/x", "EPSV", "MLSD", "QUIT",
    ]  # fmt: skip


def test_older_servers_are_asked_in_older_words():
    says = {"EPSV": b"500 what?\r\n", "MLSD": b"500 what?\r\n", "USER": b"230 come in\r\n"}
    response, server = from_server(says, data=b"-rw-r--r-- 1 a b 3 Jan  1 2020 x\r\n")
    assert server.commands == ["USER anonymous", "EPSV", "PASV", "MLSD", "LIST", "QUIT"]
    assert links(response) == ["x"]
    assert server.data_connections == 1


@each(
    "reply",
    b"220-one\r\n220-two\r\n220 three\r\n",
    b"220-one\r\n 220 indented\r\n221 another code\r\n\r\n220 three\r\n",
    b"220-one\r\n220\r\n",
    b"220\n",
)
def test_replies_may_have_several_lines(reply):
    assert from_server({"": reply}, data=b"x", path="f")[0].body == b"x"


@in_virtual_time
@each("replies outcome", *table("ftp")["replies"], ids=str)
def test_what_a_server_says_has_its_outcome(replies, outcome):
    says = {name: None if reply is False else wire(reply) for name, reply in replies.items()}
    path = "d/" if "MLSD" in says else "f"
    found, server = from_server(says, path, DOWNLOAD_TIMEOUT=0.5)
    assert outcome_of(found) == outcome
    if outcome.startswith("http_"):
        assert (found.body, found.meta["wire_reason"][:3].isdigit()) == (b"", True)
        assert "QUIT" in server.commands or "RETR" not in says


@cases(
    "url path is_listing",
    r"""
        ftp://a.test            | b""         | True
        ftp://a.test/           | b""         | True
        ftp://a.test/d/         | b"d"        | True
        ftp://a.test/d;type=d   | b"d"        | True
        ftp://a.test/f;type=A   | b"f"        | False
        ftp://a.test/f%3Btype=a | b"f;type=a" | False
        ftp://a.test/%2F        | b"/"        | True
        ftp://a.test/%2Fetc/f   | b"/etc/f"   | False
        ftp://a.test//etc//     | b"/etc"     | True
        ftp://a.test/caf%E9     | b"caf\xe9"  | False
        ftp://a.test/f?q=1      | b"f?q=1"    | False
        ftp://a.test/f?         | b"f?"       | False
    """,
)
def test_urls_are_read_as_their_standard_says(url, path, is_listing):
    target = target_of(url)
    assert (target.path, target.is_listing) == (path, is_listing)
    assert (target.host, target.port) == ("a.test", 21)


def test_a_directory_by_any_name_is_redirected_within_its_server():
    for path in ("/x", "a:b", "a%2Fb", "f?x", "//b.test/x"):
        response, _ = from_server({"RETR": b"550 a directory\r\n"}, path=path)
        target = normalize(response.headers["Location"], response.url, schemes=SCHEMES)
        assert target == response.url.replace("?", "%3F") + "/"


@cases(
    "url",
    """
        ftp://a.test/a%0d%0aDELE x
        ftp://a.test/a%0Ab
        ftp://a.test/%00
        ftp://a.test/d%0D/
        ftp://me%0d%0aDELE%20x:x@a.test/
        ftp://me:x%0aDELE%20x@a.test/
    """,
)
def test_no_url_can_say_a_second_command(url):
    async def scenario():
        server = FtpTalk()
        async with server.served() as root:
            result = await outcome(url.replace("a.test/", root.removeprefix("ftp://")))
        return result, server.commands

    result, commands = asyncio.run(scenario())
    assert result == "bad_url"
    assert not any("DELE" in command for command in commands)


@each("url", "ftp:///x", "ftp://a.test:99999/", "ftp://[::1/")
def test_urls_without_a_server_are_bad(url):
    assert asyncio.run(outcome(url)) == "bad_url"


async def test_data_comes_from_the_server_itself_whatever_address_it_names():
    says = {"EPSV": b"500 no\r\n", "PASV": b"227 port (127,9,9,9,HIGH,LOW)\r\n"}
    server = FtpTalk(says, data=b"mine")
    victims = []
    async with server.served() as root:
        victim = await asyncio.start_server(
            lambda _, writer: victims.append(writer), "127.9.9.9", server.data_port
        )
        async with victim:
            response = await fetch(root + "f")
    assert (response.body, server.data_connections, len(victims)) == (b"mine", 1, 0)


async def test_both_connections_may_be_ipv6():
    server = FtpTalk(data=b"mine", address="::1")
    async with server.served() as root:
        response, data_connections = await fetch(root + "f"), server.data_connections
    assert (response.body, str(response.ip_address), data_connections) == (b"mine", "::1", 1)


async def test_an_endless_greeting_ends_with_the_patience_for_lines():
    async with raw_server([(b"220-and then\r\n" * 100,)]) as server:
        assert await outcome(f"ftp://{server.address}:{server.port}/") == "bad_answer"


async def test_a_data_connection_that_is_never_accepted_is_given_up():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        port = listening.getsockname()[1]
        waiting = socket.create_connection(("127.0.0.1", port), 1)  # the backlog is full
        server = FtpTalk({"EPSV": b"229 port (|||%d|)\r\n" % port})
        try:
            async with server.served() as root:
                assert await outcome(root + "f", NET_CONNECT_TIMEOUT_SECS=0.3) == "connect_timeout"
        finally:
            waiting.close()


@in_virtual_time
async def test_a_data_connection_over_which_nothing_comes_is_given_up():
    async with raw_server([hold]) as data:
        says = {"EPSV": b"229 port (|||%d|)\r\n" % data.port, "RETR": b"125 now\r\n"}
        server = FtpTalk(says)
        async with server.served() as root:
            assert (
                await outcome(root + "f", NET_FIRST_BYTE_TIMEOUT_SECS=0.3) == "first_byte_timeout"
            )


def test_an_endless_file_is_cut():
    response, _ = from_server(data=b"x" * 3_000_000, path="f", PAGE_MAX_BYTES=100_000)
    assert (len(response.body), response.flags) == (100_000, ["truncated"])
    response, _ = from_server(data=b"x" * 3_000, path="f", download_maxsize=10)
    assert (len(response.body), response.flags) == (10, ["truncated"])


def test_a_page_that_outgrows_its_listing_is_cut_and_the_listing_is_whole():
    data = b"".join(b"type=file; %03d\r\n" % n for n in range(100))
    response, _ = from_server(data=data, path="d/", PAGE_MAX_BYTES=len(data))
    assert response.flags == ["truncated", "body_cut"]
    assert response.meta["wire_body"] == data
    assert 0 < len(links(response)) < 100


def test_an_endless_listing_is_cut_and_so_is_its_page():
    data = b"".join(b"type=file; \xff\xff%06d\r\n" % n for n in range(100_000))
    before = time.process_time()
    response, _ = from_server(data=data, path="d/", PAGE_MAX_BYTES=1_000_000)
    assert response.flags == ["truncated"]
    assert len(response.meta["wire_body"]) == 1_000_000
    assert len(response.body) <= 1_000_000
    assert len(links(response)) == 10_000
    assert time.process_time() - before < 5


def test_a_million_empty_lines_cost_little():
    before = psutil.Process().memory_info().rss
    response, _ = from_server(data=b"\n" * 5_000_000, PAGE_MAX_BYTES=8_000_000)
    assert links(response) == []
    assert psutil.Process().memory_info().rss - before < 100_000_000


@each("after", b"426 something broke\r\n", b"451 disk\r\n", None)
def test_a_transfer_that_was_not_completed_is_marked(after):
    says = {"after": after}
    response, _ = from_server(says, data=b"half", path="f", DOWNLOAD_FAIL_ON_DATALOSS=False)
    assert (response.status, response.body, response.flags) == (200, b"half", ["dataloss"])
    for fails, more in ((True, {}), (False, {"fetch": OF_ROBOTS})):
        options = {"DOWNLOAD_FAIL_ON_DATALOSS": fails, **more}
        assert outcome_from(says, "f", b"half", **options) == "incomplete"


@pytest.mark.timeout(60)  # far below DOWNLOAD_TIMEOUT
def test_a_server_that_never_says_goodbye_is_left():
    response, _ = from_server({"QUIT": b""}, data=b"x", path="f")
    assert response.body == b"x"


@in_virtual_time
async def test_a_robots_txt_that_comes_too_slowly_is_none():
    async with raw_server([(b"x", 0.01)]) as data:
        server = FtpTalk({"EPSV": b"229 port (|||%d|)\r\n" % data.port, "RETR": b"125 now\r\n"})
        async with server.served() as root:
            response = await fetch(root + "f", DOWNLOAD_TIMEOUT=0.5)
            assert response.flags == ["truncated", "time"]
            # Long enough for the first byte on a busy machine.
            assert await outcome(root + "f", DOWNLOAD_TIMEOUT=2, fetch=OF_ROBOTS) == "too_slow"


def test_files_of_types_that_are_not_wanted_are_not_even_asked_for():
    options = {"data": b"x", "PAGE_CONTENT_TYPES": "text/html"}
    assert outcome_from(path="a.zip", **options) == "unwanted_type"
    assert outcome_from(path="a.html", **options) == "http_200"
    assert outcome_from(path="README", **options) == "http_200"  # nobody knows what it is
    assert outcome_from(path="d/", **options) == "http_200"


def test_names_are_text_and_stay_in_their_directory():
    names = [
        b"<script>alert(1)</script>", b'"onmouseover="x', b"&amp;", b"javascript:alert(1)",
        b"http:", b"//b.test", b"/etc/passwd", b"..", b".", b"../up", b"a/../../b", b"%2e%2e",
        b"%0d%0aDELE", b"\xff\xfe", b" lead", b"tail ", b"?q", b"#f", b";type=a", b"\x00nul",
        b"caf\xc3\xa9", b"...", b"a\rb", b"\\\\b.test\\x", b"tab\tbed", b"\x1b[31m",
    ]  # fmt: skip
    kept = [name for name in names if not {*name} & {*b"/\0\r"} and name not in (b".", b"..")]
    for machine in (True, False):
        start = b"type=file; " if machine else b"-rw-r--r-- 1 a b 3 Jan  1 2020 "
        data = b"".join(start + name + b"\r\n" for name in names)
        says = {} if machine else {"MLSD": b"502 no\r\n"}
        response, _ = from_server(says, data=data, path="d/")
        found = [target_of(response.url + link).path for link in links(response)]
        assert found == [b"d/" + name for name in kept]
        assert b"<script>" not in response.body
        assert not response.xpath("//@onmouseover")


async def test_forbidden_addresses_are_not_contacted():
    server = FtpTalk()
    async with server.served() as root:
        result = await outcome(root, ALLOW_PRIVATE_ADDRESSES=False)
    assert (result, server.commands) == ("address_forbidden", [])
