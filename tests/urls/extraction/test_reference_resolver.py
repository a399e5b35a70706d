"""The short cuts for plain paths and known directories give what the long way gives."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from strategies import examples
from text_tables import cases, each, table, words

from webcrawl.urls import SCHEMES, normalize
from webcrawl.urls.extraction.reference_resolver import ReferenceResolver

VECTORS = Path(__file__).parents[2] / "data" / "wpt-urltestdata.json"

# Dense in what decides between the short cut and the long way.
reference = st.text("aZ9/.-_~%2eE?#&=:;@!$'()*+,\\ \t\n\x00|^`{}[]<>\"é", max_size=24)
plain = st.from_regex(
    r"/?([A-Za-z0-9._~%2eE!$&'()*+,;=@-]{1,5}/){0,3}[A-Za-z0-9._~-]{0,5}(\?[a-z0-9=&%+!$()*]{0,5})?(#[a-z]{0,3})?",
    fullmatch=True,
)
whole = st.from_regex(
    r"(http|https|ftp|HTTP)://(xn--|-|[a-z0-9-]{0,4}\.){0,3}(xn--[a-z]{0,2}|[a-z0-9A-Z-]{1,4}|0x7f|1)\.?"
    r"(:[0-9]{0,5}|:80|:443)?(/[A-Za-z0-9._~-]{0,5}){0,3}(\?[a-z0-9=&%+]{0,5})?(#[a-z]{0,3})?",
    fullmatch=True,
)
BASES = words("""
    http://a.test/ http://a.test/x/y/z.html https://a.test:8443/x?q=/1 http://a.test//x//
    http://a.test//page.html http://a.test/dir/sub/?x# http://[::1]/x/y http://[::1]/x/
    ftp://a.test//etc ftp://a.test:2121/pub/file;type=i gopher://a.test:7070/0text
    gopher://a.test/1/menu
""")
PIECES = words(r"""
    / // .. . x page.html ? q=1 # http: https: HTTP:// ftp: gopher: a.test B.test:80 user@ : \ %2e %
    é xn-- 1 0x7f [ ] @ file: javascript: data: ~ - _ ; & *
""")
reference_of_pieces = st.lists(st.sampled_from([*PIECES, " ", "\t", "\n"]), max_size=10).map(
    "".join
)


def agrees(base, references, codec="utf-8", schemes=SCHEMES):
    """Whether a resolver has the answers of normalize; directories that are known by then change
    none."""
    resolver = ReferenceResolver(base, codec=codec, schemes=schemes)
    for text in [*references, *[text + "/" for text in references], *references]:
        for suffix in ("", "name", "name?q=1#f", "?q", ".x", "..", "%2e%2E"):
            written = text + suffix
            if codec == "utf-8" or written.isascii():
                expected = normalize(written, base, schemes=schemes)
            else:
                expected = resolver.resolve(" " + written)  # dropped, but no dot
            assert resolver.resolve(written) == expected
    return True


@examples(700)
@given(
    st.sampled_from(BASES),
    st.lists(reference | plain | whole | reference_of_pieces, min_size=1, max_size=4),
    st.sampled_from(["utf-8", "cp1251"]),
    st.sampled_from([SCHEMES, frozenset({"http"}), frozenset({"https"})]),
)
def test_resolver_agrees_with_normalize(base, references, codec, schemes):
    assert agrees(base, references, codec, schemes)


@cases(
    "base references",
    r"""
        http://a.test/   | javascript:/ data:/ mailto:/x tel:/
        http://a.test/d/p | a:b ?x //x/y x/%2e%2e/y /
        http://a.test/d/p | http://b.test:80/x https://b.xn--zz/x
        http://a.test/d/p | https://b.test:8443/x?y#z http://1.2.3/x
        http://a.test/d/p | https://b.test:65000/ https://b.test:45678/x%zz%2e/%2e/a%2e%2e/
        http://a.test/d/p | x¶ x#a¶b
        https://a.test/   | http:/x http:///x //x ///x /\x/y
    """,
)
def test_resolver_agrees_with_normalize_where_it_once_did_not(base, references):
    assert agrees(base, ["", *(one.replace("¶", "\n") for one in words(references))])


def test_resolver_agrees_with_normalize_on_the_vectors_of_the_web_platform():
    for case in json.loads(VECTORS.read_text(encoding="utf-8")):
        if isinstance(case, dict):
            base = normalize(case["base"] or "http://example.org/foo/bar")
            if base is not None:
                assert ReferenceResolver(base).resolve(case["input"]) == normalize(
                    case["input"], base
                )


@each(
    "codec reference url",
    *table(r"""
        utf-8      | ?q=привет        | ?q=%D0%BF%D1%80%D0%B8%D0%B2%D0%B5%D1%82
        cp1251     | ?q=привет        | ?q=%EF%F0%E8%E2%E5%F2
        cp1251     | ?q=привет#привет | ?q=%EF%F0%E8%E2%E5%F2
        cp1251     | ?a=é&b=ж         | ?a=%26%23233%3B&b=%E6
        cp932      | ?ソ               | ?%83\
        iso2022_jp | ?日               | ?%1B$BF|%1B(B
        gb18030    | ?😀               | ?%949%FC6
        utf-16-le  | ?é               | ?%C3%A9
        cp1251     | /привет          | /%D0%BF%D1%80%D0%B8%D0%B2%D0%B5%D1%82
        cp1251     | /x#?ж            | /x
        """),
    ("cp1252", "?\ud800", "?%26%2355296%3B"),
)
def test_query_is_escaped_in_the_encoding_of_the_document(codec, reference, url):
    assert (
        ReferenceResolver("http://a.test/", codec=codec).resolve(reference)
        == "http://a.test/" + url[url.startswith("/") :]
    )


def test_only_schemes_that_are_asked_for_are_resolved():
    resolver = ReferenceResolver("ftp://a.test/d/f", schemes=frozenset({"ftp"}))
    assert resolver.resolve("g") == "ftp://a.test/d/g"
    assert resolver.resolve("http://a.test/") is None
    assert ReferenceResolver("http://a.test/", schemes=frozenset({"ftp"})).resolve("x") is None


def test_base_that_is_none_resolves_nothing_relative():
    assert ReferenceResolver("nonsense").resolve("x") is None


@cases(
    "text expected",
    """
        ../../c/1.html         | http://a.test/c/1.html
        ../../c/2.html?x=1#y   | http://a.test/c/2.html?x=1
        https://B.test:443/é/1 | https://b.test/%C3%A9/1
        https://B.test:443/é/  | https://b.test/%C3%A9/
        ../a/?b/c              | http://a.test/x/a/?b/c
        http://                |
        //b.test/../x/y        | http://b.test/x/y
    """,
)
def test_directory_is_resolved_once(text, expected):
    resolver = ReferenceResolver("http://a.test/x/y/z")
    assert resolver.resolve(text) == resolver.resolve(text) == (expected or None)
