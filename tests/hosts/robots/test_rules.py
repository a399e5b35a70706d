"""Tests of robots.txt as rules for one crawler."""

from hypothesis import example, given
from hypothesis import strategies as st
from text_tables import each

from webcrawl.hosts.robots.rules import RobotsRules

ORIGIN = "https://a.test"


def rules(text, *, tokens=("webcrawl",)):
    return RobotsRules.parse(text.encode(), tokens=tokens)


@each(
    "text path answer",
    ("", "/", True),
    ("User-agent: *\nDisallow: /", "", False),
    ("User-agent: *\nDisallow: /a?b=", "/a?b=1", False),
    ("User-agent: *\nDisallow: /a?b=", "?b=1", True),
    ("User-agent: *\nDisallow: /x", "/#/x", True),
    # robots.txt itself is implicitly allowed, and nothing that only looks like it.
    ("User-agent: *\nDisallow: /", "/robots.txt", True),
    ("User-agent: *\nDisallow: /", "/robots%2Etxt#x", True),
    ("User-agent: *\nDisallow: /", "/robots.txt?x", False),
    ("User-agent: *\nDisallow: /", "/x/robots.txt", False),
)
def test_urls_are_judged_by_path_and_query(text, path, answer):
    assert rules(text).decide(ORIGIN + path).allow is answer


def test_the_line_that_decided_is_shown_without_its_comment():
    made = rules("User-agent: *\n  Disallow :/x*é # why\r\nAllow: /x/y\nDisallow /z\n")
    assert made.decide(f"{ORIGIN}/xé").line == "Disallow :/x*é"
    assert made.decide(f"{ORIGIN}/x/y").line == "Allow: /x/y"
    assert made.decide(f"{ORIGIN}/z").line == "Disallow /z"
    assert made.decide(f"{ORIGIN}/").line == ""
    assert rules("User-agent: *\nDisallow: /").decide(f"{ORIGIN}/robots.txt").line == ""


# Without an HTTP status RFC 9110, section 15, has it processed as 5xx.
FAILED = [429, 500, 503, 599, None, 999, 0, -1]


@each("status", 400, 401, 403, 404, 410, 301, 304, *FAILED)
def test_without_a_file_the_status_decides(status):
    made = RobotsRules.from_outcome(status, b"User-agent: *\nDisallow: /", tokens=("webcrawl",))
    assert made.failed is (status in FAILED)
    assert made.decide(f"{ORIGIN}/").allow is not made.failed
    assert made.decide(f"{ORIGIN}/robots.txt").allow
    assert (made.crawl_delay, made.sitemaps, made.decide(f"{ORIGIN}/").line) == (None, (), "")


def test_only_the_rules_for_us_take_memory():
    lines = "".join(f"Disallow: /{n}\n" for n in range(1000))
    assert rules(f"User-agent: webcrawl\n{lines}").size_bytes > 100_000
    assert rules(f"User-agent: other\n{lines}").size_bytes == rules("").size_bytes
    assert rules("Sitemap: https://a.test/" + "s" * 1000).size_bytes > 1000


def test_all_hosts_without_rules_share_one_set():
    nothing = rules("")
    assert rules("User-agent: other\nDisallow: /") is nothing
    assert RobotsRules.from_outcome(404, b"", tokens=("webcrawl",)) is nothing
    assert RobotsRules.from_outcome(503, b"", tokens=("webcrawl",)) is not nothing
    for line in ("Disallow: /", "Crawl-delay: 1", "Sitemap: https://a.test/s"):
        assert rules(f"User-agent: *\n{line}") is not nothing


@given(st.binary(max_size=500), st.text(st.characters(codec=None), max_size=40))
@example(b"User-agent: *\nDisallow: /\xff\xfe%", "http://[")
@example(b"User-agent: *\nDisallow: /", "http://[::1/\ud800")
@example(b"User-agent: *\nAllow: *$\nDisallow: $\nDisallow: **$$", "//")
def test_any_bytes_make_rules_and_any_text_is_judged(body, url):
    for whole in (body, b"User-agent: *\nDisallow: " + body.replace(b"\n", b"\nAllow:")):
        made = RobotsRules.parse(whole, tokens=("webcrawl",))
        answer = made.decide(url).allow
        assert isinstance(answer, bool)
        assert answer or made.decide(url).line
        assert made.decide("https://a.test/robots.txt").allow


def test_the_group_for_the_purpose_is_preferred_and_the_general_one_is_the_next():
    own, general, all_ = (
        "User-agent: webcrawl-search\nDisallow: /own\nCrawl-delay: 7\n\n",
        ("user-agent: WebCrawl/1\nDisallow: /general\n\n"),
        "User-agent: *\nDisallow: /all\n\n",
    )
    tokens = ("webcrawl-search", "webcrawl")

    def denied(text):
        made = RobotsRules.parse(text.encode(), tokens=tokens)
        paths = ("own", "general", "all")
        return [path for path in paths if not made.decide(f"http://a.test/{path}").allow]

    assert denied(all_ + general + own) == denied(own + general) == ["own"]
    assert denied(all_ + general) == ["general"]
    assert denied(all_) == denied(all_ + "User-agent: webcrawl-train\nDisallow: /own") == ["all"]
    # Lines for both are lines for either; an empty group counts as one (RFC 9309, 2.2.1).
    assert denied("User-agent: webcrawl\n" + own + all_) == ["own"]
    assert denied("User-agent: webcrawl-search\nDisallow:\n\n" + general + all_) == []
    assert RobotsRules.parse((general + own).encode(), tokens=tokens).crawl_delay == 7
