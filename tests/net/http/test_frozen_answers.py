"""Odd answers that Chromium, curl and Scrapy have been asked about: what this crawler reads."""

import pytest
from frozen_answers import FROZEN, PAGE
from odd_server import odd_server
from readers import read_by_crawler
from text_tables import each


@pytest.fixture(scope="module")
def readings():
    """What this crawler makes of all answers, by the number of their row."""
    with odd_server({n: row.answer for n, row in enumerate(FROZEN)}) as server:
        yield read_by_crawler({number: server.url(number) for number in range(len(FROZEN))})


@each("number", *range(len(FROZEN)), ids=[row.name for row in FROZEN])
def test_an_odd_answer_is_read_as_the_table_says(number, readings):
    status, body, failure = readings[number]
    if not status:
        found = failure.partition(":")[0]
    elif not readings[number].is_success:
        found = str(status)
    else:
        part = "part" if PAGE.startswith(body) else "other"
        found = {PAGE: "page", b"": "empty"}.get(body, part) + "*" * bool(failure)
    assert found in FROZEN[number].crawler.split(" or ")


def test_the_table_says_where_it_does_not_follow_the_others():
    words = {"P": "page", "p": "part*", "e": "empty", "o": "other"}
    for row in FROZEN:
        chromium, curl, scrapy = row.others
        followed = words.get(chromium) or (curl == scrapy and words.get(curl))
        differs = bool(followed) and followed != row.crawler
        assert differs == row.source.startswith("exception: "), row
