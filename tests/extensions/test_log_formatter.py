"""What is logged per page and per item: nothing, and of a failing disk not more than needed."""

import logging

import pytest
from scrapy import Request, Spider
from scrapy.http import Response
from text_tables import each
from warc_checks import page

from webcrawl.errors import StoreError
from webcrawl.extensions.log_formatter import QuietLogFormatter

PAGE = page()


@pytest.fixture
def formatter():
    return QuietLogFormatter()


@pytest.fixture
def response():
    return Response("http://a.test/", request=Request("http://a.test/"))


def test_pages_and_items_have_no_line(formatter, response):
    spider = Spider("quiet")
    assert formatter.crawled(response.request, response, spider) is None
    assert formatter.scraped(PAGE, response, spider) is None


def test_a_bug_in_a_processing_module_is_an_error_with_the_page_s_url(formatter, response):
    line = formatter.item_error(PAGE, KeyError("x"), response, Spider("quiet"))
    assert line["level"] == logging.ERROR
    assert line["msg"] % line["args"] == (
        "The module unknown failed on http://a.test/0: KeyError('x')"
    )


@each(
    "error level",
    (StoreError(5, "Input/output error"), logging.DEBUG),
    (OSError(28, "No space left on device"), logging.DEBUG),
    (OSError(2, "No such file or directory"), logging.ERROR),
)
def test_a_failing_disk_is_not_logged_for_every_page(formatter, response, error, level):
    assert formatter.item_error(PAGE, error, response, Spider("quiet"))["level"] == level
