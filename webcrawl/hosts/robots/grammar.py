"""Parser of robots.txt: finds the lines that apply to one crawler (RFC 9309, section 2.2).

It reads these things:

- the rules of all groups that name the crawler's product token, with the purpose of the crawl in
  it or else without, or, if there are none, of those for ``*``;
- the crawl delay of these groups, for which a User-agent line after a delay begins a new group;
- the sitemaps, which belong to no group;
- for a crawl with a purpose, what the owner prefers: the rules of well-known crawlers with the same
  purpose, and the lines Content-Usage, Content-Signal and License (webcrawl/rights).

Everything else (Host, Request-rate, Visit-time, ...) is ignored and does not end a group (2.2.4).

It is as lenient as Google's parser where that can only make the crawl more obedient. It accepts
white space anywhere around names and values, common misspellings, letters after a name, and a space
instead of the colon. It is more lenient with junk that users of Heritrix have reported: anything
may precede the first User-agent in its line, such as byte order marks; HTML elements that break a
line also end a line here; and of UTF-16 and UTF-32 the ASCII characters are read.

Invariant: nothing raises, and everything takes time linear in the file, of which 500 KiB are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from webcrawl.rights.vocabulary import CRAWLER, LICENSE, SIGNAL, USAGE, WORDS

# Section 2.5 asks to parse at least this much. Everything after the last complete line is ignored.
MAX_BYTES = 500 * 1024
# Seconds; a site that asks for more would not be contacted again within any crawl.
MAX_CRAWL_DELAY = 30 * 24 * 3600.0

_AGENT = 1
_ALLOW = 2
_DISALLOW = 3
_DELAY = 4
_SITEMAP = 5
# Preferences have their source as their kind.
_KINDS: dict[str, int | str] = {
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
    "content-usage": USAGE,
    "content-signal": SIGNAL,
    "license": LICENSE,
}

# The RFC names space and tab. Other characters that Python strips are left out, as the same bytes
# are parts of letters in UTF-8.
_BLANK = " \t\v\f"
_NAME = re.compile(rf"(?!allow[a-z])({'|'.join(_KINDS)})[a-z]*")
_FIRST_AGENT = re.compile(r"user[- ]?agent[ \t]*:(.*)", re.IGNORECASE)
# HTML tags that break a line: some sites send their robots.txt as an HTML page.
_LINE_BREAK_TAG = re.compile(r"</?(?:br|div|p|pre|body|html)\b[^<>\n]{0,200}>", re.IGNORECASE)
_TWO_WORDS = re.compile(r"[ \t]*([^ \t]+)[ \t]+([^ \t]+)[ \t]*")
_PRODUCT = re.compile(r"[A-Za-z_-]+")
_SECONDS = re.compile(r"[0-9]+(?:[.,][0-9]*)?|[.,][0-9]+")
_DELAY_CHARS = 40
# The optional path of a Content-Usage line, and its preferences (draft-ietf-aipref-attach-05).
_USAGE_VALUE = re.compile(r"(?:([/*][^ \t]*)[ \t]+)?(.*)", re.DOTALL)

# A rule: whether it allows, its pattern, and its line. Both texts have one character per octet.
RuleLine = tuple[bool, str, str]


class ParsedRobots(NamedTuple):
    """The contents of a robots.txt that apply to one crawler.

    *crawl_delay* is in seconds, None if there is none. *bad_delay* is the last Crawl-delay that is
    not a number, at most 40 characters of it; "" if there is none. *preferences* are sources of
    rights statements, each with rules: the line that matches a URL is the statement.
    """

    rules: list[RuleLine]
    crawl_delay: float | None
    sitemaps: tuple[str, ...]
    bad_delay: str
    preferences: dict[str, list[RuleLine]]


def read(body: bytes, *, tokens: tuple[str, ...], purpose: str = "") -> ParsedRobots:
    """Parse *body* for the crawler with these product *tokens*, in upper or lower case.

    The groups of the first token that has one apply, or else those for ``*``. Preferences are read
    if the crawl has a *purpose*.
    """
    reader = _Reader(tokens, purpose)
    for kind, value, line in _records(body):
        if kind is _ALLOW or kind is _DISALLOW:
            reader.add_rule(value, line, allow=kind is _ALLOW)
        elif kind is _AGENT:
            reader.add_agent(value)
        elif kind is _DELAY:
            reader.add_delay(value)
        elif kind is _SITEMAP:
            if value:
                reader.sitemaps[_text(value)] = None
        elif isinstance(kind, str) and purpose:
            # Only preferences have a text as their kind, which is the name of their source.
            source = kind
            reader.add_preference(source, value)
    # The reader has the groups in the order of *tokens*. The first one that the file has applies.
    named = (group for group in reader.named.values() if group.exists)
    group = next(named, reader.everyone)
    return ParsedRobots(
        group.rules,
        group.crawl_delay,
        tuple(reader.sitemaps),
        group.bad_delay,
        reader.preferences(group),
    )


@dataclass(slots=True, eq=False)
class _Group:
    """All groups for one product token, merged (section 2.2.1)."""

    exists: bool = False
    rules: list[RuleLine] = field(default_factory=list)
    crawl_delay: float | None = None
    bad_delay: str = ""
    # By source and path.
    preferences: dict[tuple[str, str], list[str]] = field(default_factory=dict)


class _Reader:
    """The state of the parser: the groups read so far, and those that the next line belongs to.

    *named* are the groups of the crawler by its *tokens*, *everyone* the group for ``*``.
    *peers* are those of other crawlers with *purpose*. *outside* has the preferences before the
    first group, and links to licences.
    """

    def __init__(self, tokens: tuple[str, ...], purpose: str) -> None:
        self.named = {token.lower(): _Group() for token in tokens}
        self.everyone = _Group()
        self.peers = {
            name: _Group() for name, purposes in WORDS[CRAWLER].items() if purpose in purposes
        }
        self.outside = _Group()
        self.sitemaps: dict[str, None] = {}  # each one once, in the order of the file
        # The groups to which the next rule, and the next delay, will be added.
        self._ruled_groups: list[_Group] = [self.outside]
        self._delayed_groups: list[_Group] = []
        # Whether there was a rule, and a delay, since the last User-agent line. At first as if
        # there was a rule, so that the first User-agent line begins a group.
        self._has_rule = True
        self._has_delay = False

    def add_agent(self, name: str) -> None:
        """Process a User-agent line for the product *name*. It begins a group, or adds a name."""
        # After a rule, this line begins a new group. After a delay, it does so only for delays.
        if self._has_rule:
            self._ruled_groups = []
        if self._has_rule or self._has_delay:
            self._delayed_groups = []
        self._has_rule = False
        self._has_delay = False

        product = _PRODUCT.match(name)
        # One or more stars, followed by nothing or by a space and other text.
        if name.startswith("*") and name.lstrip("*")[:1] in {"", " ", "\t"}:
            group = self.everyone
        elif product is not None and product[0].lower() in self.named:
            group = self.named[product[0].lower()]
        elif (peer := name.partition(" ")[0].partition("/")[0].lower()) in self.peers:
            group = self.peers[peer]
        else:
            return

        group.exists = True
        for groups in (self._ruled_groups, self._delayed_groups):
            if group not in groups:
                groups.append(group)

    def add_rule(self, pattern: str, line: str, *, allow: bool) -> None:
        """Process an Allow or Disallow *line* with this *pattern*."""
        self._has_rule = True
        if pattern:  # an empty one matches nothing
            for group in self._ruled_groups:
                group.rules.append((allow, pattern, line))

    def add_delay(self, value: str) -> None:
        """Process a Crawl-delay line: the number at the start of *value* counts.

        If there are several delays, the longest one counts.
        """
        self._has_delay = True
        match = _SECONDS.match(value[:_DELAY_CHARS])
        for group in self._delayed_groups:
            if match is None:
                group.bad_delay = _text(value[:_DELAY_CHARS])
            else:
                seconds = min(float(match[0].replace(",", ".")), MAX_CRAWL_DELAY)
                group.crawl_delay = max(seconds, group.crawl_delay or 0.0)

    def add_preference(self, source: str, value: str) -> None:
        """Process a Content-Usage, Content-Signal or License line, whose *source* this is.

        The first two are rules of their group; only the first may have a path. License belongs to
        no group.
        """
        path = None
        words = value
        if source == USAGE and (match := _USAGE_VALUE.fullmatch(value)):
            path, words = match.groups()
        # Licences belong to no group, so they do not count as a rule that ends the names of one.
        self._has_rule = self._has_rule or source != LICENSE
        for group in [self.outside] if source == LICENSE else self._ruled_groups:
            group.preferences.setdefault((source, path or "/"), []).append(words)

    def preferences(self, group: _Group) -> dict[str, list[RuleLine]]:
        """Return the preferences for the crawler, whose rules are those of *group*, by source.

        Crawlers with the same rules are named once. Lines of the same path are combined.
        """
        # Reversed, so that of crawlers with the same rules the first one is named.
        names = {tuple(peer.rules): name for name, peer in reversed(self.peers.items())}
        found = {name: [*rules] for rules, name in names.items() if rules}
        outside = self.outside.preferences
        own = group.preferences
        for key in outside | own:
            text = ", ".join([*outside.get(key, ()), *own.get(key, ())])
            found.setdefault(key[0], []).append((True, key[1], text))
        return found


def _records(body: bytes) -> Iterator[tuple[int | str, str, str]]:
    """Yield the kind, value and text of each meaningful line in *body*, without its comment."""
    has_agent = False
    for text in filter(None, _lines(body)):
        cut = text.find("#")
        line = text if cut < 0 else text[:cut]
        name, colon, value = line.partition(":")
        kind = _kind(name) if colon else None
        if kind is None and (words := _TWO_WORDS.fullmatch(line)):  # a space instead of the colon
            name, value = words.groups()
            kind = _kind(name)
        # Anything may precede the first User-agent in its line.
        if kind is None and not has_agent and (match := _FIRST_AGENT.search(line)):
            kind = _AGENT
            value = match[1]
        if kind is not None:
            has_agent = has_agent or kind is _AGENT
            yield kind, value.strip(_BLANK), line


def _kind(name: str) -> int | str | None:
    """Return the kind of a line that begins with *name*, or None if it has no meaning."""
    name = name.strip().lower()
    kind = _KINDS.get(name)
    if kind is None and (known := _NAME.fullmatch(name)):
        kind = _KINDS[known[1]]
    return kind


def _lines(body: bytes) -> list[str]:
    """Return the lines of *body*, one character per octet.

    A line ends with CR, LF, or both, or with an HTML tag that breaks lines.
    """
    if len(body) > MAX_BYTES:
        # A line cut in two would forbid more than intended, or less.
        end = max(body.rfind(b"\n", 0, MAX_BYTES), body.rfind(b"\r", 0, MAX_BYTES))
        body = body[: end + 1]

    # ASCII text in UTF-16 or UTF-32 is ASCII once zeros are removed.
    text = _LINE_BREAK_TAG.sub("\n", body.replace(b"\0", b"").decode("latin-1"))
    # CR LF comes first, because it is one line ending, not two.
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _text(octets: str) -> str:
    """Decode *octets*, which have one character per octet, as UTF-8."""
    return octets.encode("latin-1").decode("utf-8", "replace")
