"""Refusals by name."""

import time

from hypothesis import given
from hypothesis import strategies as st
from strategies import urls
from text_tables import cases, each

from webcrawl.urls import HTTP_SCHEMES
from webcrawl.urls.filters import chain as chains
from webcrawl.urls.filters.chain import (
    FilterChain,
    LinkFilter,
    ServerFilter,
    UrlFilter,
    length_filter,
    scheme_filter,
)
from webcrawl.urls.filters.path_filters import (
    calendar_filter,
    parameters_filter,
    repeated_segments_filter,
)
from webcrawl.urls.filters.scope import (
    own_domain_filter,
    pattern_filter,
    patterns_from,
    port_filter,
    restrict_filter,
)

URL = "http://a.test/"
PAGES = [
    *("http://a.test/x/x/x/x", "http://a.test/calendar/2040-01", "http://b.test/?a&b"),
    *("http://a.test", "http://a.test:25/", "ftp://a.test/", "http://www.a.test/x?"),
    "http://b.test/" + 30 * "y",
]


def test_first_filter_that_refuses_gives_its_name():
    chain = FilterChain([scheme_filter(HTTP_SCHEMES), length_filter(20)], max_depth=2)
    assert chain.refusal(URL, 2) is None
    assert chain.refusal("ftp://a.test/", 9) == "scheme"
    assert chain.refusal(URL + "x" * 7, 9) == "length"
    assert chain.refusal(URL, 3) == "depth"


@cases(
    "length refused",
    """
        2048 | None
        2049 | length
    """,
)
def test_url_of_exactly_the_length_passes(length, refused):
    chain = FilterChain([length_filter(2048)])
    assert chain.refusal(URL.ljust(length, "x"), 0) == refused


def refusals(chain, urls, depth=0, page_host=""):
    """What refuses each of *urls* at once."""
    return [why for _, why in chain.answers(urls, depth, page_host)]


def asking():
    """Filters of every kind that refuse nothing, and a list of what they were asked."""
    asked = []

    def about(kind):
        return lambda *question: asked.append((kind, *question))

    return asked, [
        UrlFilter("asked", lambda url: asked.append(("url", *url.segments, url.query))),
        ServerFilter("asked", about("server")),
        LinkFilter("asked", about("link")),
    ]


@cases(
    "url questions",
    """
        http://a.test/x/y        | server http a.test None, url x y
        ftp://a/X/y/             | server ftp a None, url x y  , link a a.test
        https://[::1]:81/X?Y=/Z/ | server https ::1 81, url x Y=/Z/, link ::1 a.test
        http://a.test/?          | server http a.test None, url
        http://b.test:8080       | server http b.test 8080, url  , link b.test a.test
    """,
)
def test_filters_are_asked_what_they_need_to_know(url, questions):
    asked, filters = asking()
    assert FilterChain(filters).refusal(url, 7, "a.test") is None
    told = ", ".join(" ".join(map(str, question)) for question in asked)
    assert told.rstrip() == questions


def test_server_that_passed_is_not_asked_about_again_within_bounds(monkeypatch):
    monkeypatch.setattr(chains, "_CACHED_SERVERS", 2)
    asked, filters = asking()
    chain = FilterChain(filters)
    for number, host in enumerate(("a", "a", "b", "a", "c", "c", "a")):
        chain.refusal(f"http://{host}.test/{number}", 0)
    assert [one[2][0] for one in asked if one[0] == "server"] == ["a", "b", "c", "a"]


@each("scheme", "ftp", "http", "https", "gopher")
def test_each_server_of_a_scheme_is_asked_about(scheme):
    asked, filters = asking()
    chain = FilterChain(filters)
    for host in ("a", "b.test", "a"):
        refusals(chain, [f"{scheme}://{host}/x", f"{scheme}://{host}/y/"])
    assert [one[2] for one in asked if one[0] == "server"] == ["a", "b.test"]


def test_url_that_passed_is_asked_about_again_only_for_its_depth_and_its_page(monkeypatch):
    monkeypatch.setattr(chains, "_CACHED_URLS", 2)
    asked, filters = asking()
    chain = FilterChain(filters, max_depth=2)
    url = "http://a.test/x/y/z"
    question, link = ("url", "x", "y", "z", ""), ("link", "a.test", "b.test")
    for _ in range(2):
        assert chain.refusal(url, 2, "b.test") is None
    assert asked[1:] == [question, link, link]
    assert chain.refusal(url, 3, "b.test") == "depth"
    for number in range(3):  # more than are remembered
        chain.refusal(f"http://a.test/{number}", 1, "b.test")
    chain.refusal(url, 2, "b.test")
    assert asked[-2:] == [question, link]


def test_server_that_was_refused_is_asked_about_again():
    closed = {"a.test"}
    chain = FilterChain([ServerFilter("closed", lambda _scheme, host, _port: host in closed)])
    assert chain.refusal(URL, 0) == "closed"
    closed.clear()
    assert chain.refusal(URL, 0) is None


@each("url kind", (f"{URL}?{300 * 'x'}", "url"), (f"http://{300 * 'x'}.test/", "server"))
def test_long_urls_and_servers_of_long_names_are_not_remembered(url, kind):
    asked, filters = asking()
    chain = FilterChain(filters)
    for _ in range(2):
        chain.refusal(url, 0)
    assert len([one for one in asked if one[0] == kind]) == 2


@given(st.lists(urls() | st.sampled_from(PAGES), max_size=8), st.sampled_from(["", "a.test"]))
def test_links_of_a_page_are_refused_as_each_of_them_would_be(links, page_host):
    def chain():
        return FilterChain(
            [
                scheme_filter(frozenset({"http"})),
                length_filter(30),
                port_filter(frozenset()),
                restrict_filter(patterns_from([r"http://[ab]\.test.*", ".*y.*"])),
                pattern_filter(patterns_from(["x$", r"\?a"])),
                repeated_segments_filter(3),
                parameters_filter(1),
                calendar_filter(2031),
                own_domain_filter(),
            ],
            max_depth=5,
        )

    for depth in (5, 6):
        at_once, one_by_one = chain(), chain()
        answers = refusals(at_once, links, depth, page_host)
        assert answers == [one_by_one.refusal(url, depth, page_host) for url in links]
        assert answers == refusals(one_by_one, links, depth, page_host)
        refusals(at_once, links, depth, page_host)
        assert answers == [chain().refusal(url, depth, page_host) for url in links]


def test_expressions_do_not_see_urls_that_are_too_long():
    chain = FilterChain([length_filter(100), pattern_filter(patterns_from(["[0-9]+-x"]))])
    links = [URL + 20_000 * "1", URL + "1-x", URL]  # the first alone would take 0.3 s
    started = time.thread_time()
    assert refusals(chain, links) == ["length", "pattern", None]
    assert time.thread_time() - started < 0.1


def test_url_without_a_path_is_not_taken_for_a_server_that_passed():
    chain = FilterChain([ServerFilter("that", lambda _scheme, host, _port: host == "a.test")])
    urls = ["http://a.tes/", "http://a.test", "http://a.tes/"]
    assert refusals(chain, urls) == [None, "that", None]
