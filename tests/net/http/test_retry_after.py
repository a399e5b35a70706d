"""Retry-After in seconds and as a date, and whatever else servers put there."""

import math

from hypothesis import given
from hypothesis import strategies as st
from scrapy.http import Response
from text_tables import cases, each

from webcrawl.net.outcomes import retry_after

NOW = 784_111_777.0  # Sun, 06 Nov 1994 08:49:37 GMT, the date of RFC 9110's examples


def answer(value, *, status=429, **headers):
    return Response("http://a.test/", status=status, headers={"Retry-After": value, **headers})


@each("status", 429, 503)
@cases(
    "value secs",
    """
        "0"   | 0
        "120" | 120
        " 7 " | 7
        007   | 7
    """,
)
def test_seconds_are_taken_as_they_are(status, value, secs):
    assert retry_after(answer(value, status=status), now=NOW) == secs


@each(
    "value",
    "Sun, 06 Nov 1994 08:51:37 GMT",
    "Sunday, 06-Nov-94 08:51:37 GMT",
    "Sun Nov  6 08:51:37 1994",
)
def test_a_date_in_each_of_its_forms_is_taken(value):
    assert retry_after(answer(value), now=NOW) == 120


def test_a_date_counts_from_the_server_s_own_clock():
    response = answer("Sun, 06 Nov 1994 08:51:37 GMT", Date="Sun, 06 Nov 1994 08:50:37 GMT")
    assert retry_after(response, now=NOW + 86_400) == 60


def test_a_date_that_is_over_asks_for_nothing():
    assert retry_after(answer("Sun, 06 Nov 1994 08:49:36 GMT"), now=NOW) == 0


@each("status", 200, 301, 404, 500)
def test_other_answers_are_not_asked(status):
    assert retry_after(answer("120", status=status), now=NOW) == 0


def test_without_an_answer_there_is_no_wait():
    assert retry_after(None, now=NOW) == 0


@each("value", "", "soon", "-5", "1.5", "1e9", "Fri, 31 Dec 9999 99:99:99 GMT", "\xff", "x" * 10**5)
def test_values_that_are_neither_date_nor_seconds_ask_for_no_wait(value):
    assert retry_after(answer(value), now=NOW) == 0


@given(st.binary(max_size=80), st.binary(max_size=40))
def test_any_bytes_give_a_finite_number(value, date):
    response = Response("http://a.test/", status=503)
    response.headers["Retry-After"] = value
    response.headers["Date"] = date
    secs = retry_after(response, now=NOW)
    assert secs >= 0
    assert math.isfinite(secs)
