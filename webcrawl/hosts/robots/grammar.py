"""Grammar of robots.txt: the lines that concern one crawler (RFC 9309, section 2.2).

It reads three things:

- the rules of all groups that name the crawler's product token or, if there are none, of those for
  ``*``;
- the crawl delay of the same groups, where a User-agent after a delay begins another group;
- the sitemaps, which belong to no group.

Everything else (Host, Request-rate, Visit-time, ...) is ignored and does not end a group (2.2.4).

It is as lenient as Google's parser where that can only make the crawl more obedient: white space
anywhere around names and values, common misspellings, letters after a name, a space instead of the
colon. It is more lenient with junk that users of Heritrix have reported. Anything may precede the
first User-agent in its line, such as byte order marks. HTML elements that break a line do so here.
In UTF-16 and UTF-32 the ASCII characters are read.

Invariant: nothing raises, and everything takes time linear in the file, of which 500 KiB are read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

# Section 2.5 asks to parse at least this much. The remainder is ignored, from the last whole line.
MAX_BYTES = 500 * 1024
# Seconds; a site that asks for more would not be contacted again within any crawl.
MAX_CRAWL_DELAY = 30 * 24 * 3600.0

_AGENT = 1
_ALLOW = 2
_DISALLOW = 3
_DELAY = 4
_SITEMAP = 5
_KINDS = {
    "user-agent": _AGENT,
    "useragent": _AGENT,
    "user agent": _AGENT,
    "allow": _ALLOW,
    "disallow": _DISALLOW,
    "dissallow": _DISALLOW,
    "dissalow": _DISALLOW,
    "disalow": _DISALLOW,
    "diasllow": _DISALLOW,
    "disallaw": _DISALLOW,
    "crawl-delay": _DELAY,
    "crawldelay": _DELAY,
    "crawl delay": _DELAY,
    "sitemap": _SITEMAP,
    "site-map": _SITEMAP,
}

# The RFC has space and tab. Other white space of Python's is left out, as in UTF-8 its bytes are
# parts of letters.
_BLANK = " \t\v\f"
_NAME = re.compile(rf"(?!allow[a-z])({'|'.join(_KINDS)})[a-z]*")
_FIRST_AGENT = re.compile(r"user[- ]?agent[ \t]*:(.*)", re.IGNORECASE)
_LINE_BREAK = re.compile(r"</?(?:br|div|p|pre|body|html)\b[^<>\n]{0,200}>", re.IGNORECASE)
_TWO_WORDS = re.compile(r"[ \t]*([^ \t]+)[ \t]+([^ \t]+)[ \t]*")
_PRODUCT = re.compile(r"[A-Za-z_-]+")
_SECONDS = re.compile(r"[0-9]+(?:[.,][0-9]*)?|[.,][0-9]+")
_DELAY_CHARS = 40

# Whether the rule allows, its pattern, and the whole line, both with one character per octet.
RuleLine: TypeAlias = tuple[bool, str, str]


class RobotsReading(NamedTuple):
    """The parts of a robots.txt for one crawler: rules, *crawl_delay* in seconds, *sitemaps*.

    *bad_delay* is the last Crawl-delay for it that is not a number, at most 40 characters; "" if
    there is none.
    """

    rules: list[RuleLine]
    crawl_delay: float | None
    sitemaps: tuple[str, ...]
    bad_delay: str


def read(body: bytes, *, token: str) -> RobotsReading:
    """Read *body* for the crawler with the product token *token*, in any case."""
    reader = _Reader(token.lower())
    for kind, value, line in _records(body):
        if kind is _ALLOW or kind is _DISALLOW:
            reader.rule(value, line, allow=kind is _ALLOW)
        elif kind is _AGENT:
            reader.agent(value)
        elif kind is _DELAY:
            reader.delay(value)
        elif value:
            reader.sitemaps[_text(value)] = None
    group = reader.named if reader.named.exists else reader.everyone
    return RobotsReading(group.rules, group.crawl_delay, tuple(reader.sitemaps), group.bad_delay)


@dataclass(slots=True, eq=False)
class _Group:
    """All groups of one name, merged (2.2.1)."""

    exists: bool = False
    rules: list[RuleLine] = field(default_factory=list)
    crawl_delay: float | None = None
    bad_delay: str = ""


class _Reader:
    """State of the parser: the groups to which the next rule belongs."""

    def __init__(self, token: str) -> None:
        self.named = _Group()
        self.everyone = _Group()
        self.sitemaps: dict[str, None] = {}
        self._token = token
        # The groups to which a rule, and a delay, would belong, and whether there was one since the
        # last User-agent.
        self._ruled_groups: list[_Group] = []
        self._delayed_groups: list[_Group] = []
        self._ruled = self._delayed = False

    def agent(self, name: str) -> None:
        if self._ruled:
            self._ruled_groups = []
        if self._ruled or self._delayed:
            self._delayed_groups = []
        self._ruled = self._delayed = False
        product = _PRODUCT.match(name)
        if name.startswith("*") and name.lstrip("*")[:1] in {"", " ", "\t"}:
            group = self.everyone
        elif product is not None and product[0].lower() == self._token:
            group = self.named
        else:
            return
        group.exists = True
        for groups in (self._ruled_groups, self._delayed_groups):
            if group not in groups:
                groups.append(group)

    def rule(self, pattern: str, line: str, *, allow: bool) -> None:
        self._ruled = True
        if pattern:  # an empty one matches nothing
            for group in self._ruled_groups:
                group.rules.append((allow, pattern, line))

    def delay(self, value: str) -> None:
        """Use the number at the start of *value*. The longest of several delays counts."""
        self._delayed = True
        match = _SECONDS.match(value[:_DELAY_CHARS])
        for group in self._delayed_groups:
            if match is None:
                group.bad_delay = _text(value[:_DELAY_CHARS])
            else:
                seconds = min(float(match[0].replace(",", ".")), MAX_CRAWL_DELAY)
                group.crawl_delay = max(seconds, group.crawl_delay or 0.0)


def _records(body: bytes) -> Iterator[tuple[int, str, str]]:
    """Yield the lines that have a meaning: kind, value, and the line without comment."""
    has_agent = False
    for text in filter(None, _lines(body)):
        cut = text.find("#")
        line = text if cut < 0 else text[:cut]
        name, colon, value = line.partition(":")
        kind = _kind(name) if colon else None
        if kind is None and (words := _TWO_WORDS.fullmatch(line)):
            name, value = words.groups()
            kind = _kind(name)
        if kind is None and not has_agent and (match := _FIRST_AGENT.search(line)):
            kind, value = _AGENT, match[1]
        if kind is not None:
            has_agent = has_agent or kind is _AGENT
            yield kind, value.strip(_BLANK), line


def _kind(name: str) -> int | None:
    """Return the kind of the line that *name* begins, or None if it has no meaning."""
    name = name.strip().lower()
    kind = _KINDS.get(name)
    if kind is None and (known := _NAME.fullmatch(name)):
        kind = _KINDS[known[1]]
    return kind


def _lines(body: bytes) -> list[str]:
    """Return the lines of *body* as octets; they end with CR, LF, or both."""
    if len(body) > MAX_BYTES:
        # A line cut in two would forbid more than intended, or less.
        end = max(body.rfind(b"\n", 0, MAX_BYTES), body.rfind(b"\r", 0, MAX_BYTES))
        body = body[: end + 1]
    # ASCII text in UTF-16 or UTF-32 is ASCII once zeros are removed.
    text = _LINE_BREAK.sub("\n", body.replace(b"\0", b"").decode("latin-1"))
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _text(octets: str) -> str:
    return octets.encode("latin-1").decode("utf-8", "replace")
