"""What a Request loses, and does not lose, on its way through the frontier."""

from __future__ import annotations

import threading

import pytest
from scrapy import FormRequest, Request, Spider
from scrapy.statscollectors import StatsCollector
from scrapy.utils.request import RequestFingerprinter
from scrapy.utils.test import get_crawler

from webcrawl.request_codec import LostRequestError, RequestCodec
from webcrawl.seen.fingerprint import fingerprint


class ShopSpider(Spider):
    name = "shop"

    def parse_item(self, response):
        """A callback by name."""

    def failed(self, failure):
        """An errback by name."""


@pytest.fixture
def spider():
    return ShopSpider()


@pytest.fixture
def codec(spider):
    return new_codec(spider)


def new_codec(spider):
    crawler = get_crawler()
    return RequestCodec(
        spider=spider,
        stats=StatsCollector(crawler),
        fingerprinter=RequestFingerprinter(crawler),
    )


def test_callback_meta_headers_and_body_come_back(codec, spider):
    request = FormRequest(
        "http://shop.test/a?b=ü",
        formdata={"q": "x"},
        headers={"X-One": ["1", "2"]},
        callback=spider.parse_item,
        errback=spider.failed,
        meta={"page": {"n": 3}, "raw": b"\xff"},
        cb_kwargs={"k": "v"},
        priority=3,
    )
    back = codec.unpack(codec.pack(request))
    assert back.url == request.url
    assert back.method == "POST"
    assert back.body == b"q=x"
    assert back.headers.getlist("X-One") == [b"1", b"2"]
    assert back.callback == spider.parse_item
    assert back.errback == spider.failed
    assert back.meta == {"page": {"n": 3}, "raw": b"\xff"}
    assert back.cb_kwargs == {"k": "v"}


def test_the_crawler_s_own_meta_does_not_travel(codec):
    request = Request("http://shop.test/", meta={"fetch": object(), "mine": 1})
    assert codec.unpack(codec.pack(request)).meta == {"mine": 1}


def test_what_cannot_be_saved_works_within_the_process_and_is_counted(codec, caplog):
    lock = threading.Lock()
    packed = [codec.pack(Request(f"http://shop.test/{n}", meta={"lock": lock})) for n in (1, 2)]
    assert [codec.unpack(p).url for p in packed] == ["http://shop.test/1", "http://shop.test/2"]
    assert codec.unpack(codec.pack(Request("http://shop.test/3", meta={"l": lock}))).meta == {
        "l": lock
    }
    assert codec._stats.get_value("scheduler/unserializable") == 3
    assert len([r for r in caplog.records if "will not survive" in r.message]) == 1


def test_a_restart_loses_exactly_what_could_not_be_saved(codec, spider):
    packed = codec.pack(Request("http://shop.test/", meta={"lock": threading.Lock()}))
    restarted = new_codec(spider)
    restarted.pack(Request("http://other.test/", meta={"lock": threading.Lock()}))
    with pytest.raises(LostRequestError):
        restarted.unpack(packed)


def test_a_callback_that_is_no_method_is_refused_as_scrapy_does(codec):
    with pytest.raises(ValueError, match="is not an instance method"):
        codec.pack(Request("http://shop.test/", callback=lambda response: None))


def test_a_plain_get_is_the_same_document_as_a_link_to_its_url(codec):
    link = fingerprint("http://shop.test/a")
    assert codec.fingerprint(Request("http://SHOP.test:80/a#part")) == link
    assert codec.fingerprint(Request("http://shop.test/a", method="POST")) != link


def test_an_entry_carries_host_rank_and_depth(codec):
    request = Request("http://Shop.test:8080/a", meta={"depth": 4})
    entry = codec.entry(request, rank_of={"shop.test": 7}.__getitem__)
    assert (entry.host, entry.rank, entry.depth, entry.kind) == ("shop.test", 7, 4, "request")
    assert codec.unpack(entry.extra).url == request.url
