"""The lines and groups of a robots.txt."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from webcrawl.hosts.robots.grammar import MAX_BYTES, MAX_CRAWL_DELAY, read

ONLY_X = [(False, "/x", "Disallow: /x")]


def reading(text, *, token="webcrawl"):
    return read(text.encode() if isinstance(text, str) else text, token=token)


def patterns(text, *, token="webcrawl"):
    return [pattern for _, pattern, _ in reading(text, token=token).rules]


@pytest.mark.parametrize(
    "line",
    [
        "Disallow: /x", "disallow:/x", "  DISALLOW\t :\t/x  ", "Disallow: /x# why", "Disallow /x",
        "Dissallow: /x", "Dissalow: /x", "Disalow: /x", "Diasllow: /x", "Disallaw: /x",
        "\x0bDisallow: /x\x0c",
    ],
)  # fmt: skip
def test_a_rule_is_read_however_it_is_written(line):
    for agent in ("User-agent: *", "user-AGENT : *", "Useragent: *", "User agent: *",
                  "User-agent *", "User-agent: * # all", "User-agent: **"):  # fmt: skip
        ((allow, pattern, kept),) = reading(f"{agent}\n{line}").rules
        assert (allow, pattern) == (False, "/x")
        assert kept == line.partition("#")[0]


@pytest.mark.parametrize(
    "line",
    ["Disallow", "Disallow:", "Disallow: # /x", "#Disallow: /x", "Disallow /x y", "No: /x", ": /x"],
)
def test_a_line_that_is_no_rule_gives_no_rule(line):
    assert reading(f"User-agent: *\n{line}").rules == []


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\n\n", "\r\r\n", "\n\r"])
def test_lines_end_in_cr_lf_or_both(end):
    text = end.join(["User-agent: *", "Disallow: /x", ""])
    assert reading(text).rules == ONLY_X


@pytest.mark.parametrize("separator", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_nothing_else_ends_a_line(separator):
    text = f"User-agent: *\nDisallow: /x{separator}Disallow: /y"
    assert len(reading(text).rules) == 1


def test_a_letter_whose_utf_8_ends_in_a_blank_of_latin_1_stays_whole():
    assert patterns("User-agent: *\nDisallow: /à") == ["/\xc3\xa0"]


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"\xef\xbb", b"\xef", b""])
def test_a_byte_order_mark_or_part_of_it_is_passed_over(mark):
    assert reading(mark + b"User-agent: *\nDisallow: /x").rules == ONLY_X


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        # A named group hides that for all, wherever it stands.
        ("User-agent: webcrawl\nDisallow: /x\n\nUser-agent: *\nDisallow: /y", ["/x"]),
        ("User-agent: *\nDisallow: /y\n\nUser-agent: WebCrawl\nDisallow: /x", ["/x"]),
        ("User-agent: *\nDisallow: /y\nUser-agent: webcrawl", []),
        ("User-agent: other\nDisallow: /y\nUser-agent: *\nDisallow: /x", ["/x"]),
        ("User-agent: other\nDisallow: /y", []),
        # Product tokens are compared whole, whatever follows them.
        ("User-agent: webcrawl/2.0 (x)\nDisallow: /x", ["/x"]),
        ("User-agent: webcrawl*\nDisallow: /x", ["/x"]),
        ("User-agent: webcrawl bot\nDisallow: /x", ["/x"]),
        ("User-agent: web\nDisallow: /y", []),
        ("User-agent: webcrawler\nDisallow: /y", []),
        ("User-agent: my-webcrawl\nDisallow: /y", []),
        ("User-agent: *bot\nDisallow: /y", []),
        # Groups of one name are one; several names may share one.
        (
            "User-agent: webcrawl\nDisallow: /1\nUser-agent: b\nUser-agent: webcrawl\nDisallow: /2",
            ["/1", "/2"],
        ),
        ("User-agent: *\nDisallow: /1\nUser-agent: b\nUser-agent: *\nDisallow: /2", ["/1", "/2"]),
        ("User-agent: a\n\n# x\nUser-agent: webcrawl\n\n\nDisallow: /x", ["/x"]),
        ("User-agent: webcrawl\nUser-agent: *\nUser-agent: c\nDisallow: /x", ["/x"]),
        # An empty rule ends the names of a group as any other.
        ("User-agent: webcrawl\nDisallow:\nUser-agent: c\nDisallow: /y", []),
        # 2.2.4: other records do not interfere with groups.
        ("User-agent: webcrawl\nSitemap: https://a.test/s\nUser-agent: c\nDisallow: /x", ["/x"]),
        ("User-agent: webcrawl\nCrawl-delay: 1\nUser-agent: c\nDisallow: /x", ["/x"]),
        ("User-agent: webcrawl\nHost: a.test\nUser-agent: c\nDisallow: /x", ["/x"]),
        ("User-agent: webcrawl\nDisallow: /1\nSitemap: /s\nDisallow: /2", ["/1", "/2"]),
        # Rules of nobody.
        ("Disallow: /y\nUser-agent: webcrawl\nDisallow: /x", ["/x"]),
        ("User-agent: *\nDisallow: /x\nUser-agent:\nDisallow: /y", ["/x"]),
    ],
)  # fmt: skip
def test_the_rules_are_those_of_our_groups_or_else_of_the_star(text, answer):
    assert patterns(text) == answer


def test_the_token_is_compared_without_case():
    text = "User-agent: FooBot\nDisallow: /x"
    for token in ("foobot", "FooBot", "FOOBOT"):
        assert patterns(text, token=token) == ["/x"]


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        ("Crawl-delay: 2.5", 2.5),
        ("crawl-DELAY:.5", 0.5),
        ("Crawl delay: 3.", 3),
        ("Crawldelay: 3", 3),
        ("Crawl-delay: 10s", 10),
        ("Crawl-delay: 0", 0),
        ("Crawl-delay: 5\nCrawl-delay: 2\nDisallow: /", 5),
        ("Crawl-delay: 5\nDisallow: /\nUser-agent: *\nCrawl-delay: 7", 7),
        ("User-agent: b\nCrawl-delay: 4\nDisallow: /\nUser-agent: b\nCrawl-delay: 9", 4),
        ("Disallow: /\nUser-agent: b\nCrawl-delay: 9", None),
        ("Crawl-delay: " + "9" * 100_000, MAX_CRAWL_DELAY),
        ("Crawl-delay: 1e300", 1),
        ("Crawl-delay: inf", None),
        ("Crawl-delay: nan", None),
        ("Crawl-delay: -1", None),
        ("Crawl-delay:", None),
        ("Crawl-delay: .", None),
        ("Crawl-delay: soon", None),
        ("Request-rate: 1/5\nVisit-time: 0600-0845", None),
    ],
)
def test_the_delay_is_the_longest_of_our_groups(lines, answer):
    assert reading(f"User-agent: *\n{lines}").crawl_delay == answer


def test_a_delay_for_all_does_not_hold_for_a_named_crawler():
    text = "User-agent: *\nCrawl-delay: 9\nDisallow: /y\nUser-agent: webcrawl\nDisallow: /x"
    assert reading(text).crawl_delay is None
    assert reading(text, token="other").crawl_delay == 9


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("User-agent: webcrawl\nCrawl-delay: 1\nUser-agent: *\nCrawl-delay: 99", 1),
        ("User-agent: webcrawl\nUser-agent: *\nCrawl-delay: 9", 9),
        ("User-agent: webcrawl\nDisallow: /x\nUser-agent: *\nCrawl-delay: 99", None),
        ("User-agent: webcrawl\nCrawl-delay: x\nUser-agent: *\nCrawl-delay: 99", None),
    ],
)
def test_a_delay_belongs_to_the_agents_right_above_it(text, answer):
    assert reading(text).crawl_delay == answer


def test_a_delay_does_not_part_rules_from_the_agents_above_it():
    text = "User-agent: webcrawl\nCrawl-delay: 1\nUser-agent: *\nDisallow: /x"
    assert patterns(text) == patterns(text, token="other") == ["/x"]


def test_sitemaps_are_as_written_and_belong_to_no_group():
    text = (
        "Sitemap: https://a.test/1.xml\nUser-agent: other\nSitemap:http://b.test/ü?x\n"
        "site-map: https://a.test/1.xml\nDisallow: /\nSITEMAP https://a.test/3.xml#part\n"
        "Sitemap: /2.xml\nSitemap:\nSitemap: https://\nSitemap: a.test/4.xml\n"
    )
    assert reading(text).sitemaps == (
        "https://a.test/1.xml",
        "http://b.test/ü?x",
        "https://a.test/3.xml",
        "/2.xml",
        "https://",
        "a.test/4.xml",
    )


def test_only_whole_lines_of_the_first_500_kib_count():
    head = "User-agent: *\nDisallow: /x\n"
    cut = "Disallow: /y"
    filler = "#" * (MAX_BYTES - len(head) - len(cut) - 1) + "\n"
    # The line across the bound would otherwise forbid more than it says.
    assert patterns(head + filler + cut + "yyy\nDisallow: /late\n") == ["/x"]
    head = "User-agent: *\n"
    end = "\nDisallow: /x\r"
    fits = head + "#" * (MAX_BYTES - len(head) - len(end)) + end
    assert len(fits) == MAX_BYTES
    assert patterns(fits + "Disallow: /late\n") == ["/x"]
    assert patterns("x" * (MAX_BYTES + 1)) == []


def test_thousands_of_agents_with_thousands_of_rules_are_read_in_time():
    agents = "".join(f"User-agent: a{n}\nUser-agent: *\n" for n in range(9_000))
    text = agents + "".join(f"Disallow: /{n}\n" for n in range(9_000))
    started = time.process_time()
    assert len(patterns(text)) == 9_000
    # Copied for each agent, the rules would take minutes; 0.02 s is what it takes.
    assert time.process_time() - started < 5


LINES = st.sampled_from(
    [
        "User-agent: *", "user agent webcrawl", "User-agent: webcrawl, other", "User-agent: **",
        "Disallow: /x", "Disallow: /*$*", "Allow: /x/y$", "Disallow", "Disallow: %zz",
        "Crawl-delay: 1", "Sitemap: https://a.test/s", "Host: a.test",
        "\x0bUser-agent:\u2028Disallow: /", ":", "#", "",
    ]
)  # fmt: skip


@given(st.binary(max_size=300) | st.lists(LINES, max_size=12).map(lambda x: "\n".join(x).encode()))
@example(b"User-agent: *\nRequest-rate: " + b"9" * 5000 + b"/1\nVisit-time: 9999-9999")
def test_any_bytes_are_read(body):
    found = read(body, token="webcrawl")
    assert all(pattern for _, pattern, _ in found.rules)
    assert found.crawl_delay is None or 0 <= found.crawl_delay <= MAX_CRAWL_DELAY
