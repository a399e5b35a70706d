"""MEMORY_BUDGET: divided by shares, what is given goes before, and the sum stays below it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy.settings import Settings
from scrapy.utils.project import get_project_settings
from text_tables import each

from webcrawl.configuration.memory_budget import TABLE, size_of, sizes
from webcrawl.errors import FatalError

SETTINGS = sorted(name for name in TABLE if name.isupper())


def taken(found):
    return sum(size * TABLE[name].unit for name, size in found.items())


def test_a_project_without_these_settings_has_the_default_budget():
    assert sizes(Settings()) == sizes(get_project_settings())


@given(budget=st.integers(min_value=10_300_000, max_value=1 << 40))
def test_all_shares_together_fit_the_budget_and_none_is_too_small(budget):
    found = sizes(Settings({"MEMORY_BUDGET": budget}))
    assert taken(found) <= budget
    assert found.keys() == TABLE.keys()
    for name, row in TABLE.items():
        assert row.at_least <= found[name] <= row.at_most


@given(
    budget=st.integers(min_value=1, max_value=1 << 34),
    values=st.dictionaries(st.sampled_from(SETTINGS), st.integers(min_value=1, max_value=1 << 20)),
)
def test_what_is_given_goes_before_and_is_taken_off_what_the_others_share(budget, values):
    settings = Settings({"MEMORY_BUDGET": budget} | values)
    try:
        found = sizes(settings)
    except FatalError as error:
        needed = int(str(error).split()[5])
        assert budget < needed
        settings.set("MEMORY_BUDGET", needed)
        found = sizes(settings)
        budget = needed
    assert found.items() >= values.items()
    assert taken(found) <= budget
    assert all(found[name] >= row.at_least for name, row in TABLE.items() if name not in values)


def test_twice_the_budget_is_twice_of_everything_that_has_no_bound():
    one, two = (sizes(Settings({"MEMORY_BUDGET": size})) for size in (1 << 26, 1 << 27))
    for name in TABLE:
        assert two[name] // 2 == pytest.approx(one[name], abs=1), name


@each(
    "values sentence",
    (
        {"MEMORY_BUDGET": 10_000_000},
        "MEMORY_BUDGET must be at least 10240000 bytes; it is 10000000.",
    ),
    (
        {"MEMORY_BUDGET": 1 << 28, "SEEN_BUFFER_SIZE": 1 << 22, "SEEN_CACHE_SIZE": 1000},
        "of them for SEEN_BUFFER_SIZE, SEEN_CACHE_SIZE; it",
    ),
    ({"MEMORY_BUDGET": "much"}, "MEMORY_BUDGET must be a whole number of at least 1, not"),
    ({"SEEN_CACHE_SIZE": 0}, "SEEN_CACHE_SIZE must be a whole number of at least 1, not 0"),
)
def test_impossible_budgets_end_with_one_sentence(values, sentence):
    with pytest.raises(FatalError, match=re.escape(sentence)):
        size_of(Settings(values), "SEEN_BUFFER_SIZE")


def test_no_connection_need_be_kept():
    assert size_of(Settings({"NET_KEEPALIVE_CONNECTIONS": 0}), "NET_KEEPALIVE_CONNECTIONS") == 0
