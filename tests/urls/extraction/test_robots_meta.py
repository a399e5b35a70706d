"""What pages say about their own indexing."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict
from text_tables import cases, each, pieces, table

from webcrawl.urls import Link
from webcrawl.urls.extraction.robots_meta import robots_directives, without_nofollow


def said(directives):
    """The names of those that are set, in one line."""
    return " ".join(name for name, is_set in asdict(directives).items() if is_set)


def header(*values):
    directives = robots_directives(
        tokens=("webcrawl",), headers=[one.encode("latin-1") for one in values]
    )
    return said(directives)


def element(*metas, **more):
    return said(robots_directives(tokens=("webcrawl",), metas=metas, **more))


# Google says so on developers.google.com/search/docs/crawling-indexing/robots-meta-tag, Nutch in
# HTMLMetaProcessor (a directive counts wherever it stands in the value), and MDN under X-Robots-Tag
# (one header for several crawlers).


# Directives as a header and an element may separate them.
@cases(
    "value expected source",
    r"""
    noindex                                                       | noindex          | Google
    none                                                          | noindex nofollow | Google
    all                                                           |                  | Google
    index, follow                                                 |                  | Google
    noarchive                                                     | noarchive        | Google
    nocache                                                       | noarchive        | Bing
    bogus,,noindex                                                | noindex          | Google
    noimageindex, nosnippet, notranslate                          |                  | Google
    max-snippet: -1, noindex                                      | noindex          | Google
    max-image-preview:none                                        |                  | Google
    max-image-preview : none, max-video-preview=none, nofollow    | nofollow         | Google
    max-snippet, noindex                                          | noindex          | Google
    unavailable_after: Fri, 25 Jun 2010 15:00:00 PST, noindex     | noindex          | Google
    unavailable_after: 25 Jun 2010 15:00:00 PST                   |                  | Google
    unavailable_after: Saturday, 25-Jun-10 15:00:00 GMT; nofollow | nofollow         | Google
    unavailable_after: 2010-06-25T15:00-08:00, nofollow           | nofollow         | Google
    unavailable_after                                             |                  | Google
    noindex nofollow                                              | noindex nofollow | Nutch
    noindex;nofollow                                              | noindex nofollow | Nutch
    noindex; nofollow;                                            | noindex nofollow | Nutch
    noindex/nofollow                                              | noindex nofollow | Nutch
    noindex|nofollow                                              | noindex nofollow | Nutch
    noindex+nofollow                                              | noindex nofollow | Nutch
    noindex.nofollow                                              | noindex nofollow | Nutch
    noindex-nofollow                                              | noindex nofollow | Nutch
    noindexnofollow                                               | noindex nofollow | Nutch
    "'noindex', \"nofollow\""                                     | noindex nofollow | Nutch
    noindex=true                                                  | noindex          | Nutch
    noindex:                                                      | noindex          | Nutch
    index, follow; noarchive                                      | noarchive        | Nutch
    15:00, noindex                                                | noindex          | Nutch
    ""                            |                  | Google
    " NoIndex , NOFOLLOW "        | noindex nofollow | Google
    "noindex\t\nnofollow"         | noindex nofollow | Nutch
    "\xa0noindex\xa0nofollow"     | noindex nofollow | Nutch
""",
)
def test_directives_are_found_however_they_are_separated(value, expected, source):
    assert header(value) == element(("robots", value)) == expected


NAMES = """
    webcrawl: noindex                                              | noindex  | Google
    WebCrawl:noindex                                               | noindex  | Google
    otherbot: noindex                                              |          | Google
    otherbot: noindex, nofollow                                    |          | Google
    otherbot: noindex, nofollow, webcrawl: nofollow                | nofollow | MDN
    webcrawl: nofollow, otherbot: noindex                          | nofollow | MDN
    noindex, otherbot: nofollow                                    | noindex  | MDN
    otherbot: max-snippet: 5, noindex                              |          | MDN
    otherbot: noindex webcrawl: nofollow                           | nofollow | Nutch
    otherbot: noindex; nofollow                                    |          | Nutch
    360spider : noindex                                            |          | Google
    webcrawler: noindex, my-webcrawl: noindex                      |          | Google
    webcrawl: unavailable_after: 2010-06-25T15:00-08:00, nofollow  | nofollow | Google
    otherbot: unavailable_after: 25 Jun 2010 15:00:00 PST, noindex |          | Google
    *: noindex                                                     | noindex  | robots.txt
    robots: noindex                                                | noindex  | the element
"""


@each("value expected source", *table(NAMES))
def test_a_name_in_the_header_is_whom_the_directives_behind_it_are_for(value, expected, source):
    assert header(value) == expected


@cases(
    "value expected",
    """
        otherbot: noindex           | noindex
        otherbot: noindex, nofollow | noindex nofollow
    """,
)
def test_a_name_in_the_content_of_an_element_has_no_meaning(value, expected):
    # Google knows names in the header alone; Nutch finds the directives behind it.
    assert element(("robots", value)) == expected


def test_headers_and_elements_add_up():
    both = "noindex nofollow"
    assert header("noindex", "otherbot: noarchive", "webcrawl: nofollow") == both
    metas = [("robots", "NOINDEX"), ("webcrawl", "nofollow"), ("otherbot", "noarchive")]
    assert element(*metas) == both
    assert element(metas[0], headers=[b"nofollow"]) == both
    assert element() == ""


def test_links_with_nofollow_are_told_from_the_others():
    kept = [Link("http://a.test/1"), Link("http://a.test/2", rel="nofollowed ugc")]
    links = [*kept, Link("http://a.test/3", rel="ugc nofollow")]
    assert without_nofollow(links) == kept


DENSE = """
    noindex unavailable_after : , _ webcrawl * 25_Jun 2010-06-25 T25 9999-12-31 0001-01-01 +24:00
    Fri 99999999999999999999 GMT -
"""
value = st.lists(st.sampled_from([*pieces(DENSE), "unavailable_after"]) | st.text(max_size=5)).map(
    "".join
)


@given(st.lists(value.map(lambda text: text.encode("utf-8", "replace")) | st.binary()), value)
def test_no_robots_directives_raise(headers, content):
    robots_directives(tokens=("webcrawl",), headers=headers, metas=[("robots", content)])
