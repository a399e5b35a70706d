"""Links in response headers."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webcrawl.urls import Link, normalize
from webcrawl.urls.extraction.header_links import MAX_HEADER_BYTES, extract_header_links
from webcrawl.urls.extraction.kinds import KINDS

URL = "http://a.test/dir/page"


def links(*values, refresh=None, limit=100, kinds=KINDS):
    return extract_header_links(values, refresh, url=URL, limit=limit, kinds=kinds)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"</x>; rel=next", [Link("http://a.test/x", "", "next", "next")]),
        (b'<?p=2>; rel="Next  nofollow"; title=" Page \\"2\\" "',
         [Link("http://a.test/dir/page?p=2", 'Page "2"', "next", "next nofollow")]),
        (b"</a>;rel=prev,</b>; rel=canonical",
         [Link("http://a.test/a", "", "prev", "prev"),
          Link("http://a.test/b", "", "canonical", "canonical")]),
        (b'</a,b>; rel=x; title="a, <b>; c", <c>',
         [Link("http://a.test/a,b", "a, <b>; c", "link", "x"),
          Link("http://a.test/dir/c", "", "link", "")]),
        (b'</a>; rel=next; rel=prev; anchor="#x"', [Link("http://a.test/a", "", "next", "next")]),
        (b"</a> ; REL = 'x'; crossorigin ;; nonsense, </b>",
         [Link("http://a.test/a", "", "link", "'x'"), Link("http://a.test/b", "", "link", "")]),
        (b"junk </a> junk </no>; rel=next, junk, </b>",
         [Link("http://a.test/a", "", "link", ""), Link("http://a.test/b", "", "link", "")]),
        (b'</a>; title="not closed, </no>', [Link("http://a.test/a", "not closed, </no>", "link")]),
        ("</é>; title=é".encode(), [Link("http://a.test/%C3%A9", "é", "link")]),
        ("</é>; title=é".encode("latin-1"), [Link("http://a.test/%C3%A9", "é", "link")]),
        (b"<#x>, <>, <mailto:a@b.test>, </never", []), (b"", []), (b"x", []),
        (b"</a>, </a>; rel=next", [Link("http://a.test/a", "", "link")]),
    ],
)  # fmt: skip
def test_link_header_is_read_as_the_standard_says(value, expected):
    assert links(value) == expected


def test_values_of_several_headers_add_up_to_the_limit():
    assert [link.url[-1] for link in links(b"</a>", b"</b>, </c>, </d>", limit=3)] == [
        "a",
        "b",
        "c",
    ]
    assert links(b"</a>", limit=0) == []


def test_only_the_kinds_asked_for_are_found():
    value = b"</s.css>; rel=preload; as=style, <//cdn.test>; rel=preconnect, </de>; rel=alternate"
    assert [link.kind for link in extract_header_links([value], url=URL, limit=9)] == ["alternate"]


def test_refresh_header_is_a_link():
    assert links(refresh=b"5; url=/x") == [Link("http://a.test/x", "", "refresh")]
    assert links(refresh=b"5; url=/x", kinds=frozenset({"a"})) == []
    assert links(refresh=b"5") == []


@pytest.mark.parametrize("piece", [b"<", b"<>", b"<a>;", b'<a>;x="', b'<a>;x="\\', b" ;", b"<a>,"])
def test_long_headers_are_cut(piece):
    value = piece * (MAX_HEADER_BYTES // len(piece))
    started = time.thread_time()
    links(*[value] * 50)
    assert time.thread_time() - started < 1
    assert links(b" " * MAX_HEADER_BYTES, b"</a>") == []


@given(
    st.lists(
        st.binary()
        | st.lists(st.sampled_from(["<", ">", ";", ",", "rel", "=", '"', "\\", "/x", "next", " "]))
        .map("".join)
        .map(str.encode)
    ),
    st.none() | st.binary(),
)
def test_no_bytes_raise_and_all_links_are_normalized(values, refresh):
    for link in links(*values, refresh=refresh):
        assert normalize(link.url) == link.url
