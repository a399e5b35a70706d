"""Tests of robots.txt look-ups, with real rules and answers."""

import gzip

import pytest
from host_rig import Records, robots_cache
from scrapy.http import Request, Response
from text_tables import each

from webcrawl.hosts.retry_policy import RetryPolicy
from webcrawl.hosts.robots.lookup import ON_REMOTE_HOST, RobotsSearch

PAGE = "http://a.test/page"
SECRET = "http://a.test/private/page"
ROBOTS = "http://a.test/robots.txt"
RULES = b"User-agent: *\nDisallow: /private/\nCrawl-delay: 7\n"
RETRIES = RetryPolicy(times=2, backoff=10.0, max_failures=8)


@pytest.fixture
def robots(clock):
    return robots_cache(Records(), clock=clock)


class Search(RobotsSearch):
    """A search for the robots.txt of PAGE's origin."""

    def status(self, url=PAGE):
        return self.verdict_on(url).status.name

    def failure(self):
        assert self.status() == "UNREACHABLE"
        return self.reason(PAGE)

    def gets(self, status, body=b"", *, url=PAGE, flags=(), request=None, **headers):
        response = Response(
            ROBOTS, status=status, body=body, headers=headers, flags=flags, request=request
        )
        return self.note_answer(url, f"http_{status}", response)


def search_of(robots, clock, *, obey=True):
    refusal = {
        "http://smtp.test:25/robots.txt": "port",
        "http://other.test/robots.txt": ON_REMOTE_HOST,
    }.get
    return Search(cache=robots, refusal=refusal, obey=obey, retries=RETRIES, clock=clock)


@pytest.fixture
def search(robots, clock):
    return search_of(robots, clock)


def test_robots_txt_comes_before_the_first_page_of_an_origin(search):
    assert search.status() == "UNKNOWN"
    assert search.robots_url(PAGE) == ROBOTS
    search.gets(200, RULES)
    assert search.status() == "ALLOWED"
    assert search.status(SECRET) == "DENIED"


@each(
    "url robots_url",
    ("https://a.test/page", "https://a.test/robots.txt"),
    ("http://a.test:8080/page", "http://a.test:8080/robots.txt"),
    ("http://www.a.test/page", "http://www.a.test/robots.txt"),
)
def test_the_rules_of_one_origin_say_nothing_about_another(search, url, robots_url):
    search.gets(200, RULES)
    assert search.status(url) == "UNKNOWN"
    assert search.robots_url(url) == robots_url
    assert search.crawl_delay(url) == 0


@each("status", 301, 302, 303, 307, 308)
@each("target", "http://a.test/moved.txt", "https://a.test/robots.txt")
def test_a_redirect_within_the_host_is_followed_at_its_next_turn(search, status, target):
    search.gets(status, Location=target)
    assert search.status() == "UNKNOWN"
    assert search.robots_url(PAGE) == target
    search.gets(200, RULES)
    # The rules are those of the origin that was asked first.
    assert search.status(SECRET) == "DENIED"
    assert search.status("https://a.test/private/page") == "UNKNOWN"


def test_a_location_is_relative_to_where_the_last_redirect_led(search):
    search.gets(301, Location="/one/robots.txt")
    search.gets(301, Location="two.txt")
    assert search.robots_url(PAGE) == "http://a.test/one/two.txt"


def test_five_redirects_are_followed_and_a_sixth_means_no_rules(search):
    for hop in range(5):
        search.gets(302, Location=f"/{hop}")
        assert search.robots_url(PAGE) == f"http://a.test/{hop}"
        assert search.status() == "UNKNOWN"
    search.gets(302, Location="/6")
    assert search.status() == "ALLOWED"
    assert search.status(SECRET) == "ALLOWED"


@each(
    "location",
    "gopher://a.test/0/robots.txt",
    "mailto:a@a.test",
    "http://[broken",
    "http://a.test:999999/",
    "http://smtp.test:25/robots.txt",
    "http://",
    "",
    None,
)
def test_a_redirect_that_cannot_be_followed_means_no_rules(search, location):
    search.gets(302, **{"Location": location} if location is not None else {})
    assert search.status(SECRET) == "ALLOWED"


def test_a_redirect_to_a_refused_robots_txt_makes_it_unreachable(search, clock):
    assert search.gets(301, Location="http://other.test/robots.txt") is None
    assert search.failure() == "robots_unreachable"
    clock.advance(601.0)
    assert search.status() == "UNKNOWN"


@each("location", "/rob\u00f6ts.txt".encode(), "/rob\u00f6ts.txt".encode("latin-1"))
def test_the_bytes_of_a_location_are_read_as_browsers_do(search, location):
    search.gets(302, Location=location)
    assert search.robots_url(PAGE) in {
        "http://a.test/rob%C3%B6ts.txt",
        "http://a.test/rob%F6ts.txt",
    }


@each("status more", (429, 4), (500, 2), (502, 2), (503, 2), (599, 2), (501, 0))
def test_a_host_without_an_answer_is_retried_and_then_skipped(search, clock, status, more):
    for _ in range(more):
        search.gets(status)
        assert search.status() == "UNKNOWN"
    search.gets(status)
    assert search.failure() == "robots_unreachable"
    clock.advance(599)
    assert search.status() == "UNREACHABLE"
    clock.advance(1)
    assert search.status() == "UNKNOWN"


@each(
    "outcome more",
    ("timeout", 1),
    ("other", 1),
    ("replaced", 2),
    ("connect_refused", 2),
    ("connection_lost", 2),
    ("dns_failed", 2),
    # What another attempt would not change.
    ("dns_not_found", 0),
    ("tls_failed", 0),
    ("bad_answer", 0),
    ("ignored", 0),
)
def test_an_unreachable_host_is_retried_and_then_given_up_with_its_reason(search, outcome, more):
    for _ in range(more):
        search.note_answer(PAGE, outcome, None)
        assert search.status() == "UNKNOWN"
    search.note_answer(PAGE, outcome, None)
    assert search.failure() == outcome


@each("flags", ["dataloss"], ["truncated", "time"], ["undecodable"])
def test_an_incomplete_robots_txt_does_not_count(search, flags):
    request = Request(ROBOTS, meta={"wire_body": b"packed"})
    for status in ("UNKNOWN", "UNKNOWN", "UNREACHABLE"):
        search.gets(200, b"User-agent: *\n", flags=flags, request=request)
        assert search.status() == status
    assert search.reason(PAGE) == "incomplete"


@each("status", 301, 404, 410)
@each("flags", ["dataloss"], ["truncated", "time"], ["undecodable"])
def test_the_status_of_robots_txt_counts_however_its_body_ends(search, status, flags):
    search.gets(status, flags=flags)
    assert search.status() == "ALLOWED"


@each("flag", "not_decoded", "truncated")
def test_a_long_or_wrongly_labelled_robots_txt_is_read(search, flag):
    search.gets(200, RULES, flags=[flag], request=Request(ROBOTS))
    assert search.status() == "ALLOWED"
    assert search.status(SECRET) == "DENIED"


@each("flags", [], ["not_decoded"])
@each("status", 200, 203, 206)
def test_a_compressed_robots_txt_is_read_whatever_its_fields_say(search, flags, status):
    search.gets(status, gzip.compress(RULES), flags=flags)
    assert (search.status(), search.status(SECRET)) == ("ALLOWED", "DENIED")


def test_a_compressed_robots_txt_is_bounded_like_another(search):
    search.gets(200, gzip.compress(RULES + b"#" * (100 << 20)))
    assert (search.status(), search.status(SECRET)) == ("ALLOWED", "DENIED")


def test_a_compressed_robots_txt_that_is_damaged_does_not_count(search):
    for _ in range(3):
        search.gets(200, gzip.compress(b"User-agent: *\nDisallow: /x" * 99)[:-20])
    assert search.failure() == "incomplete"


def test_the_reason_is_that_of_the_last_time(search, clock):
    search.note_answer(PAGE, "dns_not_found", None)
    clock.advance(600)
    for _ in range(3):
        search.gets(503)
    assert search.failure() == "robots_unreachable"


def test_a_failure_after_a_redirect_is_retried_where_the_redirect_led(search):
    search.gets(301, Location="/moved.txt")
    search.note_answer(PAGE, "timeout", None)
    assert search.robots_url(PAGE) == "http://a.test/moved.txt"


def test_without_obeying_all_is_fetched_at_once_without_delay(robots, clock):
    search = search_of(robots, clock, obey=False)
    robots.put("http://a.test", 200, RULES)
    assert search.status(SECRET) == "ALLOWED"
    assert search.status("http://unknown.test/") == "ALLOWED"
    assert search.crawl_delay(PAGE) == 0


@each("url", "data:,hello", "gopher://a.test/0/file", "file:///etc/passwd")
def test_schemes_without_robots_txt_are_allowed(search, url):
    assert search.status(url) == "ALLOWED"


def test_the_memory_of_reasons_is_bounded(robots, clock, monkeypatch):
    monkeypatch.setattr("webcrawl.hosts.robots.lookup._REMEMBERED_ORIGINS", 2)
    search = search_of(robots, clock)
    for name in ("a", "b", "c"):
        search.note_answer(f"http://{name}.test/", "timeout_never_heard_of", None)
    assert search.reason("http://a.test/") == "robots_unreachable"
    assert search.reason("http://c.test/") == "timeout_never_heard_of"


# --- robots.txt of one host that stands on another


def test_a_redirect_to_another_host_goes_through_that_host_s_queue(search):
    assert search.gets(301, Location="//b.test/rules.txt") == "http://b.test/rules.txt"
    assert search.status() == "ON_REMOTE_HOST"
    assert search.gets(200, RULES, url="http://a.test") is None
    assert search.status(SECRET) == "DENIED"
    # The rules say nothing about the host they were found on.
    assert search.status("http://b.test/private/page") == "UNKNOWN"


def test_a_failed_robots_redirect_is_repeated_then_unreachable(search):
    search.gets(301, Location="//b.test/rules.txt")
    for _ in range(2):
        assert search.note_answer("http://a.test", "http_503", None) == "http://b.test/rules.txt"
    assert search.note_answer("http://a.test", "http_503", None) is None
    assert search.failure() == "http_503"


def test_a_robots_redirect_may_lead_back_or_on_to_a_third_host(search):
    search.gets(301, Location="//b.test/rules.txt")
    there = "http://a.test"
    assert search.gets(302, url=there, Location="//c.test/x") == "http://c.test/x"
    assert search.gets(302, url=there, Location="//a.test/rules") is None
    assert search.status() == "UNKNOWN"
    assert search.robots_url(PAGE) == "http://a.test/rules"


def test_a_robots_redirect_that_never_comes_back_is_given_up(search, clock):
    search.gets(301, Location="//b.test/rules.txt")
    clock.advance(3599)
    assert search.status() == "ON_REMOTE_HOST"
    clock.advance(1)
    assert search.status() == "UNKNOWN"
    assert search.robots_url(PAGE) == ROBOTS


def test_a_robots_txt_by_ftp_counts_too(search):
    assert search.status("ftp://a.test/file") == "UNKNOWN"
    assert search.robots_url("ftp://a.test/file") == "ftp://a.test/robots.txt"
    search.gets(200, b"User-agent: *\nDisallow: /", url="ftp://a.test/file")
    assert search.status("ftp://a.test/file") == "DENIED"


def test_a_robots_txt_with_lost_rules_is_not_requested_again_immediately(search, clock):
    """This happens to a URL in a shard that is not its own, whose rules go to another one."""
    search.robots_url(PAGE)
    search.note_request(PAGE)
    assert search.status() == "TOO_SOON"
    assert search.status("https://a.test/page") == "UNKNOWN"
    clock.advance(59)
    assert search.floor_secs(PAGE) == pytest.approx(1)
    clock.advance(1)
    assert search.status() == "UNKNOWN"


def test_the_next_step_of_a_search_waits_for_no_floor(search):
    search.note_request(PAGE)
    search.gets(301, Location="/moved.txt")
    assert search.status() == "UNKNOWN"
    search.note_request(PAGE)
    search.note_answer(PAGE, "connect_failed", None)
    assert search.status() == "UNKNOWN"


def test_a_robots_txt_that_holds_for_less_than_the_floor_is_asked_for_then(clock):
    search = search_of(robots_cache(Records(), clock=clock, expire=5.0), clock)
    search.note_request(PAGE)
    search.gets(200, RULES)
    clock.advance(5.0)
    assert search.status() == "UNKNOWN"
