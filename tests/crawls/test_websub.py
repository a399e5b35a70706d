"""WEBSUB_PORT: feeds that hubs push into a running crawl, by a hub written from the standard."""

import gzip
import socket
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest
from crawling import (
    crawl_of_urls,
    finish,
    kill,
    output_of,
    printed,
    start_crawl,
    wait_until,
)
from patience import LIMIT_SECS
from redis_server import free_port
from text_tables import each
from websub_crawl import Blog, site_of, subscriber_of
from websub_hub import send, serving_hub, signature

DAY = 86_400


def test_a_pushed_feed_leads_to_new_and_to_changed_pages_alone(tmp_path):
    with serving_hub() as hub, site_of(Blog(hub.url)) as blog, subscriber_of(tmp_path, blog) as one:
        wait_until(lambda: {"/feed", "/one", "/two"} <= {*blog.asked} and one.has_lease())
        (form,) = hub.forms
        assert hub.faults == []
        assert (form["hub.mode"], form["hub.topic"]) == ("subscribe", blog.topic)
        assert form["hub.callback"].startswith(f"{one.url}/")
        assert stat.S_IMODE((one.job / "websub.jsonl").stat().st_mode) == 0o600
        blog.entries |= {"/one": time.time(), "/three": time.time()}
        assert hub.publish(blog.topic, blog.feed(), algorithm="sha512") == [202]
        wait_until(lambda: blog.asked.count("/one") == 2 and "/three" in blog.asked)
        wait_until(lambda: one.stat("outcome/http_200") == 4 and one.stat("visits/changed") == 1)
        assert [blog.asked.count(path) for path in ("/feed", "/two", "/three")] == [1, 1, 1]
        assert [one.stat(f"websub/{name}") for name in ("subscribe", "pushed")] == [1, 1]
        assert one.stat("hints/followed") == 1


def test_subscriptions_outlive_kill_9(tmp_path):
    with serving_hub() as hub, site_of(Blog(hub.url)) as blog, subscriber_of(tmp_path, blog) as one:
        wait_until(lambda: {"/feed", "/one", "/two"} <= {*blog.asked} and one.has_lease())
        kill(one.crawl)
        one.crawl = start_crawl(one.command)
        wait_until(one.listens)
        blog.entries["/three"] = time.time()
        wait_until(lambda: hub.publish(blog.topic, blog.feed(), algorithm="sha384") == [202])
        wait_until(lambda: "/three" in blog.asked)
        assert len(hub.forms) == 1


def test_a_hub_that_denies_gets_no_further_request(tmp_path):
    with serving_hub() as hub, site_of(Blog(hub.url)) as blog:
        hub.denied.add(blog.topic)
        with subscriber_of(tmp_path, blog) as one:
            later = time.time() + 29 * DAY
            wait_until(lambda: any(known["due_at"] > later for known in one.subscriptions))
            assert not one.has_lease()
            assert len(hub.forms) == 1


def test_a_hub_that_has_moved_is_followed_to_the_next_one(tmp_path):
    with (
        serving_hub() as hub,
        serving_hub("127.0.0.3", moved_to=hub.url) as old,
        site_of(Blog(old.url)) as blog,
        subscriber_of(tmp_path, blog) as one,
    ):
        wait_until(one.has_lease)
        assert len(old.forms) == len(hub.forms) == 1
        assert one.subscriptions[0]["hub"] == old.url  # for the next time
        assert hub.publish(blog.topic, blog.feed()) == [202]


def test_a_feed_that_names_another_hub_ends_the_subscription_to_the_first(tmp_path):
    with (
        serving_hub() as hub,
        serving_hub("127.0.0.3") as new,
        site_of(Blog(hub.url)) as blog,
        subscriber_of(tmp_path, blog) as one,
    ):
        wait_until(one.has_lease)
        blog.hubs = [new.url]
        printed("control", one.job, "due", blog.topic)
        wait_until(lambda: blog.asked.count("/feed") == 2)
        wait_until(lambda: hub.publish(blog.topic, blog.feed()) == [410])
        assert hub.publish(blog.topic, blog.feed()) == []


def test_a_purge_and_an_exclusion_end_a_subscription(tmp_path):
    with serving_hub() as hub, site_of(Blog(hub.url)) as blog, subscriber_of(tmp_path, blog) as one:
        wait_until(one.has_lease)
        printed("control", one.job, "exclude", "127.0.0.1")
        assert hub.publish(blog.topic, blog.feed()) == [410]
        one.crawl.terminate()
        output_of(one.crawl)
        assert one.has_lease()
        assert "1 subscription" in printed("purge", one.job, "--host", "127.0.0.1")
        assert one.subscriptions == []


@each(
    "settings sentence",
    ({"WEBSUB_URL": ""}, "WEBSUB_PORT has no effect in this crawl without WEBSUB_URL."),
    ({"WEBSUB_URL": "ftp://a.test/"}, "WEBSUB_URL must be an http or https URL"),
    ({"WEBSUB_URL": "https://a.test/?x"}, "WEBSUB_URL must be an http or https URL"),
    ({"HIVE": "h"}, "WEBSUB_PORT is for a crawl in one process, not for a hive."),
)
def test_settings_that_do_not_fit_together_are_refused(tmp_path, settings, sentence):
    given = {"WEBSUB_PORT": free_port(), "WEBSUB_URL": "https://a.test/"} | settings
    assert sentence in finish(crawl_of_urls(tmp_path, "http://127.0.0.1/", **given), code=2)


def test_a_port_in_use_is_told_and_the_crawl_goes_on(tmp_path):
    with site_of(Blog()) as blog, socket.create_server(("127.0.0.1", 0)) as other:
        given = {"WEBSUB_PORT": other.getsockname()[1], "WEBSUB_URL": "https://a.test/"}
        said = finish(crawl_of_urls(tmp_path, blog.topic, **given))
        assert "WEBSUB_PORT has no effect: " in said
        assert "/two" in blog.asked


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A crawl with one subscription, and its hub and blog."""
    directory = tmp_path_factory.mktemp("crawl")
    with (
        serving_hub() as hub,
        site_of(Blog(hub.url)) as blog,
        subscriber_of(directory, blog) as one,
    ):
        wait_until(lambda: {"/feed", "/one", "/two"} <= {*blog.asked} and one.has_lease())
        (known,) = one.subscriptions
        callback = f"{one.url}/{known['name']}"
        yield SimpleNamespace(hub=hub, blog=blog, one=one, known=known, callback=callback)


def answered(*request, **headers):
    """Status and body of the answer to a request that is not refused because of others."""
    answers = []

    def is_answered():
        answers.append(send(*request, **headers))
        return answers[-1][0] not in (429, 503)

    wait_until(is_answered, every=0.5)
    return answers[-1]


def confirm(running, *, callback="", **question):
    """The status when a hub asks for confirmation, and whether the challenge was repeated."""
    asked = {"mode": "subscribe", "topic": running.blog.topic, "challenge": "c-h", **question}
    lease = {"lease_seconds": "86400"} | asked
    named = {f"hub.{name}": value for name, value in lease.items() if value is not None}
    status, body = answered("GET", f"{callback or running.callback}?{urlencode(named)}")
    return status, body == b"c-h"


def push(running, body, **signed):
    """The status when *body* is pushed."""
    return answered("POST", running.callback, body, **signed)[0]


def push_feed(running):
    body = running.blog.feed()
    return push(running, body, X_Hub_Signature=signature(running.known["secret"], body))


@each(
    "question status",
    ({}, 200),
    ({"topic": "http://127.0.0.1/other"}, 404),
    ({"topic": None}, 404),
    ({"mode": "unsubscribe"}, 404),
    ({"mode": "publish"}, 404),
    ({"lease_seconds": None}, 404),
    ({"lease_seconds": "-1"}, 404),
    ({"lease_seconds": "1e9"}, 404),
    ({"lease_seconds": "9" * 40}, 200),
)
def test_only_what_was_asked_for_is_confirmed(running, question, status):
    assert confirm(running, **question) == (status, status == 200)


def test_an_address_cannot_be_guessed(running):
    name = running.known["name"]
    for other in ("", "0" * 32, name[:-1], f"{name}0", name.upper(), f"{name}/", "%2e%2e"):
        callback = f"{running.one.url}/{other}"
        assert confirm(running, callback=callback)[0] == 404
        assert answered("POST", callback, b"<feed>")[0] in (404, 410)
    assert answered("PUT", running.callback, b"x")[0] == 405


@each("kind", "none", "sha1", "other key", "other body", "empty", "odd")
def test_a_feed_that_the_hub_did_not_sign_is_not_read(running, kind):
    secret = running.known["secret"]
    body = f"<feed><entry><link href='/forged/{kind}'/></entry></feed>".encode()
    given = {
        "none": None,
        "sha1": signature(secret, body, "sha1"),
        "other key": signature("0" * 64, body),
        "other body": signature(secret, body + b" "),
        "empty": "sha256=",
        "odd": "sha256=\xe9\xff",
    }[kind]
    assert push(running, body, **({"X-Hub-Signature": given} if given else {})) == 403
    running.blog.entries["/after"] = 0.0
    # What is pushed after it is read.
    assert push_feed(running) == 202
    wait_until(lambda: "/after" in running.blog.asked)
    assert not any("forged" in path for path in running.blog.asked)


def test_a_request_for_another_host_is_refused(running):
    for host in ("evil.test", "", "127.0.0.1.evil.test", "localhost"):
        assert answered("GET", running.callback, Host=host)[0] == 403, host
    assert answered("GET", running.callback, Host=f"127.0.0.1:{running.one.port}")[0] == 404


def test_a_body_over_a_megabyte_is_refused(running):
    body = b"<feed>".ljust(1_000_001)
    signed = {"X-Hub-Signature": signature(running.known["secret"], body)}
    assert push(running, body, **signed) == 413
    assert push(running, gzip.compress(body), Content_Encoding="gzip", **signed) == 413
    assert push(running, body[:-1]) == 403  # it was read


def test_chunks_of_more_than_a_megabyte_are_refused(running):
    chunks = [bytes(600_000), bytes(600_000)]
    assert answered("POST", running.callback, chunks)[0] == 413


def test_after_many_guesses_all_are_refused_and_the_hub_is_not(running):
    # A minute may end meanwhile.
    found = {send("GET", f"{running.one.url}/guess{one}")[0] for one in range(2 * 60 + 1)}
    assert found == {404, 429}
    assert confirm(running) == (200, True)


def test_feeds_are_read_in_a_tenth_of_the_time(running):
    entries = "".join(f"<entry><link href='/no/{number}'/></entry>" for number in range(24_000))
    body = f"<feed>{entries}</feed>".encode()
    signed = {"X-Hub-Signature": signature(running.known["secret"], body)}

    def statuses():
        with ThreadPoolExecutor(8) as pool:
            return {
                *pool.map(lambda _: send("POST", running.callback, body, **signed)[0], range(8))
            }

    wait_until(lambda: 503 in statuses(), every=1)
    assert push_feed(running) == 202


def slow_request(running, path, body=b""):
    """A connection on which a request with only a part of its *body*, or of its head, was sent."""
    connection = socket.create_connection(("127.0.0.1", running.one.port), LIMIT_SECS)
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    end = b"Content-Length: 1000\r\n\r\n" if body else b"Content-"
    connection.sendall(head.encode() + end + body)
    return connection


def test_slow_heads_are_cut_off_and_keep_nothing_waiting(running):
    with ExitStack() as stack:
        slow = [stack.enter_context(slow_request(running, "/news/x")) for _ in range(300)]
        assert confirm(running) == (200, True)
        assert [connection.recv(1000) for connection in slow] == [b""] * 300


def test_a_slow_body_is_cut_off_and_keeps_nothing_waiting(running):
    path = running.callback.partition(f":{running.one.port}")[2]
    with slow_request(running, path, b"<feed>") as slow:
        assert confirm(running) == (200, True)
        assert slow.recv(1000).startswith((b"HTTP/1.1 408", b"HTTP/1.1 429"))


def test_no_feed_is_accepted_after_the_lease(running):
    assert confirm(running, lease_seconds="0") == (200, True)
    assert push_feed(running) == 410


def test_a_hub_with_too_many_requests_is_refused(running):
    found = {send("GET", running.callback)[0] for _ in range(2 * 60 + 1)}
    assert found == {404, 429}
