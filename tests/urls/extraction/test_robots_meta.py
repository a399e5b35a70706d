"""What pages say about their own indexing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webcrawl.urls import Link
from webcrawl.urls.extraction.robots_meta import RobotsDirectives, followed, robots_directives

NOTHING = RobotsDirectives()
NOINDEX = RobotsDirectives(noindex=True)
NOFOLLOW = RobotsDirectives(nofollow=True)
NOARCHIVE = RobotsDirectives(noarchive=True)
BOTH = RobotsDirectives(noindex=True, nofollow=True)


def header(*values, agent="webcrawl/2.0"):
    return robots_directives(agent=agent, headers=[value.encode() for value in values])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", NOTHING), ("noindex", NOINDEX), (" NoIndex , NOFOLLOW ", BOTH), ("none", BOTH),
        ("noarchive", NOARCHIVE), ("nocache", NOARCHIVE),
        ("all", NOTHING), ("index, follow", NOTHING), ("bogus,,noindex", NOINDEX),
        ("webcrawl: noindex", NOINDEX), ("WebCrawl:noindex", NOINDEX),
        ("otherbot: noindex", NOTHING),
        ("otherbot: noindex, nofollow, webcrawl: nofollow", NOFOLLOW), ("*: noindex", NOINDEX),
        ("noindex, otherbot: nofollow", NOINDEX), ("max-snippet: -1, noindex", NOINDEX),
        ("otherbot: max-snippet: 5, noindex", NOTHING), ("noindex:", NOTHING),
        ("unavailable_after: Fri, 25 Jun 2010 15:00:00 PST, noindex", NOINDEX),
        ("webcrawl: unavailable_after: 2010-06-25T15:00-08:00, nofollow", NOFOLLOW),
        ("unavailable_after", NOTHING),
    ],
)  # fmt: skip
def test_header_is_read_by_its_grammar(value, expected):
    assert header(value) == expected


def test_headers_and_elements_add_up():
    assert header("noindex", "otherbot: noarchive", "webcrawl: nofollow") == BOTH
    metas = [("robots", "NOINDEX"), ("webcrawl", "nofollow"), ("otherbot", "noarchive")]
    assert robots_directives(agent="WebCrawl", metas=metas) == BOTH
    assert robots_directives(agent="webcrawl", metas=metas[:1], headers=[b"nofollow"]) == BOTH
    assert robots_directives(agent="webcrawl") == NOTHING


def test_links_with_nofollow_are_told_from_the_others():
    kept = [Link("http://a.test/1"), Link("http://a.test/2", rel="nofollowed ugc")]
    links = [*kept, Link("http://a.test/3", rel="ugc nofollow")]
    assert followed(links) == kept


value = st.lists(
    st.sampled_from(
        ["noindex", "unavailable_after", ":", ",", " ", "webcrawl", "*", "25 Jun", "2010-06-25",
         "T25", "9999-12-31", "0001-01-01", "+24:00", "Fri", "99999999999999999999", "GMT", "-"]
    )
    | st.text(max_size=5)
).map("".join)  # fmt: skip


@given(st.lists(value.map(lambda text: text.encode("utf-8", "replace")) | st.binary()), value)
def test_no_robots_directives_raise(headers, content):
    robots_directives(agent="webcrawl", headers=headers, metas=[("robots", content)])
