"""What a Request loses, and does not lose, on its way through the frontier."""

import pickle
import threading
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scrapy import FormRequest, Request
from scrapy.http import HtmlResponse, JsonRequest
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule
from scrapy.statscollectors import StatsCollector
from scrapy.utils.request import RequestFingerprinter
from scrapy.utils.test import get_crawler
from text_tables import each

from webcrawl.crawl.lease.plain_requests import PLAIN, NotPlainError
from webcrawl.crawl.lease.request_codec import (
    INTERNAL_META,
    LostRequestError,
    PickleRefusedError,
    RequestCodec,
)
from webcrawl.seen.fingerprint import fingerprint
from webcrawl.urls import host_of
from webcrawl.urls.equivalence import Equivalence


class ShopSpider(CrawlSpider):
    name = "shop"
    rules = (Rule(LinkExtractor(), callback="parse_item"),)

    def _hidden(self, response):
        """A callback of the spider's own that none but itself may name."""

    def parse_item(self, response):
        """A callback by name."""

    def failed(self, failure):
        """An errback by name."""


URL = "http://shop.test/"
LOCKED = {"lock": threading.Lock()}


@pytest.fixture
def spider():
    return ShopSpider()


@pytest.fixture
def codec(spider):
    return new_codec(spider)


@pytest.fixture
def hive(spider):
    return new_codec(spider, only_plain=True)


def new_codec(spider, **modes):
    crawler = get_crawler()
    return RequestCodec(
        spider=spider,
        stats=StatsCollector(crawler),
        fingerprinter=RequestFingerprinter(crawler),
        key_of=host_of,
        comparison_form=Equivalence().comparison_form,
        **modes,
    )


def test_all_parts_of_a_request_come_back_without_a_pickle(spider, codec, hive):
    parts = {
        "url": "http://shop.test/a?b=\u00fc&c=%C3%BC",
        "headers": {"X-One": ["1", "2"]},
        "cookies": [{"name": "c", "value": "v", "domain": "shop.test"}],
        "callback": spider.parse_item,
        "errback": spider.failed,
        "meta": {"page": {"n": 3}, "raw": b"\xff"},
        "cb_kwargs": {"k": "v"},
        "flags": ["cached"],
        "priority": -3,
        "encoding": "latin-1",
        "dont_filter": True,
    }
    for request in (FormRequest(formdata={"q": "x"}, **parts), JsonRequest(data={"q": 1}, **parts)):
        packed = hive.pack(request)
        assert packed.startswith(PLAIN)
        back = codec.unpack(packed)
        assert type(back) is type(request)
        assert back.to_dict(spider=spider) == request.to_dict(spider=spider)
        assert back.callback == spider.parse_item


def test_the_crawler_s_own_meta_does_not_travel(codec):
    request = Request(URL, meta={"fetch": object(), "mine": 1})
    assert codec.unpack(codec.pack(request)).meta == {"mine": 1}


def test_requests_that_cannot_be_saved_work_in_memory_and_are_counted(codec, caplog):
    for packed in [codec.pack(Request(URL, meta=LOCKED)) for _ in range(3)]:
        back = codec.unpack(packed)
        assert (back.url, back.meta) == (URL, LOCKED)
    assert codec.stats.get_value("scheduler/unserializable") == 3
    assert len([r for r in caplog.records if "will not survive" in r.message]) == 1


def test_a_restart_loses_exactly_what_could_not_be_saved(codec, spider):
    packed = codec.pack(Request(URL, meta=LOCKED))
    restarted = new_codec(spider)
    restarted.pack(Request("http://other.test/", meta=LOCKED))
    with pytest.raises(LostRequestError):
        restarted.unpack(packed)


def test_a_callback_that_is_no_method_lives_in_memory_as_with_scrapy(codec):
    def callback(response):
        """Of nobody."""

    packed = codec.pack(Request(URL, callback=callback))
    assert codec.unpack(packed).callback is callback


def test_a_request_in_memory_can_be_unpacked_until_it_is_forgotten(codec):
    packed = codec.pack(Request(URL, meta=LOCKED))
    first = codec.unpack(packed)
    first.meta["fetch"] = "it is under way"
    second = codec.unpack(packed)
    assert second is not first
    assert set(second.meta) == {"lock"}
    codec.forget(codec.pack(Request("http://shop.test/plain")))
    assert codec.unpack(packed).url == URL
    codec.forget(packed)
    with pytest.raises(LostRequestError):
        codec.unpack(packed)


def test_without_a_job_directory_the_very_request_waits(spider):
    codec = new_codec(spider, in_memory=True)
    request = Request(URL, callback=lambda response: None)
    packed = codec.pack(request)
    assert codec.unpack(packed) is request
    assert codec.stats.get_value("scheduler/unserializable") is None


@dataclass
class Product:
    name: str


@each("value", {"deep": [Product("ball")]}, "\udc80", ids=repr)
def test_objects_in_meta_survive_a_restart(codec, value):
    packed = codec.pack(Request(URL, meta={"value": value}))
    assert new_codec(ShopSpider()).unpack(packed).meta["value"] == value


def test_a_request_whose_callback_or_class_is_gone_is_lost(codec, spider):
    packed = codec.pack(FormRequest(URL, callback=spider.parse_item))
    for name, gone in ((b"parse_item", b"farce_item"), (b"FormRequest", b"PormRequest")):
        with pytest.raises(LostRequestError, match=gone.decode()):
            codec.unpack(packed.replace(name, gone))


# --- the plain form, and who may pickle

_plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.binary(max_size=3) | st.integers(-9, 9), inner)
    ),
    max_leaves=10,
)


@given(meta=st.dictionaries(st.text(max_size=5), _plain_values))
def test_plain_data_in_meta_comes_back_as_it_was_without_a_pickle(meta):
    hive = new_codec(ShopSpider(), only_plain=True)
    meta = {name: value for name, value in meta.items() if name not in INTERNAL_META}
    packed = hive.pack(Request(URL, meta=meta, cb_kwargs=meta))
    assert packed.startswith(PLAIN)
    back = hive.unpack(packed)
    assert back.meta == back.cb_kwargs == meta
    assert repr(back.meta) == repr(meta)


def test_requests_of_a_crawl_spider_have_a_plain_form(spider, hive):
    spider._follow_links = True
    page = HtmlResponse(URL, body=b"<a href=/a>to a</a>", encoding="utf-8")
    (request,) = spider._requests_to_follow(page)
    back = hive.unpack(hive.pack(request))
    assert back.callback == request.callback
    assert back.meta == {"rule": 0, "link_text": "to a"}


@each(
    "parts said",
    ({"callback": "_hidden"}, "_hidden is not a public method"),
    ({"callback": "_parse_sitemap"}, "not a public method"),
    ({"errback": "__init__"}, "not a public method"),
    ({"callback": "name"}, "not a public method"),
    ({"errback": "gone"}, "not a public method"),
    ({"callback": 7}, "."),
    ({"_class": "subprocess.Popen"}, "subprocess.Popen is not a Request class"),
    ({"meta": 7}, "."),
    ({"url": None}, "."),
    ({"headers": 7}, "."),
    ids=str,
)
def test_a_plain_request_names_no_code_but_public_methods(codec, parts, said):
    packed = PLAIN + msgspec.msgpack.encode({"url": URL} | parts)
    with pytest.raises(LostRequestError, match=said):
        codec.unpack(packed)


@given(noise=st.binary(max_size=60))
@example(noise=b"\x91" * 100_000)
@example(noise=b"\x81\xa3url\xc7\x01\x01" * 9)
def test_bytes_that_are_no_plain_request_are_lost_not_raised(noise):
    with pytest.raises(LostRequestError):
        new_codec(ShopSpider()).unpack(PLAIN + noise)


def test_the_crawler_s_own_meta_does_not_come_in_either(codec):
    parts = {"url": URL, "meta": {"fetch": 1, "large_body": 2, "mine": 3}}
    assert codec.unpack(PLAIN + msgspec.msgpack.encode(parts)).meta == {"mine": 3}


@each(
    "change said",
    ({"meta": {"deep": [Product("ball")]}}, "Product is not plain"),
    ({"meta": {"big": 1 << 64}}, "can't serialize ints"),
    ({"meta": {"half": "\udc80"}}, "surrogates"),
    ({"meta": {("a", 1): 1}}, "a dict has keys"),
    ({"callback": "_hidden"}, "_hidden is not a public method"),
    ({"meta": LOCKED}, "lock is not plain"),
    ids=["object", "large number", "half a pair", "key", "private", "lock"],
)
def test_a_hive_refuses_what_has_no_plain_form(spider, codec, hive, change, said):
    if isinstance(change.get("callback"), str):
        change = {"callback": getattr(spider, change["callback"])}
    request = Request(URL, **change)
    with pytest.raises(NotPlainError, match=said):
        hive.pack(request)
    # A job directory takes it, as before.
    assert codec.unpack(codec.pack(request)).url == request.url


class Bomb:
    def __reduce__(self):
        return pytest.fail, ("a pickle of a stranger was read",)


@each("tag", b"", b"signed/" + bytes(32), ids=["bare", "signed by 0.2"])
def test_a_hive_reads_no_pickle(hive, tag):
    with pytest.raises(PickleRefusedError, match="a hive reads plain data only"):
        hive.unpack(tag + pickle.dumps(Bomb()))


def test_a_job_directory_is_read_with_the_pickles_of_older_versions(spider, codec):
    old = pickle.dumps(Request(URL, meta={"a": 1}).to_dict(spider=spider), 4)
    assert codec.unpack(old).meta == {"a": 1}


@each("depth", "3", None, 2.5, -4, True, 1 << 60)
def test_a_depth_that_is_no_number_of_links_counts_as_none(codec, depth):
    request = Request(URL, meta={"depth": depth})
    assert codec.entry(request).depth == 0


def test_a_plain_get_is_the_same_document_as_a_link_to_its_url(codec):
    link = fingerprint("http://shop.test/a")
    assert codec.fingerprint(Request("http://SHOP.test:80/a#part")) == link
    assert codec.fingerprint(Request("http://shop.test/a", method="POST")) != link


def test_an_entry_carries_host_and_depth(codec):
    request = Request("http://Shop.test:8080/a", meta={"depth": 4})
    entry = codec.entry(request)
    assert (entry.host, entry.depth, entry.kind) == ("shop.test", 4, "request")
    assert codec.unpack(entry.extra).url == request.url


def test_a_redirect_to_a_url_that_counts_as_the_same_is_another_request(codec):
    source = Request("http://shop.test/?b=1&a=2")
    assert codec.fingerprint(source) == codec.fingerprint(Request("http://shop.test/?a=2&b=1"))
    target = Request("http://shop.test/?a=2&b=1", meta={"redirect_urls": [source.url]})
    assert codec.fingerprint(target) != codec.fingerprint(source)
    elsewhere = Request("http://shop.test/new", meta={"redirect_urls": [source.url]})
    assert codec.fingerprint(elsewhere) == fingerprint("http://shop.test/new")
