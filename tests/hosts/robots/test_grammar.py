"""Tests of the lines and groups of a robots.txt."""

import time

from text_tables import each

from webcrawl.hosts.robots.grammar import MAX_BYTES, MAX_CRAWL_DELAY, read

ONLY_X = [(False, "/x", "Disallow: /x")]


def reading(text, *, token="webcrawl"):
    return read(text.encode() if isinstance(text, str) else text, tokens=(token,))


def patterns(text, *, token="webcrawl"):
    return [pattern for _, pattern, _ in reading(text, token=token).rules]


@each(
    "line",
    "Disallow: /x", "disallow:/x", "  DISALLOW\t :\t/x  ", "Disallow: /x# why", "Disallow /x",
    "Dissallow: /x", "Dissalow: /x", "Disalow: /x", "Diasllow: /x", "Disallaw: /x",
    "\x0bDisallow: /x\x0c",
)  # fmt: skip
def test_a_rule_is_read_however_it_is_written(line):
    for agent in ("User-agent: *", "user-AGENT : *", "Useragent: *", "User agent: *",
                  "User-agent *", "User-agent: * # all", "User-agent: **"):  # fmt: skip
        ((allow, pattern, kept),) = reading(f"{agent}\n{line}").rules
        assert (allow, pattern) == (False, "/x")
        assert kept == line.partition("#")[0]


@each(
    "line",
    "Disallow",
    "Disallow:",
    "Disallow: # /x",
    "#Disallow: /x",
    "Disallow /x y",
    "No: /x",
    ": /x",
)
def test_an_invalid_line_gives_no_rule(line):
    assert reading(f"User-agent: *\n{line}").rules == []


@each("end", "\n", "\r", "\r\n", "\n\n", "\r\r\n", "\n\r")
def test_lines_end_in_cr_lf_or_both(end):
    assert reading(end.join(["User-agent: *", "Disallow: /x", ""])).rules == ONLY_X


@each("separator", "\x0b", "\x0c", "\x1c", "\x85", "\u2028")
def test_nothing_else_ends_a_line(separator):
    assert len(reading(f"User-agent: *\nDisallow: /x{separator}Disallow: /y").rules) == 1


@each("pattern answer", ("/à", "/\xc3\xa0"), ("/<id>/x", "/<id>/x"))
def test_a_pattern_stays_whole(pattern, answer):
    """This holds even if its UTF-8 ends in a blank of Latin-1, or if it has a tag in it."""
    assert patterns(f"User-agent: *\nDisallow: {pattern}") == [answer]


GROUP = b"User-agent: *\nDisallow: /x\n"
WIDE = GROUP.decode()


@each(
    "junk",
    # As google/robotstxt reads it, robots.cc.
    b"\xef\xbb\xbf",  # a byte order mark
    b"\xef\xbb",  # two thirds of it
    b"\xef",  # a third of it
    b"This is our robots file\n",  # a line of text
    b"robots file\n",  # two words
    b"Note: for robots\n",  # a line with a colon
    b"HTTP/1.1 200 OK\r\nDate: now\r\n\r\n",  # the head of an answer
    b"1d\r\n",  # the size of a chunk
    bytes(range(128, 256)) + b"\n",  # bytes that are no text
    b"<html><body><pre>\n",  # a line of HTML
    # Reported in heritrix3 #127, or by Robotstxt.java, which removes markup. Google's parser
    # reads these otherwise: here the crawl is more obedient.
    b"\xef\xbb\xbf" * 2,  # two byte order marks
    b"# hi\n\xef\xbb\xbf",  # a mark on the second line
    "\xef\xbb\xbf".encode(),  # a mark encoded twice
    b"???",  # a mark that became ?
    b"\xff\xfe",  # ASCII with UTF-16's mark
    "\u200b".encode(),  # a space of no width
    "\u00a0".encode(),  # a space that never breaks
    "\u202a".encode(),  # a mark of direction
    "\u2028".encode(),  # a separator of Unicode
    b"\0\x01\x1a\x7f",  # control characters
    b"x",  # a letter
    b"[",  # a bracket
    b"- ",  # a dash
    b"* ",  # a star
    b":",  # a colon
    b"// ",  # slashes
    b"<?php ?>",  # PHP
    b"<pre>",  # a tag
)
def test_junk_before_a_group_does_not_hide_it(junk):
    assert patterns(junk + GROUP) == ["/x"]


@each(
    "body",
    # RFC 9309, 2.2: a line without a known name has no meaning.
    GROUP + b"Allowed: /y",
    b"User-agents: *\nDisallow: /x",  # several agents
    b"User-agent: *\nDisallowed: /x",  # something disallowed
    b"\xff\xfe" + WIDE.encode("utf-16-le"),  # UTF-16, little end first
    b"\xfe\xff" + WIDE.encode("utf-16-be"),  # UTF-16, big end first
    WIDE.encode("utf-16-le"),  # UTF-16 without a mark
    WIDE.encode("utf-32"),  # UTF-32
    b"robots.txt of a.test User-agent: *\nDisallow: /x",  # words
    b"<p>User-agent: *<br>\n<p>Disallow: /x<br />\n",  # tags around lines
    b"<pre>User-agent: *<br>Disallow: /x</pre>",  # tags for lines
)
def test_junk_within_a_group_does_not_hide_it(body):
    assert patterns(body) == ["/x"]


@each(
    "body",
    b"Disallow: /x\nUser-agent: *\n",  # a rule before the group
    b"# User-agent: *\nDisallow: /x",  # a comment
    b"User-agent: *\nplease Disallow: /x",  # words before a rule
    b"User-agent: *\n\xef\xbb\xbfDisallow: /x",  # a mark before a rule
    b"User-agent: webcrawl Disallow: /x",  # no line ends
    b"User-agent = *\nDisallow = /x",  # equals signs
    b"User-agent: a\n// User-agent: *\nDisallow: /x",  # slashes, later
)
def test_lines_without_a_group_or_a_rule_forbid_nothing(body):
    assert patterns(body) == []


@each(
    "text",
    # A named group hides that for all, wherever it stands.
    "User-agent: webcrawl\nDisallow: /x\n\nUser-agent: *\nDisallow: /y",
    "User-agent: *\nDisallow: /y\n\nUser-agent: WebCrawl\nDisallow: /x",
    "User-agent: other\nDisallow: /y\nUser-agent: *\nDisallow: /x",
    # Product tokens are compared whole, whatever follows them.
    "User-agent: webcrawl/2.0 (x)\nDisallow: /x",
    "User-agent: webcrawl*\nDisallow: /x",
    "User-agent: webcrawl bot\nDisallow: /x",
    # Several names may share a group.
    "User-agent: a\n\n# x\nUser-agent: webcrawl\n\n\nDisallow: /x",
    "User-agent: webcrawl\nUser-agent: *\nUser-agent: c\nDisallow: /x",
    # 2.2.4: other records do not interfere with groups.
    "User-agent: webcrawl\nSitemap: https://a.test/s\nUser-agent: c\nDisallow: /x",
    "User-agent: webcrawl\nCrawl-delay: 1\nUser-agent: c\nDisallow: /x",
    "User-agent: webcrawl\nHost: a.test\nUser-agent: c\nDisallow: /x",
    # Rules of nobody.
    "Disallow: /y\nUser-agent: webcrawl\nDisallow: /x",
    "User-agent: *\nDisallow: /x\nUser-agent:\nDisallow: /y",
)
def test_the_rules_are_those_of_our_groups_or_else_of_the_star(text):
    assert patterns(text) == ["/x"]


@each(
    "text",
    "User-agent: *\nDisallow: /y\nUser-agent: webcrawl",
    "User-agent: other\nDisallow: /y",
    "User-agent: web\nDisallow: /y",
    "User-agent: webcrawler\nDisallow: /y",
    "User-agent: my-webcrawl\nDisallow: /y",
    "User-agent: *bot\nDisallow: /y",
    # An empty rule ends the names of a group as any other.
    "User-agent: webcrawl\nDisallow:\nUser-agent: c\nDisallow: /y",
    # Junk hides the first name only.
    "User-agent: other\nDisallow: /y\njunk User-agent: webcrawl\nDisallow: /x",
)
def test_the_rules_of_other_groups_are_not_ours(text):
    assert patterns(text) == []


@each(
    "text",
    "User-agent: webcrawl\nDisallow: /1\nUser-agent: b\nUser-agent: webcrawl\nDisallow: /2",
    "User-agent: *\nDisallow: /1\nUser-agent: b\nUser-agent: *\nDisallow: /2",
    "User-agent: webcrawl\nDisallow: /1\nSitemap: /s\nDisallow: /2",
)
def test_groups_with_one_name_are_merged(text):
    assert patterns(text) == ["/1", "/2"]


@each(
    "lines answer",
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
)
def test_the_delay_is_the_longest_of_our_groups(lines, answer):
    assert reading(f"User-agent: *\n{lines}").crawl_delay == answer


@each(
    "lines answer",
    ("Crawl-delay: soon", (None, "soon")),
    ("Crawl-delay: -1", (None, "-1")),
    ("Crawl-delay:", (None, "")),
    ("Crawl-delay: \xc3\xbc" + 100 * "x", (None, "ü" + 38 * "x")),
    ("Crawl-delay: 5\nCrawl-delay: nan", (5, "nan")),
    ("Crawl-delay: 10s", (10, "")),
    ("Disallow: /\nUser-agent: b\nCrawl-delay: soon", (None, "")),
)
def test_a_delay_that_is_not_a_number_is_reported_and_ignored(lines, answer):
    found = reading(f"User-agent: *\n{lines}".encode("latin-1"))
    assert (found.crawl_delay, found.bad_delay) == answer


def test_a_delay_for_all_does_not_hold_for_a_named_crawler():
    text = "User-agent: *\nCrawl-delay: 9\nDisallow: /y\nUser-agent: webcrawl\nDisallow: /x"
    assert reading(text).crawl_delay is None
    assert reading(text, token="other").crawl_delay == 9


@each(
    "text answer",
    ("User-agent: webcrawl\nCrawl-delay: 1\nUser-agent: *\nCrawl-delay: 99", 1),
    ("User-agent: webcrawl\nUser-agent: *\nCrawl-delay: 9", 9),
    ("User-agent: webcrawl\nDisallow: /x\nUser-agent: *\nCrawl-delay: 99", None),
    ("User-agent: webcrawl\nCrawl-delay: x\nUser-agent: *\nCrawl-delay: 99", None),
)
def test_a_delay_belongs_to_the_agents_right_above_it(text, answer):
    assert reading(text).crawl_delay == answer


def test_a_delay_does_not_separate_rules_from_the_agents_above():
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
