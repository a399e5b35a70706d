"""Many expressions at once."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_tables import each

from webcrawl.urls.filters.expressions import MAX_CHARS, MAX_EXPRESSIONS, Expressions


def expressions(*given):
    made = Expressions()
    for one in given:
        made.add(one)
    made.compile()
    return made


@given(
    st.lists(st.sampled_from(["a", "/x", r"\?q=\d+", "^http:", "b$", "[xyz]{2}", "ab*c", ".c"])),
    st.text("abcxyz/?q=1", max_size=20),
)
def test_what_is_found_is_what_each_alone_finds(given, rest):
    url = f"http://a.test/{rest}"
    found = expressions(*given).found_in(url)
    assert found == any(re.search(one, url) for one in given)


def test_thousands_of_expressions_find_each_their_own():
    made = expressions(*(f"/page{n}/" for n in range(2500)))
    assert len(made) == 2500
    assert all(made.found_in(f"http://a.test/page{n}/") for n in (0, 999, 1000, 2499))
    assert not made.found_in("http://a.test/page2500/")


def test_a_hostile_url_takes_no_longer_than_it_is_long():
    made = expressions("(a+)+$", "(x|x|xx)*y")
    assert not made.found_in("http://h.test/" + 100_000 * "a" + "b" + 1000 * "x")


@each("bad", "(", "(?=x)", r"(a)\1", "(a{1000}){900}")
def test_what_is_no_expression_is_refused_and_changes_nothing(bad):
    made = expressions()
    with pytest.raises(ValueError, match=r"is not a valid RE2 expression, or is too large$"):
        made.add(bad)
    made.add("x")
    made.compile()
    assert (len(made), made.found_in("http://x/"), made.found_in("http://a/")) == (1, True, False)


@each("form", "/{}/", "/{}{}{}{}{}{}{}{}/", "/[ab][cd][ef][gh]{}")
def test_long_and_branching_literals_are_found_too(form):
    """More of them than a set of RE2 has memory for: it would find nothing."""
    names = [f"{n:03}name{n * n}" for n in range(1000)]
    made = expressions(*(form.replace("{}", name) for name in names))
    texts = [form.replace("{}", name).replace("[ab][cd][ef][gh]", "aceg") for name in names]
    assert all(made.found_in(f"http://a.test{text}") for text in texts)
    assert not made.found_in("http://a.test/acegname/")


def test_their_number_and_length_are_bounded():
    made = Expressions()
    with pytest.raises(ValueError, match=r"^an expression may have at most 1,000 characters$"):
        made.add("x" * (MAX_CHARS + 1))
    for n in range(MAX_EXPRESSIONS):
        made.add(f"/{n}/")
    too_many = r"^there may be at most 10,000 expressions with 1,000,000 characters in total$"
    with pytest.raises(ValueError, match=too_many):
        made.add("x")
    long = Expressions()
    for _ in range(1000):
        long.add("x" * MAX_CHARS)
    with pytest.raises(ValueError, match=too_many):
        long.add("x")
