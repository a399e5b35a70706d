"""What processing modules receive."""

from __future__ import annotations

import pytest
from itemadapter import ItemAdapter

from webcrawl.items import Link, Page
from webcrawl.urls import Link as UrlsLink


def page(body=b"", **more):
    return Page(
        url="http://a.test/",
        status=200,
        headers=[],
        body=body,
        wire_body=body,
        fetched_at=1.0,
        **more,
    )


def test_page_is_a_scrapy_item():
    adapter = ItemAdapter(page(b"x", links=[Link("http://a.test/x")]))
    assert adapter["url"] == "http://a.test/"
    assert adapter["links"] == [Link(url="http://a.test/x", text="", kind="a", rel="")]
    assert "content_fingerprint" in adapter.field_names()


def test_every_field_is_documented():
    assert Page.__doc__ is not None
    for name in Page.__dataclass_fields__:
        assert f"``{name}``" in Page.__doc__


def test_misspelt_field_is_refused():
    with pytest.raises(AttributeError):
        page().rnak = 1


def test_pages_do_not_share_their_lists():
    one, other = page(), page()
    one.links.append(Link("http://a.test/x"))
    one.request_headers.append((b"a", b"b"))
    assert other.links == []
    assert other.request_headers == []


def test_text_is_decoded_as_a_browser_would():
    assert page("Привет".encode("cp1251"), charset="windows-1251").text == "Привет"
    assert page(b"\xff\xfe" + "Привет".encode("utf-16-le"), charset="utf-8").text == "Привет"
    assert page("<meta charset=koi8-r>Привет".encode("koi8-r")).codec == "koi8-r"
    assert page(b"caf\xe9 au lait").text == "café au lait"
    assert page(b"\xff\xfe\xff", charset="no such").text == "\ufffd"


def test_header_is_found_in_any_case_and_the_first_counts():
    one = page()
    one.headers = [(b"Server", b"x"), (b"ETAG", b"1"), (b"etag", b"2")]
    assert one.header(b"ETag") == b"1"
    assert one.header(b"Age") is None


def test_link_of_items_and_of_urls_is_the_same():
    assert Link is UrlsLink


def test_in_the_log_a_page_is_a_short_line():
    page = Page(
        url="http://a.test/",
        status=200,
        headers=[],
        body=b"x" * 100_000,
        wire_body=b"",
        fetched_at=0.0,
    )
    assert str(page) == "<Page 200 http://a.test/ of 100000 bytes>"
