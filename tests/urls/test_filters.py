"""Refusals by name."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import urls

from webcrawl.urls import HTTP_SCHEMES
from webcrawl.urls.filters import chain as filters
from webcrawl.urls.filters.chain import (
    FilterChain,
    LengthFilter,
    SchemeFilter,
)
from webcrawl.urls.filters.path_filters import (
    CalendarFilter,
    ParametersFilter,
    RepeatedSegmentsFilter,
)
from webcrawl.urls.filters.scope import (
    OwnDomainFilter,
    PatternFilter,
    PortFilter,
    RestrictFilter,
    patterns_from,
)

URL = "http://a.test/"
PAGES = [
    *(
        "http://a.test/x/x/x/x",
        "http://a.test/calendar/2040-01",
        "http://b.test/?a&b",
        "http://a.test",
    ),
    *("http://a.test:25/", "ftp://a.test/", "http://www.a.test/x?", "http://b.test/" + 30 * "y"),
]


def test_first_filter_that_refuses_gives_its_name():
    chain = FilterChain([SchemeFilter(HTTP_SCHEMES), LengthFilter(20)], max_depth=2)
    assert chain.refusal(URL, 2) is None
    assert chain.refusal("ftp://a.test/", 9) == "scheme"
    assert chain.refusal(URL + "x" * 7, 9) == "length"
    assert chain.refusal(URL, 3) == "depth"


def test_refusals_are_counted_by_name():
    chain = FilterChain([SchemeFilter(HTTP_SCHEMES), LengthFilter(20)], max_depth=2)
    for url, depth in [(URL, 0), (URL, 3), (URL, 4), (URL * 9, 0), ("gopher://a.test/", 0)]:
        chain.refusal(url, depth)
    assert chain.refused == {"depth": 2, "length": 1, "scheme": 1}


@pytest.mark.parametrize(("length", "refused"), [(2048, None), (2049, "length")])
def test_url_of_exactly_the_length_passes(length, refused):
    chain = FilterChain([LengthFilter(2048)])
    assert chain.refusal(URL.ljust(length, "x"), 0) == refused


def test_schemes_are_those_that_can_be_fetched():
    chain = FilterChain([SchemeFilter(frozenset({"ftp"}))])
    assert chain.refusal("ftp://a.test/", 0) is None
    assert chain.refusal(URL, 0) == "scheme"


def test_chain_takes_filters_of_the_user():
    class NoQuery:
        name = "query"

        def refuses(self, url):
            return bool(url.query)

    chain = FilterChain([NoQuery()], max_depth=1)
    assert chain.refusal(URL + "?x", 0) == "query"
    assert chain.refusal(URL, 1) is None


def test_empty_chain_refuses_nothing():
    assert FilterChain([]).refusal("x", 9) is None


class Asked:
    """A filter of every kind that refuses nothing and remembers what it was asked."""

    name = "asked"

    def __init__(self):
        self.asked = []

    def refuses(self, url):
        self.asked.append(("url", *url.segments, url.query))
        return False

    def refuses_server(self, scheme, host, port):
        self.asked.append(("server", scheme, host, port))
        return False

    def refuses_link(self, host, page_host):
        self.asked.append(("link", host, page_host))
        return False


@pytest.mark.parametrize(
    ("url", "questions"),
    [
        ("http://a.test/x/y", [("server", "http", "a.test", None), ("url", "x", "y", "")]),
        (
            "ftp://a/X/y/",
            [("server", "ftp", "a", None), ("url", "x", "y", "", ""), ("link", "a", "a.test")],
        ),
        (
            "https://[::1]:81/X?Y=/Z/",
            [
                ("server", "https", "::1", 81),
                ("url", "x", "Y=/Z/"),
                ("link", "::1", "a.test"),
            ],
        ),
        ("http://a.test/?", [("server", "http", "a.test", None), ("url", "", "")]),
        (
            "http://b.test:8080",
            [
                ("server", "http", "b.test", 8080),
                ("url", "", ""),
                ("link", "b.test", "a.test"),
            ],
        ),
    ],
)
def test_filters_are_asked_what_they_need_to_know(url, questions):
    asked = Asked()
    assert FilterChain([asked]).refusal(url, 7, "a.test") is None
    assert asked.asked == questions


def test_server_that_passed_is_not_asked_about_again_within_bounds(monkeypatch):
    monkeypatch.setattr(filters, "_CACHED_SERVERS", 2)
    asked = Asked()
    chain = FilterChain([asked])
    for number, host in enumerate(("a", "a", "b", "a", "c", "c", "a")):
        chain.refusal(f"http://{host}.test/{number}", 0)
    assert [one[2][0] for one in asked.asked if one[0] == "server"] == ["a", "b", "c", "a"]


@pytest.mark.parametrize("scheme", ["ftp", "http", "https", "gopher"])
def test_each_server_of_a_scheme_is_asked_about(scheme):
    asked = Asked()
    chain = FilterChain([asked])
    for host in ("a", "b.test", "a"):
        chain.refusals([f"{scheme}://{host}/x", f"{scheme}://{host}/y/"], 0)
    assert [one[2] for one in asked.asked if one[0] == "server"] == ["a", "b.test"]


def test_url_that_passed_is_asked_about_again_only_for_its_depth_and_its_page(monkeypatch):
    monkeypatch.setattr(filters, "_CACHED_URLS", 2)
    asked = Asked()
    chain = FilterChain([asked], max_depth=2)
    url = "http://a.test/x/y/z"
    question, link = ("url", "x", "y", "z", ""), ("link", "a.test", "b.test")
    for _ in range(2):
        assert chain.refusal(url, 2, "b.test") is None
    assert asked.asked[1:] == [question, link, link]
    assert chain.refusal(url, 3, "b.test") == "depth"
    for number in range(3):  # more than are remembered
        chain.refusal(f"http://a.test/{number}", 1, "b.test")
    chain.refusal(url, 2, "b.test")
    assert asked.asked[-2:] == [question, link]


def test_url_that_was_refused_is_refused_again():
    chain = FilterChain([RepeatedSegmentsFilter(3)])
    for _ in range(2):
        assert chain.refusal("http://a.test/x/x/x/x", 0) == "repeated_segments"
    assert chain.refused == {"repeated_segments": 2}


def test_long_urls_are_not_remembered():
    asked = Asked()
    chain = FilterChain([asked])
    for _ in range(2):
        chain.refusal(f"http://a.test/?{'x' * 300}", 0)
    assert len([one for one in asked.asked if one[0] == "url"]) == 2


def test_server_that_was_refused_is_asked_about_again():
    class Closed:
        name = "closed"
        closed = True

        def refuses_server(self, scheme, host, port):
            return self.closed

    one = Closed()
    chain = FilterChain([one])
    assert chain.refusal(URL, 0) == "closed"
    one.closed = False
    assert chain.refusal(URL, 0) is None
    assert chain.refused == {"closed": 1}


def test_servers_of_long_names_are_not_remembered():
    asked = Asked()
    chain = FilterChain([asked])
    for _ in range(2):
        chain.refusal(f"http://{'x' * 300}.test/", 0)
    assert len([one for one in asked.asked if one[0] == "server"]) == 2


def test_refusals_of_every_kind_are_counted():
    class Refusing:
        def __init__(self, kind):
            self.name = kind
            setattr(self, kind, lambda *question: True)

    for kind in ("refuses", "refuses_server", "refuses_link"):
        chain = FilterChain([Refusing(kind)])
        assert chain.refusal("http://a.test/?x", 1, "b.test") == kind
        assert chain.refused == {kind: 1}


def test_page_that_is_a_seed_is_linked_from_nowhere():
    asked = Asked()
    FilterChain([asked]).refusal(URL, 0)
    assert not [one for one in asked.asked if one[0] == "link"]


@given(st.lists(urls() | st.sampled_from(PAGES), max_size=8), st.sampled_from(["", "a.test"]))
def test_links_of_a_page_are_refused_as_each_of_them_would_be(links, page_host):
    def chain():
        return FilterChain(
            [
                SchemeFilter(frozenset({"http"})),
                LengthFilter(30),
                PortFilter(frozenset()),
                RestrictFilter(patterns_from([r"http://[ab]\.test.*", ".*y.*"])),
                PatternFilter(patterns_from(["x$", r"\?a"])),
                RepeatedSegmentsFilter(3),
                ParametersFilter(1),
                CalendarFilter(2031),
                OwnDomainFilter(),
            ],
            max_depth=5,
        )

    for depth in (5, 6):
        at_once, one_by_one = chain(), chain()
        answers = at_once.refusals(links, depth, page_host)
        assert answers == [one_by_one.refusal(url, depth, page_host) for url in links]
        assert answers == one_by_one.refusals(links, depth, page_host)
        at_once.refusals(links, depth, page_host)
        assert answers == [chain().refusal(url, depth, page_host) for url in links]
        assert at_once.refused == one_by_one.refused


def test_expressions_do_not_see_urls_that_are_too_long():
    chain = FilterChain([LengthFilter(100), PatternFilter(patterns_from(["[0-9]+-x"]))])
    links = [URL + 20_000 * "1", URL + "1-x", URL]  # the first alone would take 0.3 s
    started = time.thread_time()
    assert chain.refusals(links, 0) == ["length", "pattern", None]
    assert time.thread_time() - started < 0.1


def test_url_without_a_path_is_not_taken_for_a_server_that_passed():
    class NotThat:
        name = "that"

        def refuses_server(self, scheme, host, port):
            return host == "a.test"

    chain = FilterChain([NotThat()])
    assert chain.refusals(["http://a.tes/", "http://a.test", "http://a.tes/"], 0) == [
        None,
        "that",
        None,
    ]
