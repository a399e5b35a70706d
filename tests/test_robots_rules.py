"""robots.txt as rules for one user agent."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scrapy.settings import Settings

from webcrawl.errors import FatalError
from webcrawl.robots.rules import MAX_BYTES, Rules, user_agent_token

ORIGIN = "https://a.test"


def rules(text: str, *, user_agent: str = "webcrawl") -> Rules:
    return Rules.parse(text.encode(), user_agent=user_agent)


def allowed(text: str, path: str) -> bool:
    return rules(text).allowed(ORIGIN + path)


@pytest.mark.parametrize(
    ("text", "path", "answer"),
    [
        ("", "/", True),
        ("User-agent: *\nDisallow:", "/x", True),
        ("User-agent: *\nDisallow: /", "/x", False),
        ("User-agent: *\nDisallow: /", "/robots.txt", True),
        ("User-agent: *\nDisallow: /x", "/xy", False),
        ("User-agent: *\nDisallow: /x/", "/x", True),
        ("User-agent: *\nDisallow: /x\nAllow: /x/y", "/x/y/z", True),
        ("User-agent: *\nAllow: /x\nDisallow: /x", "/x", True),
        ("User-agent: *\nDisallow: /*.gif$", "/a.gif", False),
        ("User-agent: *\nDisallow: /*.gif$", "/a.gif?x", True),
        ("User-agent: *\nDisallow: /a?b=", "/a?b=1", False),
        ("User-agent: *\nDisallow: /%7Ejoe/", "/~joe/x", False),
        ("User-agent: *\nDisallow: /caf\u00e9", "/caf%C3%A9", False),
        ("user-AGENT : *\n disallow:/x  # why\n", "/x", False),
        ("\ufeffUser-agent: *\nDisallow: /x", "/x", False),
        ("User-agent: *\rDisallow: /x\r", "/x", False),
    ],
)
def test_paths_are_matched_as_the_standard_says(text, path, answer):
    assert allowed(text, path) is answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("User-agent: webcrawl\nDisallow: /\n\nUser-agent: *\nAllow: /", False),
        ("User-agent: *\nDisallow: /\n\nUser-agent: WebCrawl\nAllow: /", True),
        ("User-agent: webcrawl/2.0\nDisallow: /", False),
        ("User-agent: webcrawl*\nDisallow: /", False),
        ("User-agent: web\nDisallow: /", True),
        ("User-agent: webcrawler\nDisallow: /", True),
        ("User-agent: crawl\nDisallow: /", True),
        ("User-agent: other\nUser-agent: webcrawl\nDisallow: /", False),
        ("User-agent: other\nDisallow: /\n\nUser-agent: *\nAllow: /", True),
        ("User-agent: other\nDisallow: /", True),
        ("User-agent: webcrawl\nDisallow: /a\nUser-agent: webcrawl\nDisallow: /x", False),
        ("User-agent webcrawl\nDisallow: /", False),
        ("Useragent: webcrawl\nDisallow: /", False),
        ("User agent: webcrawl\nDisallow: /", False),
        ("User-agent: *#comment\nDisallow: /", False),
        ("User-agent:\nDisallow: /", True),
        ("Disallow: /", True),
        ("User-agent: nobody\nDisallow: /", True),
    ],
)
def test_the_group_of_the_product_token_is_followed_or_else_the_star(text, answer):
    assert rules(text).allowed(f"{ORIGIN}/x") is answer


def test_delay_and_sitemaps_are_read():
    text = (
        "Sitemap: https://a.test/1.xml\nUser-agent: other\nCrawl-delay: 9\n"
        "User-agent: *\nCrawl-delay: 2.5\nSitemap: /2.xml\n"
    )
    assert rules(text).crawl_delay == 2.5
    assert rules(text, user_agent="Other").crawl_delay == 9
    assert rules(text).sitemaps == ("https://a.test/1.xml", "/2.xml")
    for nonsense in ("x", "-1", "nan", "inf", ""):
        assert rules(f"User-agent: *\nCrawl-delay: {nonsense}").crawl_delay is None


@pytest.mark.parametrize(
    ("status", "everything", "failed"),
    [
        (400, True, False),
        (401, True, False),
        (403, True, False),
        (404, True, False),
        (410, True, False),
        (429, False, True),
        (500, False, True),
        (503, False, True),
        (599, False, True),
        (None, False, True),
        (301, True, False),
        (304, True, False),
        (999, True, False),
    ],
)
def test_without_a_file_the_status_tells(status, everything, failed):
    made = Rules.from_outcome(status, b"User-agent: *\nDisallow: /", user_agent="webcrawl")
    assert (made.allowed(f"{ORIGIN}/"), made.failed) == (everything, failed)
    assert (made.crawl_delay, made.sitemaps, made.size_bytes) == (None, (), 0)


@pytest.mark.parametrize("status", [200, 203, 206])
def test_with_a_file_the_file_tells(status):
    made = Rules.from_outcome(status, b"User-agent: *\nDisallow: /x", user_agent="webcrawl")
    assert made.allowed(f"{ORIGIN}/")
    assert not made.allowed(f"{ORIGIN}/x")
    assert not made.failed


def test_only_whole_lines_of_the_first_500_kib_count():
    head = "User-agent: *\n"
    filler = "# filler\n" * ((MAX_BYTES - len(head)) // 9)
    text = head + filler + "Disallow: /" + "x" * 20 + "\nDisallow: /late\n"
    assert len(head + filler) <= MAX_BYTES < len(text)
    made = rules(text)
    assert made.allowed(f"{ORIGIN}/late")
    # The line across the bound would otherwise forbid more than it says.
    assert made.allowed(f"{ORIGIN}/xxx")
    assert made.size_bytes == MAX_BYTES


def test_thousands_of_agents_with_thousands_of_rules_are_read_in_time():
    agents = "".join(f"User-agent: a{n}\n" for n in range(12_000))
    text = agents + "".join(f"Disallow: /{n}\n" for n in range(18_000))
    started = time.process_time()
    assert rules(text).allowed(f"{ORIGIN}/17999")
    assert rules(text + "User-agent: *\nDisallow: /").allowed(f"{ORIGIN}/") is False
    # Copied for each agent, the rules would take minutes; 0.2 s is what it takes.
    assert time.process_time() - started < 10


@given(st.binary(max_size=500), st.text(max_size=40))
@example(b"User-agent: *\nDisallow: /\xff\xfe%", "http://[")
@example(b"User-agent: *\nDisallow: /", "http://[::1/\ud800")
@example(b"User-agent: *\nRequest-rate: " + b"9" * 5000 + b"/1\nVisit-time: 9999-9999", "//")
def test_any_bytes_make_rules_and_any_text_is_judged(body, url):
    made = Rules.parse(body, user_agent="webcrawl")
    assert isinstance(made.allowed(url), bool)
    assert made.crawl_delay is None or made.crawl_delay >= 0
    assert isinstance(made.sitemaps, tuple)


LINES = st.sampled_from(
    [
        "User-agent: *", "user agent webcrawl", "User-agent: webcrawl, other", "User-agent: **",
        "Disallow: /x", "Disallow: /*$*", "Allow: /x/y$", "Disallow", "Disallow: %zz",
        "Crawl-delay: 1", "Sitemap: https://a.test/s", "Host: a.test",
        "\x0bUser-agent:\u2028Disallow: /", ":", "#", "",
    ]
)  # fmt: skip


@given(st.lists(LINES, max_size=12), st.sampled_from(["\n", "\r\n", "\r", "\n\n", "\x0c"]))
def test_lines_in_any_order_are_judged(lines, end):
    made = rules(end.join(lines))
    for path in ("/", "/x", "/x/y", "/%78", "/?$"):
        assert isinstance(made.allowed(ORIGIN + path), bool)


@pytest.mark.parametrize(
    ("settings", "token"),
    [
        ({"USER_AGENT": "webcrawl/0.1 (+https://a.test)"}, "webcrawl"),
        ({"USER_AGENT": "Mozilla/5.0 (compatible; WebCrawl/1.0; +https://a.test)"}, "WebCrawl"),
        ({"USER_AGENT": "My-Bot_x 1.0"}, "My-Bot_x"),
        ({"USER_AGENT": "other/1", "ROBOTSTXT_USER_AGENT": "webcrawl"}, "webcrawl"),
        ({}, "Scrapy"),
    ],
)
def test_the_token_is_the_product_that_the_settings_name(settings, token):
    assert user_agent_token(Settings(settings)) == token


@pytest.mark.parametrize("name", ["", None, "*", "(+https://a.test)", "42"])
def test_a_user_agent_without_a_product_is_refused(name):
    with pytest.raises(FatalError, match=r"^USER_AGENT must begin with a product name"):
        user_agent_token(Settings({"USER_AGENT": name}))
