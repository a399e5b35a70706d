"""Settings as numbers and truth values: what is taken, and the sentence for what is not."""

from __future__ import annotations

import math
import re

import pytest
from scrapy.settings import Settings

from webcrawl.configuration.values import flag, number, positive, share, whole
from webcrawl.errors import FatalError

NONSENSE = ["", "soon", "1,5", "0x10", "ten", [1], {"a": 1}, "nan", "1e400", math.nan]


def settings(value):
    return Settings({"X": value})


def sentence(call, value, **bounds):
    with pytest.raises(FatalError) as caught:
        call(settings(value), "X", **bounds)
    return str(caught.value)


@pytest.mark.parametrize(("value", "expected"), [(3, 3), ("3", 3), (" 7 ", 7), (True, 1), (5.0, 5)])
def test_whole_numbers_come_from_code_and_from_the_command_line(value, expected):
    assert whole(settings(value), "X", at_least=0) == expected


@pytest.mark.parametrize("value", [*NONSENSE, "1.5", "1e3", math.inf, -math.inf])
def test_what_is_no_whole_number_is_a_sentence(value):
    assert sentence(whole, value, at_least=0) == (
        f"X must be a whole number of at least 0, not {value!r}."
    )


@pytest.mark.parametrize(("value", "at_least"), [(0, 1), ("-1", 0), (9, 10)])
def test_too_small_a_whole_number_is_a_sentence(value, at_least):
    assert sentence(whole, value, at_least=at_least) == (
        f"X must be a whole number of at least {at_least}, not {value!r}."
    )


@pytest.mark.parametrize(("value", "expected"), [(0.5, 0.5), ("2.5", 2.5), ("1e3", 1000), (3, 3)])
def test_numbers_come_from_code_and_from_the_command_line(value, expected):
    assert number(settings(value), "X", at_least=0) == expected
    assert positive(settings(value), "X") == expected


@pytest.mark.parametrize("value", [*NONSENSE, math.inf, "inf", "-inf", -0.1])
def test_what_is_no_number_is_a_sentence(value):
    assert sentence(number, value, at_least=0) == (
        f"X must be a number of at least 0, not {value!r}."
    )


def test_the_bound_is_part_of_the_range():
    assert number(settings(1.5), "X", at_least=1.5) == 1.5
    assert whole(settings(2), "X", at_least=2) == 2
    assert "at least 1.5, not 1.4" in sentence(number, 1.4, at_least=1.5)


@pytest.mark.parametrize("value", [*NONSENSE, 0, "0", "0.0", -1, "inf"])
def test_what_is_not_positive_is_a_sentence(value):
    assert sentence(positive, value) == f"X must be a positive number, not {value!r}."


@pytest.mark.parametrize("value", [0.001, "0.5", 0.999])
def test_a_share_lies_between_0_and_1(value):
    assert share(settings(value), "X") == float(value)


@pytest.mark.parametrize("value", [*NONSENSE, 0, 1, "1.0", 2, -0.1, "inf"])
def test_what_is_no_share_is_a_sentence(value):
    assert sentence(share, value) == f"X must be a number between 0 and 1, not {value!r}."


@pytest.mark.parametrize("value", [True, 1, "1", "True", "true"])
def test_truth_comes_from_code_and_from_the_command_line(value):
    assert flag(settings(value), "X") is True


@pytest.mark.parametrize("value", [False, 0, "0", "False", "false"])
def test_falsehood_comes_from_code_and_from_the_command_line(value):
    assert flag(settings(value), "X", True) is False


@pytest.mark.parametrize("value", [*NONSENSE, "-1", -1, 2, "None", "yes", b"1"])
def test_what_is_neither_true_nor_false_is_a_sentence(value):
    assert sentence(flag, value) == f"X must be true or false, not {value!r}."


def test_the_default_stands_for_a_setting_the_project_does_not_have():
    empty = Settings()
    assert whole(empty, "X", 4, at_least=1) == 4
    assert number(empty, "X", 1.5, at_least=0) == 1.5
    assert positive(empty, "X", 2.5) == 2.5
    assert share(empty, "X", 0.1) == 0.1


def test_none_in_code_is_as_good_as_nothing():
    assert whole(settings(None), "X", 4, at_least=1) == 4
    assert "not None" in sentence(whole, None, at_least=1)


def test_a_setting_that_must_be_there_and_is_not_is_a_sentence():
    with pytest.raises(FatalError, match=re.escape("X must be a positive number, not None.")):
        positive(Settings(), "X")


def test_a_bad_setting_is_a_value_error_as_scrapy_s_own_are():
    assert issubclass(FatalError, ValueError)
