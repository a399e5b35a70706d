"""One spelling per URL, and never another server."""

import json
from pathlib import Path
from urllib.parse import urlsplit

from hypothesis import example, given
from hypothesis import strategies as st
from text_tables import cases, each, lines, table

from webcrawl.urls import HTTP_SCHEMES, SCHEMES, host_of, normalize, normalize_seed, origin_of

# The URL parsing vectors of web-platform-tests (BSD-3-Clause), as of its README.
VECTORS = [
    case
    for case in json.loads(
        (Path(__file__).parent.parent / "data" / "wpt-urltestdata.json").read_text(encoding="utf-8")
    )
    if isinstance(case, dict)
]

any_text = st.text(st.characters(codec=None))  # surrogates included
label = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True).filter(
    lambda text: not text.startswith("xn--")
)
host = st.lists(label, min_size=1, max_size=4).map(".".join)
authority = st.tuples(
    st.sampled_from(["", "user@", "user:pass@", ":@", "a%40b@"]),
    host,
    st.sampled_from(["", ":", ":80", ":443", ":8080", ":00080"]),
)


def test_agrees_with_every_vector_of_the_web_platform():
    wrong = []
    for case in VECTORS:
        expected = None
        if not case.get("failure") and case["protocol"] in ("http:", "https:"):
            expected = case["href"].partition("#")[0]
            if case["username"] or case["password"]:
                expected = f"{case['protocol']}//{case['host']}{case['pathname']}{case['search']}"
        if normalize(case["input"], case["base"]) != expected:
            wrong.append((case["input"], case["base"], expected))
    assert wrong == []
    assert len(VECTORS) == 888


@cases(
    "given_url spelling",
    r"""
        HTTP://Example.COM:80 | http://example.com/
        https://example.com:443/a/../b/./c?q#part | https://example.com/b/c?q
        http://münchen.de/straße?größe=ä
            | http://xn--mnchen-3ya.de/stra%C3%9Fe?gr%C3%B6%C3%9Fe=%C3%A4
        http://user:secret@a.test/@x?y@z | http://a.test/@x?y@z
        http://a.test. | http://a.test./
        "  http://a.test/x y\n" | http://a.test/x%20y
        "http://a.test/\udcff" | http://a.test/%EF%BF%BD
        "http://a.test/\ud83d\ude00" | http://a.test/%F0%9F%98%80
    """,
)
def test_url_has_one_spelling(given_url, spelling):
    assert normalize(given_url) == spelling


@each(
    "nonsense",
        *lines("""
        example.com
        http://
        http://a.test:99999/
        http://a%00b/
        mailto:a@b.test
        ftp://a.test/
        """),
        "",
        "http://\ud800/",

)  # fmt: skip
def test_what_cannot_be_fetched_is_none(nonsense):
    assert normalize(nonsense) is None


def test_reference_is_resolved_against_its_base():
    base = "http://a.test/dir/page.html?q"
    assert normalize("../x", base) == "http://a.test/x"
    assert normalize("//b.test/y", base) == "http://b.test/y"
    assert normalize("?p=1", base) == "http://a.test/dir/page.html?p=1"
    assert normalize("", base) == base
    assert normalize("x", "no base") is None


def test_bytes_are_read_as_a_location_header():
    assert normalize("http://a.test/é".encode()) == "http://a.test/%C3%A9"
    assert normalize(b"http://a.test/\xe9") == "http://a.test/%E9"
    assert normalize(b"http://\xff.test/") is None
    assert normalize(b"/x", "http://a.test/") == "http://a.test/x"


def test_other_schemes_are_fetchable_when_asked_for():
    schemes = frozenset({"http", "ftp", "gopher"})
    assert normalize("ftp://me@A.test/f", schemes=schemes) == "ftp://a.test/f"
    assert normalize("gopher://a.test/1x", schemes=schemes) == "gopher://a.test/1x"
    assert normalize("https://a.test/", schemes=schemes) is None
    assert normalize("mailto:a@b.test", schemes=frozenset({"mailto"})) is None


@each(
    "given_url spelling",*table("""
        ftp://me:secret@A.Test:21/a/../b;type=i | ftp://a.test/b;type=i
        ftp://a.test:80/%2Fetc                  | ftp://a.test:80/%2Fetc
        gopher://A.Test:70/0/Some Text%09x#y    | gopher://a.test/0/Some%20Text%09x
        gopher://a.test                         | gopher://a.test/
        gopher://a.test:80/1                    | gopher://a.test:80/
        gopher://me:secret@a.test/1x@y          | gopher://a.test/1x@y
        gopher://me@a.test?x@b.test/            | gopher://a.test/?x@b.test/
        gopher://münchen.test/0ä                | gopher://xn--mnchen-3ya.test/0%C3%A4
        gopher://0x7f.1:0070/                   | gopher://127.0.0.1/
        gopher://[::0001]:7070/1x               | gopher://[::1]:7070/1x
        gopher:///0x                            |
        gopher://xn--修/                         |
        gopher://a b/                           |
        gemini://me@A.Test:1965/x/../y?z#f      | gemini://a.test/y?z
        gemini://a.test:70                      | gemini://a.test:70/
        X-Own+1.0://A.Test:70/b                 | x-own+1.0://a.test:70/b
        mailto:a@b.test                         |
        file:///etc/passwd                      |
    """)
)  # fmt: skip
def test_ftp_and_gopher_urls_have_one_spelling_too(given_url, spelling):
    assert normalize(given_url, schemes=SCHEMES) == (spelling or None)


@each(
    "line url",
    *table("""
        example.com               | http://example.com/
        example.com:8080          | http://example.com:8080/
        example.com:8080/x        | http://example.com:8080/x
        //example.com/x           | http://example.com/x
        https://example.com       | https://example.com/
        bücher.example            | http://xn--bcher-kva.example/
        192.0.2.1                 | http://192.0.2.1/
        [2001:db8::1]:81/x        | http://[2001:db8::1]:81/x
        mailto:me@example.com     |
        FTP://Example.com         | ftp://example.com/
        gopher://Example.com:70/1 | gopher://example.com/
        not a host                |
        """),
    ("  Example.com/a ", "http://example.com/a"),
    ("", None),
)
def test_seed_may_lack_its_scheme(line, url):
    assert normalize_seed(line) == (url or None)


@given(
    st.sampled_from(["", "http://", "ftp://", "gopher://", "gopher://a.test", "Gopher:"]),
    any_text | st.binary() | st.text("aA.:/@?#[]1%\\ \t\n-"),
    st.none() | any_text,
)
@example("http://", "\ud800@a.test/", None)
@example("http://", "a.test/#\x00", None)
def test_normalizing_never_raises_and_is_final(start, rest, base):
    for schemes in (HTTP_SCHEMES, SCHEMES):
        url = rest if isinstance(rest, bytes) else start + rest
        first = normalize(url, base, schemes=schemes)
        if first is not None:
            assert normalize(first, schemes=schemes) == first
            assert first.isascii()
            assert first.isprintable()
            assert " " not in first
            assert "#" not in first
            assert first.partition(":")[0] in schemes
            assert first.partition("://")[2].partition("/")[1] == "/"


@given(any_text)
def test_no_seed_line_raises(line):
    url = normalize_seed(line)
    assert url is None or normalize(url, schemes=SCHEMES) == url


@given(
    st.sampled_from(
        [("http", 80), ("https", 443), ("hTTps", 443), ("ftp", 21), ("gopher", 70), ("Gopher", 70)]
    ),
    authority,
    st.sampled_from(["/", "?"]),
    st.text("/.@:?#a%\\ \t", max_size=20),
)
def test_server_that_is_contacted_never_changes(scheme, authority, mark, rest):
    name, default = scheme
    credentials, host, port = authority
    url = normalize(f"{name}://{credentials}{host}{port}{mark}{rest}", schemes=SCHEMES)
    assert url is not None
    parts = urlsplit(url)
    assert (parts.scheme, parts.hostname) == (name.lower(), host)
    assert (parts.port or default) == (int(port[1:] or default) if port else default)
    assert parts.username is None
    assert host_of(url) == host.removesuffix(".")
    assert origin_of(url) == f"{name.lower()}://{parts.netloc}"
