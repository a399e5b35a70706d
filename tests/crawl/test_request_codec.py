"""What a Request loses, and does not lose, on its way through the frontier."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest
from scrapy import FormRequest, Request, Spider
from scrapy.statscollectors import StatsCollector
from scrapy.utils.request import RequestFingerprinter
from scrapy.utils.test import get_crawler

from webcrawl.crawl.request_codec import LostRequestError, RequestCodec
from webcrawl.seen.fingerprint import fingerprint
from webcrawl.urls import host_of
from webcrawl.urls.equivalence import Equivalence


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


def new_codec(spider, **options):
    crawler = get_crawler()
    return RequestCodec(
        spider=spider,
        stats=StatsCollector(crawler),
        fingerprinter=RequestFingerprinter(crawler),
        key_of=host_of,
        comparison_form=Equivalence().comparison_form,
        **options,
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


def test_a_callback_that_is_no_method_lives_in_memory_as_with_scrapy(codec):
    def callback(response):
        """Of nobody."""

    packed = codec.pack(Request("http://shop.test/", callback=callback))
    assert codec.unpack(packed).callback is callback


def test_what_lives_in_memory_can_be_unpacked_until_it_is_forgotten(codec):
    packed = codec.pack(Request("http://shop.test/", meta={"lock": threading.Lock()}))
    first = codec.unpack(packed)
    first.meta["fetch"] = "it is under way"
    second = codec.unpack(packed)
    assert second is not first
    assert set(second.meta) == {"lock"}
    codec.forget(codec.pack(Request("http://shop.test/plain")))
    assert codec.unpack(packed).url == "http://shop.test/"
    codec.forget(packed)
    with pytest.raises(LostRequestError):
        codec.unpack(packed)


def test_without_a_job_directory_the_very_request_waits(spider):
    codec = new_codec(spider, in_memory=True)
    request = Request("http://shop.test/", callback=lambda response: None)
    packed = codec.pack(request)
    assert codec.unpack(packed) is request
    assert codec._stats.get_value("scheduler/unserializable") is None


@dataclass
class Product:
    name: str


@pytest.mark.parametrize("value", [{"deep": [Product("ball")]}, "\udc80"], ids=repr)
def test_objects_in_meta_survive_a_restart(codec, value):
    packed = codec.pack(Request("http://shop.test/", meta={"value": value}))
    assert new_codec(ShopSpider()).unpack(packed).meta["value"] == value


def test_a_request_whose_callback_the_spider_no_longer_has_is_lost(codec, spider):
    packed = codec.pack(Request("http://shop.test/", callback=spider.parse_item))

    class OtherSpider(Spider):
        name = "shop"

    with pytest.raises(LostRequestError, match="parse_item"):
        new_codec(OtherSpider()).unpack(packed)


def test_a_request_whose_class_is_gone_is_lost(codec):
    packed = codec.pack(FormRequest("http://shop.test/"))
    gone = packed.replace(b"FormRequest", b"PormRequest")
    with pytest.raises(LostRequestError, match="PormRequest"):
        codec.unpack(gone)


@pytest.mark.parametrize("depth", ["3", None, 2.5])
def test_a_depth_that_is_no_number_counts_as_none(codec, depth):
    request = Request("http://shop.test/", meta={"depth": depth})
    assert codec.entry(request, rank_of=lambda host: 0).depth == 0


def test_a_plain_get_is_the_same_document_as_a_link_to_its_url(codec):
    link = fingerprint("http://shop.test/a")
    assert codec.fingerprint(Request("http://SHOP.test:80/a#part")) == link
    assert codec.fingerprint(Request("http://shop.test/a", method="POST")) != link


def test_an_entry_carries_host_rank_and_depth(codec):
    request = Request("http://Shop.test:8080/a", meta={"depth": 4})
    entry = codec.entry(request, rank_of={"shop.test": 7}.__getitem__)
    assert (entry.host, entry.rank, entry.depth, entry.kind) == ("shop.test", 7, 4, "request")
    assert codec.unpack(entry.extra).url == request.url


def test_a_redirect_to_a_url_that_counts_as_the_same_is_another_request(codec):
    source = Request("http://shop.test/?b=1&a=2")
    assert codec.fingerprint(source) == codec.fingerprint(Request("http://shop.test/?a=2&b=1"))
    target = Request("http://shop.test/?a=2&b=1", meta={"redirect_urls": [source.url]})
    assert codec.fingerprint(target) != codec.fingerprint(source)
    elsewhere = Request("http://shop.test/new", meta={"redirect_urls": [source.url]})
    assert codec.fingerprint(elsewhere) == fingerprint("http://shop.test/new")
