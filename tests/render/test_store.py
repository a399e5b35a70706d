"""Stored subresources: what is shared and for how long, and what a restart finds."""

from __future__ import annotations

import time

import pytest

from webcrawl.render.engine import Answer
from webcrawl.render.store import FILE, RenderStore, name_of, stored_answers

SCRIPT = "http://a.test/app.js"
ONE, OTHER = "http://a.test/1", "http://b.test/2"


@pytest.fixture
def store(tmp_path):
    store = RenderStore(path=tmp_path / "rendering", max_bytes=1000)
    store.open(forgets=False)
    yield store
    store.close()


def keep(store, *pages):
    for since, page in enumerate(pages):
        store.keep(page, page.encode(), float(since), 0, b"exchange")


def answer(body=b"1", status=200, **headers):
    pairs = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return Answer(status, pairs, body)


def look_up(store, page, url=SCRIPT):
    """What an engine finds in a pass over *page*."""
    return stored_answers(str(store.path / FILE))(page)(url, "script")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://A.test/x?b=1&_=17#top", "http://a.test/x?b=1"),
        ("http://a.test/x?v=1700000000123", "http://a.test/x"),
        ("http://a.test/x?v=3&t=12", "http://a.test/x?v=3&t=12"),
        ("data:text/html,x", ""),
    ],
)
def test_urls_that_differ_by_a_cache_buster_have_one_name(url, name):
    assert name_of(url) == name


@pytest.mark.parametrize(
    ("headers", "is_shared"),
    [
        ({}, True),
        ({"Cache_Control": "public, max-age=60"}, True),
        ({"Cache_Control": "max-age=60", "Age": "61"}, False),
        ({"Cache_Control": "no-store"}, False),
        ({"Cache_Control": "max-age=60, private"}, False),
        ({"Expires": "Thu, 01 Jan 1970 00:00:00 GMT"}, False),
        (
            {
                "Expires": "Fri, 01 Jan 2100 00:01:00 GMT",
                "Date": "Fri, 01 Jan 2100 00:00:00 GMT",
            },
            True,
        ),
        ({"Vary": "Accept-Encoding", "Cache_Control": "max-age=60"}, True),
        ({"Vary": "Accept-Encoding, User-Agent", "Cache_Control": "max-age=60"}, False),
    ],
)
def test_answers_are_shared_as_their_headers_say(store, headers, is_shared):
    keep(store, ONE, OTHER)
    assert store.need(ONE, SCRIPT) == (True, True)
    assert store.need(OTHER, f"{SCRIPT}?_=5") == (True, False)
    store.forget(OTHER)
    keep(store, OTHER)
    store.answer(SCRIPT, answer(**headers))
    assert look_up(store, ONE).body == b"1"  # it was fetched for this page
    assert (look_up(store, OTHER) is not None) == is_shared
    assert store.need(OTHER, SCRIPT) == (not is_shared, not is_shared)


def test_a_stale_answer_is_asked_for_and_may_be_used_again(store):
    keep(store, ONE, OTHER)
    store.need(ONE, SCRIPT)
    store.answer(SCRIPT, answer(ETag='"x"', Cache_Control="no-cache"))
    assert store.need(OTHER, SCRIPT) == (True, True)
    assert store.validators(SCRIPT) == {"If-None-Match": '"x"'}
    store.answer(SCRIPT, answer(b"", 304, Cache_Control="max-age=60"))
    assert look_up(store, OTHER).body == b"1"
    keep(store, "http://c.test/")
    assert look_up(store, "http://c.test/").body == b"1"


def test_a_page_keeps_what_it_used_while_others_ask_again(store):
    keep(store, ONE)
    for url in (SCRIPT, f"{SCRIPT}?of=one"):
        store.need(ONE, url)
    store.answer(SCRIPT, answer(Cache_Control="no-store"))
    keep(store, OTHER)
    assert look_up(store, OTHER) is None
    assert store.need(OTHER, SCRIPT) == (True, True)
    assert look_up(store, ONE).body == b"1"
    assert look_up(store, OTHER) is None
    store.answer(SCRIPT, answer(b"2", Cache_Control="max-age=1"))
    assert look_up(store, OTHER).body == look_up(store, ONE).body == b"2"
    # It was fresh when this page was fetched.
    store.keep("http://c.test/", b"c", time.time() + 0.5, 0, b"exchange")
    store.keep("http://d.test/", b"d", time.time() + 1.5, 0, b"exchange")
    assert look_up(store, "http://c.test/").body == b"2"
    assert look_up(store, "http://d.test/") is None
    store.close()
    store.open(forgets=False)
    assert store.pending_of(ONE) == {f"{SCRIPT}?of=one"}


def test_refusals_are_told_to_the_engine(store):
    keep(store, ONE)
    store.need(ONE, SCRIPT)
    store.refuse(SCRIPT, "robots_denied")
    assert look_up(store, ONE) == "robots_denied"


def test_the_oldest_answers_that_no_page_needs_make_room(store):
    keep(store, ONE)
    urls = [f"http://a.test/{number}.js" for number in range(4)]
    for url in urls:
        store.need(ONE if url == urls[0] else "http://gone.test/", url)
        store.answer(url, answer(b"x" * 300))
        store.forget("http://gone.test/")
    store.need(ONE, SCRIPT)
    store.answer(SCRIPT, answer(b"x" * 300))
    kept = [url for url in urls if look_up(store, ONE, url) is not None]
    assert kept == [urls[0], urls[3]]


def test_a_restart_finds_pages_and_what_they_wait_for_and_a_reboot_nothing(store):
    keep(store, OTHER, ONE)
    store.need(ONE, SCRIPT)
    store.end_pass(OTHER, passes=2, failures=1, html="<p>", refused=[(SCRIPT, "timeout")])
    store.close()
    store.open(forgets=False)
    first, second = store.pages()
    assert (first.url, first.html, first.passes, first.refusals) == (
        OTHER, "<p>", 2, [(SCRIPT, "timeout")]
    )  # fmt: skip
    assert (second.html, store.pending_of(ONE)) == (None, {SCRIPT})
    assert store.pending() == [(SCRIPT, ONE)]
    store.close()
    store.open(forgets=True)
    assert [*store.pages()] == store.pending() == []
