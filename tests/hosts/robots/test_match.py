"""Tests of which rule decides: against a plain model, against Protego, and in bounded time."""

import itertools
import re
import time

from hypothesis import example, given
from hypothesis import strategies as st
from protego import Protego
from strategies import examples
from text_tables import each, table

from webcrawl.hosts.robots.grammar import MAX_BYTES
from webcrawl.hosts.robots.match import RuleSet
from webcrawl.hosts.robots.rules import RobotsRules

ORIGIN = "https://a.test"


def rule_set(*lines):
    """Return rules from lines such as "+/x", which allows, and "-/x"."""
    return RuleSet([(line[0] == "+", line[1:], line) for line in lines])


def decided(path, *lines):
    decision = rule_set(*lines).decide(path)
    if decision is not None:
        assert decision.allow is decision.line.startswith("+")
    return "" if decision is None else decision.line


# A star counts as an octet, so it makes a rule more specific. Rules that do not begin as they
# should are taken for what was meant.
@each(
    "path lines answer",
    *table("""
        /x |  |
        /xy | -/x | -/x
        /x | -/x/ |
        /X | -/x |
        /x/y/z | -/x +/x/y | +/x/y
        /x/y/z | +/x -/x/y | -/x/y
        /x | -/x +/x | +/x
        /x | +/x -/x | +/x
        /a.gif | -/*.gif$ | -/*.gif$
        /a.gif?x | -/*.gif$ |
        /x | -/x$ | -/x$
        /xy | -/x$ |
        / | -/$ +/ | -/$
        /a$b | -/a$b | -/a$b
        /ab | -/a$b |
        /a$b | -/a$* | -/a$*
        /page.htm | +/page -/*.htm | -/*.htm
        /fish | +/fish -/fish* | -/fish*
        /fishing | +/fish**** -/fishing | +/fish****
        /fishing | +/fish**** -/fishing -/fishi | +/fish****
        /fishing | -/fish*$ +/fish | -/fish*$
        /a/b/c | -/*/*/c +/a/b/ | -/*/*/c
        /abc | -/a*b*c$ +/ab*c | -/a*b*c$
        /aXbYc | -/a*b*c$ | -/a*b*c$
        /ab | -/a*ab$ |
        /aab | -/a*ab$ | -/a*ab$
        /ab | -/ab*b$ |
        /ab | -/a*b*b$ |
        /x | -* | -*
        /x.gif | -*.gif | -*.gif
        /x/y | -x/ | -x/
    """),
)
def test_the_rule_with_the_most_octets_decides(path, lines, answer):
    assert decided(path, *lines.split()) == answer


def test_the_same_rule_is_kept_once():
    once = rule_set("-/x", "+/a*b").size_bytes
    assert rule_set(*["-/x", "+/a*b"] * 50).size_bytes == once


TEXT = st.text("ab/?", max_size=7)
PATTERNS = st.tuples(
    st.sampled_from("+-"), st.just("/") | st.just("*"), st.text("aab/?**$", max_size=6)
).map("".join)


def model(path, lines):
    """Decide rule by rule: the longest that matches, and Allow between equals."""
    best = (0, False, "")
    for line in lines:
        pattern = line[1:].removesuffix("$")
        end = r"\Z" if line.endswith("$") else ""
        expression = ".*".join(map(re.escape, pattern.split("*"))) + end
        if re.match(expression, path):
            best = max(best, (len(line) - 1, line[0] == "+", line))
    return best


@given(TEXT.map(lambda text: "/" + text), st.lists(PATTERNS, max_size=8))
@example("/a", ["-/a$", "+/a*", "-*"])
@examples(600)
def test_rules_decide_as_in_a_plain_model(path, lines):
    octets, allow, _ = model(path, lines)
    line = decided(path, *lines)
    assert (len(line[1:]), line.startswith("+")) == (octets, allow)


# Where both read the standard alike: plain octets, no index.html, no Crawl-delay between agents.
AGENTS = st.sampled_from(["User-agent: webcrawl", "User-agent: *", "User-agent: other"])
RULES = st.builds(
    "{}: /{}".format, st.sampled_from(["Allow", "Disallow"]), st.text("ab/*", max_size=6)
)
ENDS = st.builds("{}$".format, RULES)


@given(st.lists(AGENTS | RULES | ENDS, max_size=14), st.text("ab/", max_size=8))
@examples(400)
def test_where_protego_reads_the_standard_alike_it_answers_alike(lines, path):
    text = "\n".join(lines)
    url = f"{ORIGIN}/{path}"
    ours = RobotsRules.parse(text.encode(), tokens=("webcrawl",))
    assert ours.decide(url).allow is Protego.parse(text).can_fetch(url, "webcrawl")


def filled(lines):
    """Return a file of 500 KiB that begins with *lines*."""
    parts = ["User-agent: *"]
    left = MAX_BYTES - len(parts[0]) - 1
    for line in lines:
        left -= len(line) + 1
        if left < 0:
            break
        parts.append(line)
    return "\n".join(parts).encode()


def words(length):
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    return map("".join, itertools.product(letters, repeat=length))


HOSTILE = {
    "wildcards": (f"Allow:/*{word}" for word in words(4)),
    "stars": ("Disallow: /" + "*a" * k + "*b$" for k in itertools.cycle(range(1, 60))),
    "distinct stars": ("Disallow: /" + "*a" * 20 + f"*{word}" for word in words(4)),
    "near misses": (f"Disallow: /*{'a' * (k % 60)}b{'a' * (k // 60)}" for k in itertools.count()),
    "one rule": iter(["Disallow: /" + "*a" * 255_000 + "b"]),
    "ends": (f"Disallow: /*{word}$" for word in words(4)),
    "prefixes": (f"Allow:/{word}" for word in words(4)),
    "lengths": (f"Disallow: /{'a' * k}b" for k in itertools.count()),
    "heads": (f"Disallow: /{'a' * k}*b" for k in itertools.count()),
    "escapes": (f"Disallow: /*%2f{word}%28%c3" for word in words(4)),
}


@each("kind", *HOSTILE)
def test_hostile_files_are_parsed_and_matched_in_time(kind):
    body = filled(HOSTILE[kind])
    assert len(body) > MAX_BYTES - 2000
    started = time.process_time()
    rules = RobotsRules.parse(body, tokens=("webcrawl",))
    parsed = time.process_time() - started
    # The slowest takes 0.1 s; with expressions that backtrack or scans it would be seconds.
    assert parsed < 3
    for path in ("a" * 2000, "a/b?c=d" * 10, "%2F%28" * 300, "ab" * 20_000):
        started = time.process_time()
        rules.decide(f"{ORIGIN}/{path}")
        # The slowest takes 0.01 s.
        assert time.process_time() - started < 1


def test_a_path_that_takes_too_long_is_disallowed_with_that_reason():
    body = filled(f"Allow: /*{'a' * 40}{word}" for word in words(4))
    rules = RobotsRules.parse(body, tokens=("webcrawl",))
    assert rules.decide(f"{ORIGIN}/short").allow
    long = f"{ORIGIN}/{'a' * 2000}"
    assert not rules.decide(long).allow
    assert rules.decide(long).line.startswith("# too many wildcard rules")
    assert rules.decide(f"{ORIGIN}/robots.txt").allow


def test_a_thousand_rules_with_wildcards_are_not_too_many():
    lines = [f"Disallow: /*/category-{word}/*/page?" for word in itertools.islice(words(3), 1000)]
    rules = RobotsRules.parse(filled([*lines, "Allow: /*?ok"]), tokens=("webcrawl",))
    assert rules.decide(f"{ORIGIN}/{'x' * 400}?ok").line == "Allow: /*?ok"
