"""Tests with the public cases of google/robotstxt-spec-test, decided by RFC 9309."""

import json
from pathlib import Path

from webcrawl.hosts.robots.rules import RobotsRules

CASES = json.loads(
    (Path(__file__).parents[2] / "data" / "google-spec-cases.json").read_text(encoding="utf-8")
)

_INDEX = (
    "2.2.2: a rule matches if its path is a beginning of the URL's. That Allow: .../index.html "
    "allows .../ as well is a habit of Google's."
)
_NOT_ASCII = (
    "2.2.2, third row of the table: octets beyond ASCII are percent-encoded in the URL too before "
    "it is compared. Google expects its callers to have done so."
)
_UNRESERVED = (
    "2.2.2, last row of the table: %62%61%7A is compared as baz. Google compares what is written."
)
_ROBOTS_TXT = "2.2.2: the /robots.txt URI is implicitly allowed. Google leaves that to its callers."
_NOISE = (
    "heritrix3 #127: junk before the first User-agent does not hide its group. Google passes over "
    "a byte order mark alone; the crawl is more obedient."
)

# (file, user agent, URL, what it says in the file): why the answer here is not the expected one.
DEPARTURES = {
    ("index-page", "foobot", "http://foo.com/allowed-slash/", "Allow: /allowed-slash/"): _INDEX,
    ("non-ascii-paths", "FooBot", "http://foo.bar/foo/bar/ツ", "Allow: /foo/bar/ツ"): _NOT_ASCII,
    (
        "non-ascii-paths",
        "FooBot",
        "http://foo.bar/foo/bar/ツ",
        "Allow: /foo/bar/%E3%83%84",
    ): _NOT_ASCII,
    (
        "non-ascii-paths",
        "FooBot",
        "http://foo.bar/foo/bar/baz",
        "Allow: /foo/bar/%62%61%7A",
    ): _UNRESERVED,
    ("BOM-characters", "foo", "http://example.com/AnyValue", "\x11"): _NOISE,
    ("327748", "asdfbot", "http://m.example.com/robots.txt", "Disallow: /"): _ROBOTS_TXT,
    ("369883", "BarBot", "http://example.com/robots.txt", "Disallow: /"): _ROBOTS_TXT,
    ("369883", "AB", "http://example.com/robots.txt", "Disallow: /"): _ROBOTS_TXT,
    ("860237", "XYZ", "http://example.com/robots.txt", "Disallow: /"): _ROBOTS_TXT,
}  # fmt: skip


def _departures(case):
    text = bytes.fromhex(case["robotstxt_hex"]).decode("utf-8", "replace")
    name = Path(case["file"]).stem
    return [
        key for key in DEPARTURES if key[:3] == (name, case["ua"], case["url"]) and key[3] in text
    ]


def test_public_cases_give_what_is_expected_but_for_the_departures():
    departing = []
    for case in CASES:
        rules = RobotsRules.parse(bytes.fromhex(case["robotstxt_hex"]), tokens=(case["ua"],))
        departures = _departures(case)
        is_expected = rules.decide(case["url"]).allow is (case["expected"] == "ALLOWED")
        assert is_expected is not bool(departures), case
        departing += departures
    assert sorted(departing) == sorted(DEPARTURES)
    assert (len(CASES), len(departing)) == (400, 9)
