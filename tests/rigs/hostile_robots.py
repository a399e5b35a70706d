"""robots.txt files that nobody wrote for a crawler to read: one attack for each name."""

from __future__ import annotations

import gzip
import random

import hostile_answers as special
import hostile_bodies
from hostile_answers import HEAD, answer, answers, drips, holds, redirects, says

_FORBIDS = b"User-agent: *\nDisallow: /\n"


async def endless(talk):
    """It begins with rules and goes on with comments."""
    await talk.send(HEAD + b"\r\n" + _FORBIDS)
    await talk.flood(b"# and so on\n" * 500)


async def wildcards(talk):
    """Patterns that take exponential time if they are made into a regular expression."""
    rule = b"Disallow: /h" + b"*o*s*t*i*l*e" * 20 + b"*!$\n"
    rules = b"User-agent: *\n" + rule * (500 * 1024 // len(rule))
    await talk.send(answer(rules))


async def groups(talk):
    """Thousands of names above thousands of rules: each rule times each name is too much."""
    names = b"".join(b"User-agent: bot%d\n" % n for n in range(9000))
    rules = b"".join(b"Disallow: /p%d\n" % n for n in range(9000))
    await talk.send(answer(names + b"User-agent: *\n" + rules))


def _bomb():
    """Rules, packed together with a gigabyte of zeros."""
    return hostile_bodies.gzip_bomb(_FORBIDS)


def _half_packed():
    """Rules, packed, that break off before the one that forbids everything."""
    rules = b"User-agent: *\n" + b"".join(b"Disallow: /p%d\n" % n for n in range(5000)) + _FORBIDS
    return gzip.compress(rules)[:-2000]


def _delay(seconds):
    return says(answer(b"User-agent: *\nDisallow: /private/\nCrawl-delay: " + seconds + b"\n"))


ATTACKS = {
    "robots-endless": endless,
    "robots-wildcards": wildcards,
    "robots-agents": groups,
    "robots-long-line": says(answer(b"User-agent: *\nDisallow: /private/" + b"a" * (1 << 20))),
    "robots-binary": says(answer(random.Random(1).randbytes(100_000))),
    "robots-html": says(answer(hostile_bodies.html(b"<p>not found, but they say 200"))),
    "robots-loop": redirects(b"/robots.txt"),
    "robots-port": redirects(b"http://127.0.0.1:25/robots.txt"),
    "robots-elsewhere": special.redirects_there("robots-rules", "/robots.txt"),
    "robots-rules": says(answer(_FORBIDS)),
    "robots-bomb": answers(_bomb, b"Content-Encoding: gzip"),
    "robots-gzip-truncated": answers(_half_packed, b"Content-Encoding: gzip"),
    "robots-delay-huge": _delay(b"1000000000"),
    "robots-delay-digits": _delay(b"9" * 400),
    "robots-delay-1e9": _delay(b"1e9"),
    "robots-delay-nan": _delay(b"nan"),
    "robots-delay-inf": _delay(b"inf"),
    "robots-delay-negative": _delay(b"-5"),
    "robots-500": says(answer(b"", status=b"500 Broken")),
    "robots-429": says(answer(b"", b"Retry-After: 99999999", status=b"429 Slow Down")),
    "robots-404": says(answer(b"", status=b"404 None")),
    "robots-silence": holds(b""),
    "robots-drip": drips(HEAD + b"\r\n", b"#\n", every=0.2),
    "robots-garbage": says(b"\xff" * 500 + b"\r\n\r\n"),
}
