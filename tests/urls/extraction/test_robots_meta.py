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


GOOGLE = "developers.google.com/search/docs/crawling-indexing/robots-meta-tag"
NUTCH = "Nutch, HTMLMetaProcessor: a directive counts wherever it stands in the value"
MDN = "MDN, X-Robots-Tag: one header for several crawlers"

# Directives as a header and an element may separate them.
SEPARATED = [
    ("", NOTHING, GOOGLE),
    ("noindex", NOINDEX, GOOGLE),
    (" NoIndex , NOFOLLOW ", BOTH, GOOGLE),
    ("none", BOTH, GOOGLE),
    ("all", NOTHING, GOOGLE),
    ("index, follow", NOTHING, GOOGLE),
    ("noarchive", NOARCHIVE, GOOGLE),
    ("nocache", NOARCHIVE, "Bing"),
    ("bogus,,noindex", NOINDEX, GOOGLE),
    ("noimageindex, nosnippet, notranslate", NOTHING, GOOGLE),
    ("max-snippet: -1, noindex", NOINDEX, GOOGLE),
    ("max-image-preview:none", NOTHING, GOOGLE),
    ("max-image-preview : none, max-video-preview=none, nofollow", NOFOLLOW, GOOGLE),
    ("max-snippet, noindex", NOINDEX, GOOGLE),
    ("unavailable_after: Fri, 25 Jun 2010 15:00:00 PST, noindex", NOINDEX, GOOGLE),
    ("unavailable_after: 25 Jun 2010 15:00:00 PST", NOTHING, GOOGLE),
    ("unavailable_after: Saturday, 25-Jun-10 15:00:00 GMT; nofollow", NOFOLLOW, GOOGLE),
    ("unavailable_after: 2010-06-25T15:00-08:00, nofollow", NOFOLLOW, GOOGLE),
    ("unavailable_after", NOTHING, GOOGLE),
    ("noindex nofollow", BOTH, NUTCH),
    ("noindex;nofollow", BOTH, NUTCH),
    ("noindex; nofollow;", BOTH, NUTCH),
    ("noindex/nofollow", BOTH, NUTCH),
    ("noindex|nofollow", BOTH, NUTCH),
    ("noindex+nofollow", BOTH, NUTCH),
    ("noindex.nofollow", BOTH, NUTCH),
    ("noindex-nofollow", BOTH, NUTCH),
    ("noindexnofollow", BOTH, NUTCH),
    ("noindex\t\nnofollow", BOTH, NUTCH),
    ("'noindex', \"nofollow\"", BOTH, NUTCH),
    ("\xa0noindex\xa0nofollow", BOTH, NUTCH),
    ("noindex=true", NOINDEX, NUTCH),
    ("noindex:", NOINDEX, NUTCH),
    ("index, follow; noarchive", NOARCHIVE, NUTCH),
    ("15:00, noindex", NOINDEX, NUTCH),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected", "source"), SEPARATED)
def test_directives_are_found_however_they_are_separated(value, expected, source):
    header = robots_directives(agent="webcrawl/2.0", headers=[value.encode("latin-1")])
    element = robots_directives(agent="webcrawl", metas=[("robots", value)])
    assert (header, element) == (expected, expected)


@pytest.mark.parametrize(
    ("value", "expected", "source"),
    [
        ("webcrawl: noindex", NOINDEX, GOOGLE),
        ("WebCrawl:noindex", NOINDEX, GOOGLE),
        ("otherbot: noindex", NOTHING, GOOGLE),
        ("otherbot: noindex, nofollow", NOTHING, GOOGLE),
        ("otherbot: noindex, nofollow, webcrawl: nofollow", NOFOLLOW, MDN),
        ("webcrawl: nofollow, otherbot: noindex", NOFOLLOW, MDN),
        ("noindex, otherbot: nofollow", NOINDEX, MDN),
        ("otherbot: max-snippet: 5, noindex", NOTHING, MDN),
        ("otherbot: noindex webcrawl: nofollow", NOFOLLOW, NUTCH),
        ("otherbot: noindex; nofollow", NOTHING, NUTCH),
        ("360spider : noindex", NOTHING, GOOGLE),
        ("webcrawler: noindex, my-webcrawl: noindex", NOTHING, GOOGLE),
        ("webcrawl: unavailable_after: 2010-06-25T15:00-08:00, nofollow", NOFOLLOW, GOOGLE),
        ("otherbot: unavailable_after: 25 Jun 2010 15:00:00 PST, noindex", NOTHING, GOOGLE),
        ("*: noindex", NOINDEX, "as in robots.txt"),
        ("robots: noindex", NOINDEX, "as the element is called"),
    ],
)
def test_a_name_in_the_header_is_whom_the_directives_behind_it_are_for(value, expected, source):
    assert header(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("otherbot: noindex", NOINDEX), ("otherbot: noindex, nofollow", BOTH)],
)
def test_a_name_in_the_content_of_an_element_has_no_meaning(value, expected):
    # Google knows names in the header alone; Nutch finds the directives behind it.
    assert robots_directives(agent="webcrawl", metas=[("robots", value)]) == expected


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
