"""References in style sheets."""

from __future__ import annotations

import pytest
from holding import gives_way
from hypothesis import given
from hypothesis import strategies as st

from webcrawl.urls import Link, normalize
from webcrawl.urls.extraction.css import css_references, iter_css_links
from webcrawl.urls.extraction.document import MarkupDocument, resolved

URL = "http://a.test/dir/style.css"


def links(body, *, charset=None, limit=1000):
    found = resolved(iter_css_links(MarkupDocument(body, URL, charset)), URL, limit=limit)
    return [link for link in found if link is not None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p { background: url(a) }", [("css", "a")]),
        ("URL( 'a' ) Url(\"b\")", [("css", "a"), ("css", "b")]),
        ("@import 'a'; @IMPORT url(b) screen; @import\nurl(\"c\");@import\"d\"",
         [("stylesheet", "a"), ("stylesheet", "b"), ("stylesheet", "c"), ("stylesheet", "d")]),
        ("@font-face { src: url(a) format('woff'), url(b) }", [("css", "a"), ("css", "b")]),
        ("/* url(a) */ url(b)", [("css", "b")]),
        ("content: 'url(a)'; x: url(b)", [("css", "b")]),
        ("content: 'it\\'s url(a)'", []),
        ("content: 'never closed\n x: url(a)", [("css", "a")]),
        ("/* never closed url(a)", []),
        ("/***/* { x: url(a) } /* */url(b)", [("css", "a"), ("css", "b")]),
        ("url('a", []),
        ("@import 'a\\", []),
        ("myurl(a) my-url(b)", []),
        ("url() url('') url(a b) url(a'b)", [("css", ""), ("css", "")]),
        (r"url(a\)b) url('a\'b') url(\61 b) url(\000061b) url('a\
b') url(\110000)", [("css", "a)b"), ("css", "a'b"), ("css", "ab"), ("css", "ab"), ("css", "ab"),
                    ("css", "\ufffd")]),
        ("url(a) @import 'b'; url(c)", [("css", "a"), ("stylesheet", "b"), ("css", "c")]),
    ],
)  # fmt: skip
def test_references_are_read_as_the_standard_says(text, expected):
    assert [(link.kind, link.url) for link in css_references(text)] == expected


def test_links_of_a_style_sheet():
    body = b"@import 'base.css'; p { x: url(/i.png) } q { x: url(/i.png) } r { x: url(#id) }"
    assert links(body) == [
        Link("http://a.test/dir/base.css", "", "stylesheet"),
        Link("http://a.test/i.png", "", "css"),
    ]
    assert links(body, limit=1) == links(body)[:1]
    assert links(body, limit=0) == []
    assert links("url('/ж?ж')".encode("cp1251"), charset="windows-1251")[0].url == (
        "http://a.test/%D0%B6?%E6"
    )


def test_references_are_bounded():
    assert links(b"url(a)" * 8 + b"url(b)", limit=2) == links(b"url(a)")
    assert links(b"url(%b) url() url(b)" % (b"x" * 9000)) == links(b"url(b)")


@given(
    st.binary()
    | st.lists(
        st.sampled_from(["url(", ")", "'", '"', "\\", "/*", "*/", "@import", " ", "a", "\n"])
    )
    .map("".join)
    .map(str.encode)
)
def test_no_bytes_raise_and_all_links_are_normalized(body):
    for link in links(body):
        assert normalize(link.url) == link.url


@pytest.mark.parametrize(
    "piece", ["'", '"a"', "/**/", "a{}", "url(#)", "url(x)", "url(", "\\", "@import"]
)
def test_reading_a_style_sheet_never_blocks_the_event_loop(piece):
    body = (piece * ((1 << 20) // len(piece))).encode()
    assert gives_way(lambda: iter_css_links(MarkupDocument(body, URL, "utf-8")), secs=0.04)
