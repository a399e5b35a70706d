"""The lines and groups of a robots.txt."""

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


GOOGLE = "google/robotstxt, robots.cc"
HERITRIX = "heritrix3 #127, and Robotstxt.java, which removes markup"
RFC = "RFC 9309, 2.2: a line without a known name has no meaning"
GROUP = b"User-agent: *\nDisallow: /x\n"
WIDE = GROUP.decode()

# What is around a group, the bytes, the patterns read from them, and whose reading that is, or who
# reported it. Google's parser reads those of HERITRIX otherwise: here the crawl is more obedient.
JUNK = [
    ("a byte order mark", b"\xef\xbb\xbf" + GROUP, ["/x"], GOOGLE),
    ("two thirds of it", b"\xef\xbb" + GROUP, ["/x"], GOOGLE),
    ("a third of it", b"\xef" + GROUP, ["/x"], GOOGLE),
    ("a line of text", b"This is our robots file\n" + GROUP, ["/x"], GOOGLE),
    ("two words", b"robots file\n" + GROUP, ["/x"], GOOGLE),
    ("a line with a colon", b"Note: for robots\n" + GROUP, ["/x"], GOOGLE),
    ("the head of an answer", b"HTTP/1.1 200 OK\r\nDate: now\r\n\r\n" + GROUP, ["/x"], GOOGLE),
    ("the size of a chunk", b"1d\r\n" + GROUP, ["/x"], GOOGLE),
    ("bytes that are no text", bytes(range(128, 256)) + b"\n" + GROUP, ["/x"], GOOGLE),
    ("a line of HTML", b"<html><body><pre>\n" + GROUP, ["/x"], GOOGLE),
    ("several agents", b"User-agents: *\nDisallow: /x", ["/x"], GOOGLE),
    ("something disallowed", b"User-agent: *\nDisallowed: /x", ["/x"], GOOGLE),
    ("a rule before the group", b"Disallow: /x\nUser-agent: *\n", [], GOOGLE),
    ("a comment", b"# User-agent: *\nDisallow: /x", [], GOOGLE),
    ("words before a rule", b"User-agent: *\nplease Disallow: /x", [], GOOGLE),
    ("a mark before a rule", b"User-agent: *\n\xef\xbb\xbfDisallow: /x", [], GOOGLE),
    ("no line ends", b"User-agent: webcrawl Disallow: /x", [], GOOGLE),
    ("equals signs", b"User-agent = *\nDisallow = /x", [], GOOGLE),
    ("a tag in a pattern", b"User-agent: *\nDisallow: /<id>/x", ["/<id>/x"], GOOGLE),
    ("two byte order marks", b"\xef\xbb\xbf" * 2 + GROUP, ["/x"], HERITRIX),
    ("a mark on the second line", b"# hi\n\xef\xbb\xbf" + GROUP, ["/x"], HERITRIX),
    ("a mark encoded twice", "\xef\xbb\xbf".encode() + GROUP, ["/x"], HERITRIX),
    ("a mark that became ?", b"???" + GROUP, ["/x"], HERITRIX),
    ("UTF-16, little end first", b"\xff\xfe" + WIDE.encode("utf-16-le"), ["/x"], HERITRIX),
    ("UTF-16, big end first", b"\xfe\xff" + WIDE.encode("utf-16-be"), ["/x"], HERITRIX),
    ("UTF-16 without a mark", WIDE.encode("utf-16-le"), ["/x"], HERITRIX),
    ("UTF-32", WIDE.encode("utf-32"), ["/x"], HERITRIX),
    ("ASCII with UTF-16's mark", b"\xff\xfe" + GROUP, ["/x"], HERITRIX),
    ("a space of no width", "\u200b".encode() + GROUP, ["/x"], HERITRIX),
    ("a space that never breaks", "\u00a0".encode() + GROUP, ["/x"], HERITRIX),
    ("a mark of direction", "\u202a".encode() + GROUP, ["/x"], HERITRIX),
    ("a separator of Unicode", "\u2028".encode() + GROUP, ["/x"], HERITRIX),
    ("control characters", b"\0\x01\x1a\x7f" + GROUP, ["/x"], HERITRIX),
    ("a letter", b"x" + GROUP, ["/x"], HERITRIX),
    ("a bracket", b"[" + GROUP, ["/x"], HERITRIX),
    ("a dash", b"- " + GROUP, ["/x"], HERITRIX),
    ("a star", b"* " + GROUP, ["/x"], HERITRIX),
    ("a colon", b":" + GROUP, ["/x"], HERITRIX),
    ("slashes", b"// " + GROUP, ["/x"], HERITRIX),
    ("words", b"robots.txt of a.test User-agent: *\nDisallow: /x", ["/x"], HERITRIX),
    ("PHP", b"<?php ?>" + GROUP, ["/x"], HERITRIX),
    ("a tag", b"<pre>" + GROUP, ["/x"], HERITRIX),
    ("tags around lines", b"<p>User-agent: *<br>\n<p>Disallow: /x<br />\n", ["/x"], HERITRIX),
    ("tags for lines", b"<pre>User-agent: *<br>Disallow: /x</pre>", ["/x"], HERITRIX),
    ("slashes, later", b"User-agent: a\n// User-agent: *\nDisallow: /x", [], RFC),
    ("something allowed", b"User-agent: *\nDisallow: /x\nAllowed: /y", ["/x"], RFC),
]  # fmt: skip


@pytest.mark.parametrize(("body", "answer", "source"), [row[1:] for row in JUNK])
def test_junk_hides_no_group(body, answer, source):
    assert patterns(body) == answer


def test_junk_before_an_agent_that_is_not_the_first_names_nobody():
    text = "User-agent: other\nDisallow: /y\njunk User-agent: webcrawl\nDisallow: /x"
    assert patterns(text) == []


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
        ("Crawl-delay: 0,5", 0.5),
        ("Crawl-delay: ,5", 0.5),
        ("Crawl-delay: 1,", 1),
        ("Crawl-delay: 1.5,2", 1.5),
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


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        ("Crawl-delay: soon", (None, "soon")),
        ("Crawl-delay: -1", (None, "-1")),
        ("Crawl-delay:", (None, "")),
        ("Crawl-delay: \xc3\xbc" + 100 * "x", (None, "ü" + 38 * "x")),
        ("Crawl-delay: 5\nCrawl-delay: nan", (5, "nan")),
        ("Crawl-delay: 10s", (10, "")),
        ("Disallow: /\nUser-agent: b\nCrawl-delay: soon", (None, "")),
    ],
)
def test_a_delay_that_is_not_a_number_is_reported_and_ignored(lines, answer):
    found = reading(f"User-agent: *\n{lines}".encode("latin-1"))
    assert (found.crawl_delay, found.bad_delay) == answer


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
