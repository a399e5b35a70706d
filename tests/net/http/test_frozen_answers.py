"""Odd answers that Chromium, curl and Scrapy have been asked about: what this crawler reads."""

from __future__ import annotations

import pytest
from frozen_answers import FROZEN, PAGE, letter_of
from odd_server import odd_server
from readers import read_by_crawler


@pytest.fixture(scope="module")
def readings():
    """What this crawler makes of all answers, by the number of their row."""
    with odd_server({n: row.answer for n, row in enumerate(FROZEN)}) as server:
        yield read_by_crawler({number: server.url(number) for number in range(len(FROZEN))})


@pytest.mark.parametrize("number", range(len(FROZEN)), ids=[row.name for row in FROZEN])
def test_an_odd_answer_is_read_as_the_table_says(number, readings):
    wanted, reading = FROZEN[number].crawler, readings[number]
    if wanted.isdigit():
        assert reading.status == int(wanted)
    elif wanted == "page*":
        assert (reading.status, reading.body) == (200, PAGE)
    elif wanted == "part":
        assert 0 < len(reading.body) < len(PAGE)
        assert PAGE.startswith(reading.body)
        assert reading.failure
    else:
        letters = {"page": "P", "empty": "e", "fails": "F"}
        assert letter_of(reading) == letters[wanted], reading


def test_the_table_says_where_it_does_not_follow_the_others():
    words = {"P": "page", "p": "part", "e": "empty", "o": "other"}
    for row in FROZEN:
        chromium, curl, scrapy = row.others
        followed = chromium if chromium in words else curl if curl == scrapy else ""
        differs = followed in words and words[followed] != row.crawler
        assert differs == row.source.startswith("exception: "), row
