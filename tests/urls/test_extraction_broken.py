"""Broken pages give the links that a browser shows."""

from __future__ import annotations

import pytest
from broken_pages import PAGES, URL

from webcrawl.urls.extraction.html import extract


@pytest.mark.parametrize(("page", "expected"), PAGES.values(), ids=PAGES)
def test_links_of_a_broken_page(page, expected):
    body = page.encode() if isinstance(page, str) else page
    links = extract(body, url=URL, charset=None, limit=100).links
    assert [link.url.removeprefix("http://a.test") for link in links] == expected
