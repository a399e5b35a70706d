"""Refusals by name."""

from __future__ import annotations

import pytest

from webcrawl.urls.filters import DepthFilter, FilterChain, LengthFilter, standard_filters

URL = "http://a.test/"


def test_first_filter_that_refuses_gives_its_name():
    chain = standard_filters(max_bytes=20, max_depth=2)
    assert chain.refusal(URL, 2) is None
    assert chain.refusal("ftp://a.test/", 9) == "scheme"
    assert chain.refusal(URL + "x" * 7, 9) == "length"
    assert chain.refusal(URL, 3) == "depth"


def test_refusals_are_counted_by_name():
    chain = standard_filters(max_bytes=20, max_depth=2)
    for url, depth in [(URL, 0), (URL, 3), (URL, 4), (URL * 9, 0), ("gopher://a.test/", 0)]:
        chain.refusal(url, depth)
    assert chain.refused == {"depth": 2, "length": 1, "scheme": 1}


@pytest.mark.parametrize(("length", "refused"), [(2048, None), (2049, "length")])
def test_url_of_exactly_the_length_passes(length, refused):
    chain = FilterChain([LengthFilter(2048)])
    assert chain.refusal(URL.ljust(length, "x"), 0) == refused


def test_zero_is_no_limit():
    chain = standard_filters(max_bytes=0, max_depth=0)
    assert chain.refusal(URL * 10_000, 10_000) is None


def test_schemes_are_those_that_can_be_fetched():
    chain = standard_filters(max_bytes=0, max_depth=0, schemes=frozenset({"ftp"}))
    assert chain.refusal("ftp://a.test/", 0) is None
    assert chain.refusal(URL, 0) == "scheme"


def test_chain_takes_filters_of_the_user():
    class NoQuery:
        name = "query"

        def refuses(self, url, depth):
            return "?" in url

    chain = FilterChain([NoQuery(), DepthFilter(1)])
    assert chain.refusal(URL + "?x", 0) == "query"
    assert chain.refusal(URL, 1) is None


def test_empty_chain_refuses_nothing():
    assert FilterChain([]).refusal("x", 9) is None
