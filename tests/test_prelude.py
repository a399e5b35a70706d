"""The host prelude: what robots.txt says, and the way to it, with real rules and answers."""

from __future__ import annotations

import pytest
from scrapy.http import Response

from webcrawl.prelude import HostPrelude, Verdict
from webcrawl.robots.cache import RobotsCache

PAGE = "http://a.test/page"
SECRET = "http://a.test/private/page"
ROBOTS = "http://a.test/robots.txt"
RULES = b"User-agent: *\nDisallow: /private/\nCrawl-delay: 7\n"
DAY = 24 * 3600.0


@pytest.fixture
def robots(clock):
    return RobotsCache(
        user_agent="webcrawl", size=100, max_bytes=1 << 20, expire=DAY, retry=600.0, clock=clock
    )


@pytest.fixture
def prelude(robots):
    return HostPrelude(robots=robots, obey=True, retry_times=2)


def answer(status, body=b"", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(ROBOTS, status=status, body=body, headers=named)


def test_robots_txt_comes_before_the_first_page_of_an_origin(prelude):
    assert prelude.decide(PAGE) is Verdict.FETCH_ROBOTS
    assert prelude.robots_url(PAGE) == ROBOTS
    prelude.answered(PAGE, "http_200", answer(200, RULES))
    assert prelude.decide(PAGE) is Verdict.FETCH
    assert prelude.decide(SECRET) is Verdict.DENIED
    assert prelude.settled == 1


@pytest.mark.parametrize(
    ("url", "robots_url"),
    [
        ("https://a.test/page", "https://a.test/robots.txt"),
        ("http://a.test:8080/page", "http://a.test:8080/robots.txt"),
        ("http://www.a.test/page", "http://www.a.test/robots.txt"),
    ],
)
def test_the_rules_of_one_origin_say_nothing_about_another(prelude, url, robots_url):
    prelude.answered(PAGE, "http_200", answer(200, RULES))
    assert prelude.decide(url) is Verdict.FETCH_ROBOTS
    assert prelude.robots_url(url) == robots_url
    assert prelude.crawl_delay(url) == 0


def test_until_there_is_an_answer_robots_txt_is_asked_for_again(prelude):
    for _ in range(3):
        assert prelude.decide(PAGE) is Verdict.FETCH_ROBOTS
        assert prelude.robots_url(PAGE) == ROBOTS
    assert prelude.settled == 0


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_within_the_host_is_followed_at_its_next_turn(prelude, status):
    prelude.robots_url(PAGE)
    prelude.answered(PAGE, f"http_{status}", answer(status, Location="/moved/robots.txt"))
    assert prelude.decide(PAGE) is Verdict.FETCH_ROBOTS
    assert prelude.robots_url(PAGE) == "http://a.test/moved/robots.txt"
    prelude.answered(PAGE, "http_200", answer(200, RULES))
    # The rules are those of the origin that was asked first.
    assert prelude.decide(SECRET) is Verdict.DENIED


def test_a_redirect_to_https_on_the_same_host_is_followed(prelude):
    prelude.robots_url(PAGE)
    prelude.answered(PAGE, "http_301", answer(301, Location="https://a.test/robots.txt"))
    assert prelude.robots_url(PAGE) == "https://a.test/robots.txt"
    prelude.answered(PAGE, "http_200", answer(200, RULES))
    assert prelude.decide(SECRET) is Verdict.DENIED
    assert prelude.decide("https://a.test/private/page") is Verdict.FETCH_ROBOTS


def test_a_location_is_relative_to_where_the_last_redirect_led(prelude):
    prelude.robots_url(PAGE)
    prelude.answered(PAGE, "http_301", answer(301, Location="/one/robots.txt"))
    prelude.answered(PAGE, "http_301", answer(301, Location="two.txt"))
    assert prelude.robots_url(PAGE) == "http://a.test/one/two.txt"


def test_five_redirects_are_followed_and_a_sixth_means_no_rules(prelude):
    prelude.robots_url(PAGE)
    for hop in range(5):
        prelude.answered(PAGE, "http_302", answer(302, Location=f"/{hop}"))
        assert prelude.robots_url(PAGE) == f"http://a.test/{hop}"
        assert prelude.decide(PAGE) is Verdict.FETCH_ROBOTS
    prelude.answered(PAGE, "http_302", answer(302, Location="/6"))
    assert prelude.decide(PAGE) is Verdict.FETCH
    assert prelude.decide(SECRET) is Verdict.FETCH


@pytest.mark.parametrize(
    "location",
    [
        "http://b.test/robots.txt",  # its own host must be asked in its own turn
        "//b.test/robots.txt",
        "ftp://a.test/robots.txt",
        "mailto:a@a.test",
        "http://[broken",
        "http://a.test:999999/",
        "http://",
        "",
        None,
    ],
)
def test_a_redirect_that_cannot_be_followed_means_no_rules(prelude, location):
    prelude.robots_url(PAGE)
    headers = {} if location is None else {"Location": location}
    prelude.answered(PAGE, "http_302", answer(302, **headers))
    assert prelude.decide(SECRET) is Verdict.FETCH


@pytest.mark.parametrize(
    "location", ["/rob\u00f6ts.txt".encode(), "/rob\u00f6ts.txt".encode("latin-1")]
)
def test_the_bytes_of_a_location_are_read_as_browsers_do(prelude, location):
    prelude.robots_url(PAGE)
    prelude.answered(PAGE, "http_302", answer(302, Location=location))
    assert prelude.robots_url(PAGE) in {
        "http://a.test/rob%C3%B6ts.txt",
        "http://a.test/rob%F6ts.txt",
    }


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451, 304, 300])
def test_without_a_file_everything_may_be_fetched(prelude, status):
    prelude.answered(PAGE, f"http_{status}", answer(status, RULES))
    assert prelude.decide(SECRET) is Verdict.FETCH
    assert prelude.crawl_delay(PAGE) == 0


@pytest.mark.parametrize("status", [429, 500, 502, 503, 599])
def test_a_host_that_cannot_say_is_asked_again_and_then_let_alone(prelude, clock, status):
    for _ in range(2):
        prelude.robots_url(PAGE)
        prelude.answered(PAGE, f"http_{status}", answer(status))
        assert prelude.decide(PAGE) is Verdict.FETCH_ROBOTS
    prelude.answered(PAGE, f"http_{status}", answer(status))
    assert prelude.decide(PAGE) is Verdict.UNREACHABLE
    assert prelude.outcome(PAGE) == "robots_unreachable"
    clock.advance(599)
    assert prelude.decide(PAGE) is Verdict.UNREACHABLE
    clock.advance(1)
    assert prelude.decide(PAGE) is Verdict.FETCH_ROBOTS


@pytest.mark.parametrize("outcome", ["timeout", "connect_refused", "connection_lost", "dns_failed"])
def test_an_unreachable_host_is_retried_and_then_given_up_with_its_reason(prelude, outcome):
    for _ in range(2):
        prelude.robots_url(PAGE)
        prelude.answered(PAGE, outcome, None)
        assert prelude.decide(PAGE) is Verdict.FETCH_ROBOTS
        assert prelude.settled == 0
    prelude.answered(PAGE, outcome, None)
    assert prelude.decide(PAGE) is Verdict.UNREACHABLE
    assert prelude.outcome(PAGE) == outcome
    assert prelude.settled == 1


@pytest.mark.parametrize(
    "outcome", ["dns_not_found", "tls_failed", "bad_answer", "ignored", "other"]
)
def test_what_another_attempt_would_not_change_is_not_retried(prelude, outcome):
    prelude.robots_url(PAGE)
    prelude.answered(PAGE, outcome, None)
    assert prelude.decide(PAGE) is Verdict.UNREACHABLE
    assert prelude.outcome(PAGE) == outcome


def test_the_reason_is_that_of_the_last_time(prelude, clock):
    prelude.answered(PAGE, "dns_not_found", None)
    clock.advance(600)
    for _ in range(3):
        prelude.answered(PAGE, "http_503", answer(503))
    assert prelude.decide(PAGE) is Verdict.UNREACHABLE
    assert prelude.outcome(PAGE) == "robots_unreachable"


def test_a_middleware_s_own_request_in_place_of_robots_txt_is_no_answer(prelude):
    for _ in range(2):
        prelude.robots_url(PAGE)
        prelude.answered(PAGE, "replaced", None)
        assert prelude.decide(PAGE) is Verdict.FETCH_ROBOTS
    prelude.answered(PAGE, "replaced", None)
    assert prelude.decide(PAGE) is Verdict.UNREACHABLE


def test_a_failure_after_a_redirect_is_retried_where_the_redirect_led(prelude):
    prelude.robots_url(PAGE)
    prelude.answered(PAGE, "http_301", answer(301, Location="/moved.txt"))
    prelude.answered(PAGE, "timeout", None)
    assert prelude.robots_url(PAGE) == "http://a.test/moved.txt"


def test_the_rules_are_asked_for_again_after_a_day(prelude, clock):
    prelude.answered(PAGE, "http_200", answer(200, RULES))
    clock.advance(DAY - 1)
    assert prelude.decide(SECRET) is Verdict.DENIED
    clock.advance(1)
    assert prelude.decide(SECRET) is Verdict.FETCH_ROBOTS
    assert prelude.robots_url(SECRET) == ROBOTS


def test_the_crawl_delay_is_known_once_the_rules_are(prelude):
    assert prelude.crawl_delay(PAGE) == 0
    prelude.answered(PAGE, "http_200", answer(200, RULES))
    assert prelude.crawl_delay(PAGE) == 7
    assert prelude.crawl_delay(SECRET) == 7


def test_who_does_not_obey_fetches_all_at_once_without_delay(robots):
    prelude = HostPrelude(robots=robots, obey=False, retry_times=2)
    robots.put("http://a.test", 200, RULES)
    assert prelude.decide(SECRET) is Verdict.FETCH
    assert prelude.decide("http://unknown.test/") is Verdict.FETCH
    assert prelude.crawl_delay(PAGE) == 0


@pytest.mark.parametrize("url", ["data:,hello", "ftp://a.test/file", "file:///etc/passwd"])
def test_what_has_no_robots_txt_is_the_handlers_business(prelude, url):
    assert prelude.decide(url) is Verdict.FETCH


def test_the_memory_of_reasons_is_bounded(prelude, monkeypatch):
    monkeypatch.setattr("webcrawl.prelude._REASONS", 2)
    for name in ("a", "b", "c"):
        prelude.answered(f"http://{name}.test/", "timeout_never_heard_of", None)
    assert prelude.outcome("http://a.test/") == "robots_unreachable"
    assert prelude.outcome("http://c.test/") == "timeout_never_heard_of"
