"""Traps by their shape and known paths are refused; ordinary pages are not."""

from hypothesis import given
from hypothesis import strategies as st
from strategies import urls
from text_tables import cases, each, table

from webcrawl.urls.filters.chain import FilterChain, length_filter
from webcrawl.urls.filters.path_filters import (
    action_filter,
    calendar_filter,
    extension_filter,
    growing_segments_filter,
    listing_sort_filter,
    parameters_filter,
    repeated_segments_filter,
    segments_filter,
)

# As the settings have them by default, in the year 2026.
DEFAULTS = [
    segments_filter(20),
    repeated_segments_filter(3),
    growing_segments_filter(3),
    parameters_filter(16),
    listing_sort_filter(),
    calendar_filter(2031),
    action_filter(),
]

# Pages as sites have them, some of them at the edge of what the filters look for.
ORDINARY = """\
/
/index.html
/login
/login/
/cart
/account/login.php
/login-problems?id=3
/article?id=3&login=1
/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t
/en/en/en/page.html
/2024/05/05/05/05/x
/0/0/0/0/0/0/tile.png
/000/000/000/001/original.jpg
/a/1/a/2/a/3/a/4
/x/xx/xxx
/pool/main/d/de/deb/debian
/a/ab/abc/abcd
/1/11/111/1111
/page-1/page-1-1/page-1-1-1
/a.htmla.htmla.htmla.htmla.html
/a-title-of-many-words-that-is-longer-than-those-that-people-mostly-write.html?x=1
/shop/?orderby=price&dir=asc
/?C=contact
/?N=Dolores
/pub/?C
/x?C=M;O=A
/calendar/
/calendar/2026-12-24
/calendar/2031/12
/events/1848/03
/events/2020-05/2040
/event/2087
/event/203312
/event/20871-summer-party
/events/2099-conference
/reports/2087-05-projection.html
/prices?date=20260501
/?year=2031
/w/index.php?title=Main&action=history
/forum?do=show
/search?q=add-to-cart
/wiki/replytocom=
/list?a=1&b=2&c=3&d=4&e=5&f=6&g=7&h=8&i=9&j=10&k=11&l=12&m=13&n=14&o=15&p=16
/caf%C3%A9/?q=%C3%A9#x"""


@each("path", *ORDINARY.splitlines(), "/" + 150 * "0" + "1", "/" + 150 * "a", "/x/" + 64 * "-1")
def test_ordinary_page_passes(path):
    assert FilterChain(DEFAULTS).refusal(f"http://a.test{path}", 3) is None


@cases(
    "path name",
    """
        /x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/             | segments
        /0/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20 | segments
        /images/images/images/images/x.gif                    | repeated_segments
        /IMAGES/images/Images/images/                         | repeated_segments
        /en/shop/en/shop/en/shop/en/shop/                     | repeated_segments
        /x/a/1/a/1/a/1/a/1                                    | repeated_segments
        /a/1/a/2/a/3/a/4/a                                    | repeated_segments
        /a/b/c/a/b/c/a/b/c/a/b/c?x                            | repeated_segments
        /x/xx/xxx/xxxx                                        | growing_segments
        /x/xx/xxx/xxxx/xxxxx/y                                | growing_segments
        /Page-1/page-1-1/page-1-1-1/page-1-1-1-1/x.html       | growing_segments
        /y/ab/abab/ababab/abababab/x?y                        | growing_segments
        /pub/?C=N;O=D                                         | listing_sort
        /pub/?C=M&O=A                                         | listing_sort
        /pub/?C=S&amp;O=A                                     | listing_sort
        /pub/?C=D;O=A;F=1;V=1;P=*                             | listing_sort
        /?D=D                                                 | listing_sort
        /Calendar/2087/5/                                     | calendar
        /calendario?mes=x&date=2099-12-01                     | calendar
        /kalender/2040.12.24                                  | calendar
        /agenda?day=1&year=2032                               | calendar
        /x?month=203205                                       | calendar
        /x?startDate=20320501                                 | calendar
        /events/2026-05/?tribe-bar-date=2045-01-01            | calendar
        /login?next=/a                                        | action
        /product/3?add-to-cart=3                              | action
        /product/3?x=1&ADD_TO_WISHLIST=3                      | action
        /post?replytocom=8                                    | action
        /w/index.php?title=Main&action=edit&section=2         | action
        /wiki/start?do=edit                                   | action
                LONG_WORDS    | growing_segments
        LONG_NUMBERS  | growing_segments
        LONG_START    | growing_segments
        MANY          | parameters
    """,
    {
        "LONG_WORDS": "/" + 22 * "a.html",
        "LONG_NUMBERS": "/x/" + 70 * "-1" + ".html",
        "LONG_START": "/start-" + 20 * "and-on-" + "/x",
        "MANY": "/x?" + "&".join(f"p{number}=1" for number in range(17)),
    },
)
def test_trap_is_refused_by_name(path, name):
    chain = FilterChain(DEFAULTS)
    if name == "segments":
        chain = FilterChain(DEFAULTS[:1])
    assert chain.refusal(f"http://a.test{path}", 3) == name


@each("most", 1, 2, 5)
@each(
    "refusing name start unit",
    (segments_filter, "segments", "", "/x"),
    (parameters_filter, "parameters", "/?p", "&x"),
    (repeated_segments_filter, "repeated_segments", "", "/x"),
    (repeated_segments_filter, "repeated_segments", "", "/x/7"),
    (growing_segments_filter, "growing_segments", "/" + 130 * "y", "z.html"),
)
def test_limits_are_the_most_that_passes(refusing, name, start, unit, most):
    chain = FilterChain([refusing(most)])
    least = most - 1 if name == "parameters" else most  # the start has one
    assert chain.refusal(f"http://a.test{start}{least * unit}", 0) is None
    assert chain.refusal(f"http://a.test{start}{(least + 1) * unit}", 0) == name


@given(st.lists(st.sampled_from("abc"), max_size=4), st.lists(st.sampled_from("abc7"), max_size=4))
def test_group_that_is_repeated_is_found_wherever_it_stands(before, group):
    url = "http://a.test/" + "/".join([*before, *(4 * group), "end"])
    refused = FilterChain([repeated_segments_filter(3)]).refusal(url, 0)
    if any(not part.isdigit() for part in group):
        assert refused == "repeated_segments"


def test_long_path_is_looked_through_in_no_time():
    """All of 1,000 segments are two that alternate in no period of eight."""
    segments = [f"s{number % 251}" for number in range(1000)]
    chain = FilterChain([repeated_segments_filter(3)])
    assert chain.refusal("http://a.test/" + "/".join(segments), 0) is None
    assert chain.refusal("http://a.test/" + "/".join([*segments, *"xxxx"]), 0) is not None


@each("most", 1, 2, 5)
def test_limit_of_growth_is_the_most_that_passes(most):
    growing = FilterChain([growing_segments_filter(most)])
    path = "/".join("x" * size for size in range(1, most + 1))
    assert growing.refusal(f"http://a.test/{path}", 0) is None
    assert growing.refusal(f"http://a.test/{path}/{'x' * (most + 1)}", 0) == "growing_segments"


@given(st.text("ab-.", min_size=1, max_size=6), st.text("ab1.", max_size=6))
def test_urls_that_grow_by_repetition_are_refused_in_the_end(piece, start):
    """Whatever a link appends to the segment or path it stands on, the limits end it."""
    chain = FilterChain([length_filter(2048), *DEFAULTS])
    found = set()
    for times in (3, 140, 2048):
        segment = start + times * piece
        path = "/".join(start + number * piece for number in range(1, min(times, 10)))
        found |= {chain.refusal(f"http://a.test/{one}", 0) for one in (segment, path)}
    assert "length" in found
    if len(set(piece)) > 1:
        assert "growing_segments" in found


@each(
    "path refused",
    *table("""
        /x.zip         | extension
        /x.ZIP?y=.html | extension
        /x.tar.gz      | extension
        /x.html        |
        /x.zip/        |
        /x             |
        /?x.zip        |
        /              |
    """),
)
def test_extensions_are_those_of_the_last_segment(path, refused):
    chain = FilterChain([extension_filter(frozenset({"zip", "gz"}))])
    assert chain.refusal(f"http://a.zip{path}", 0) == (refused or None)


@given(st.text(st.characters(codec=None)) | urls())
def test_no_text_makes_a_filter_raise(url):
    FilterChain([*DEFAULTS, extension_filter(frozenset({"x"}))]).refusal(url, 1, "a.test")
