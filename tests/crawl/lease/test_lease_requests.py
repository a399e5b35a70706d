"""The requests of leases: of links, robots.txt, sitemaps and ordinary ones."""

import asyncio
import pickle
import threading

from frontier_rig import entry
from lease_rig import ordinary, page, put_back
from msgspec.structs import replace
from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from twisted.python.failure import Failure

from webcrawl.frontier import Entry
from webcrawl.net.http.large_bodies import LARGE_BODY
from webcrawl.net.outcomes import ConnectRefusedError


def test_an_ordinary_request_comes_back_as_it_was_and_has_no_retries(desk):
    desk.push(ordinary(desk, body=b"x=1", meta={"mine": 1}))
    request = desk.next()
    assert (request.method, request.body, request.meta["mine"]) == ("POST", b"x=1", 1)
    desk.end(request, page(503))
    assert desk.is_empty
    assert desk.outcomes == {"http_503": 1}


def test_a_forbidden_ordinary_request_is_handed_on_to_be_refused(obedient):
    obedient.push(ordinary(obedient))
    obedient.rules(b"Disallow: /")
    obedient.wait(3)
    request = obedient.next()
    fetch = request.meta["fetch"]
    assert fetch.refusal == "robots_denied"
    fetch.end_download(IgnoreRequest("x"))
    obedient.completion.done(request)
    assert obedient.outcomes == {"robots_denied": 1}
    assert obedient.is_empty


def test_a_request_in_memory_is_forgotten_when_it_has_ended(desk):
    unsaved = ordinary(desk, meta={"lock": threading.Lock()})
    desk.push(unsaved)
    request = desk.next()
    put_back(request)
    desk.completion.done(request)
    desk.wait(3)
    again = desk.next()
    assert again.meta["lock"] is request.meta["lock"]
    desk.end(again, page())
    assert desk.codec._in_memory == {}


def test_a_request_that_a_restart_has_lost_is_given_up_and_counted(desk):
    lost = Entry("http://a.test/x", "a.test", rank=1, extra=b"\xa3abc")
    desk.push(lost, entry("a.test", 1))
    assert desk.next() is None
    assert desk.stats.get_value("scheduler/lost") == 1
    assert desk.next().url == "http://a.test/1"


def test_a_request_in_place_of_a_link_is_an_ordinary_one(desk):
    desk.urls(1, depth=2)
    request = desk.next()
    other = request.replace(url="http://b.test/")
    desk.end(request, other)
    assert desk.outcomes == {"replaced": 1}
    adopted = desk.requests.adopt(other)
    assert adopted.errback is None
    assert "dont_retry" not in adopted.meta
    saved = desk.codec.entry(adopted)
    assert (saved.url, saved.host, saved.depth) == ("http://b.test/", "b.test", 2)
    assert desk.codec.unpack(saved.extra).meta == {
        "depth": 2,
        "dont_redirect": True,
        "verbatim_url": True,
    }


def test_an_unforeseen_exception_is_logged_once_with_its_traceback(desk, caplog):
    desk.urls(1)
    request = desk.next()
    for error in (ConnectRefusedError("x"), KeyError("a bug"), KeyError("again")):
        request.errback(Failure(error))
    assert len(caplog.records) == 1
    assert "a bug" in caplog.text


def test_pages_and_sitemaps_may_be_large_while_they_are_held(desk):
    desk.push(entry("a.test", 0), Entry("http://b.test/map.xml", "b.test", kind="sitemap"))
    for max_bytes in (5 << 20, 50 << 20):
        request = desk.next()
        leave = request.meta[LARGE_BODY]
        assert leave.max_bytes == max_bytes
        assert asyncio.run(leave.acquire())
        desk.end(request, page())
        assert not asyncio.run(leave.acquire())


def test_a_request_for_another_url_than_its_entry_s_is_lost(desk):
    """By that URL its host, its rests and its robots.txt were chosen."""
    request = ordinary(desk)
    desk.push(replace(request, url="http://a.test/other"))
    assert desk.next() is None
    assert desk.stats.get_value("scheduler/lost") == 1


def test_a_signed_pickle_in_the_directory_of_a_hive_is_refused_and_counted(desk):
    """As webcrawl 0.2 has left them with HIVE_KEY_FILE."""
    desk.codec.only_plain = True
    old = b"signed/" + bytes(32) + pickle.dumps(Request("http://a.test/0").to_dict(), 4)
    desk.push(Entry("http://a.test/0", "a.test", extra=old))
    assert desk.next() is None
    assert desk.stats.get_value("hive/requests/refused") == 1
    assert desk.is_empty
