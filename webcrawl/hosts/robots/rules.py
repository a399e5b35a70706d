"""Robots rules: the rules of one robots.txt that apply to one crawler (RFC 9309).

Immutable. Parsing and matching raise nothing for any file, and stay within the
limits of `grammar` and `match`.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from webcrawl.configuration.decoding import UndecodableError, json_decoder
from webcrawl.hosts.robots.grammar import read
from webcrawl.hosts.robots.match import RuleMatch, RuleSet
from webcrawl.hosts.robots.spelling import canonical_spelling, path_of
from webcrawl.items import is_success
from webcrawl.rights.statements import ROBOTS_TXT, Statement, create_statement
from webcrawl.rights.vocabulary import REFUSE, TDM, WORDS

# Section 2.2.2: robots.txt itself is always allowed.
_ROBOTS_PATH = "/robots.txt"
# Memory of RobotsRules without any rule.
_EMPTY_BYTES = 1000


def is_file(status: int | None) -> bool:
    """Return whether an answer with *status* contains a robots.txt (RFC 9309, 2.3.1.1)."""
    return status is not None and is_success(status)


def is_unreachable(status: int | None) -> bool:
    """Return whether *status* means that the host is unreachable (RFC 9309, 2.3.1.4).

    It does if there was no answer (None), for 5xx, and for 429, which asks for a later request. A
    number that is not an HTTP status counts as 5xx (RFC 9110, section 15): some sites refuse
    crawlers with 999.
    """
    return status is None or status == 429 or not 100 <= status <= 499


class RobotsRules(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The rules of one origin for one crawler; `parse` and `from_outcome` create them.

    *failed* means that the host was unreachable and there is no file: everything is disallowed
    until there is an answer. *crawl_delay* is in seconds, None if the file has none. *sitemaps* are
    as written in the file. *bad_delay* is a Crawl-delay that is not a number, "" if there is none.
    """

    rules: RuleSet
    crawl_delay: float | None = None
    sitemaps: tuple[str, ...] = ()
    failed: bool = False
    bad_delay: str = ""
    preferences: tuple[tuple[str, RuleSet], ...] = ()

    @property
    def size_bytes(self) -> int:
        """Return approximately the size in memory."""
        sets = [self.rules, *(rules for _, rules in self.preferences)]
        return sum(_EMPTY_BYTES + rules.size_bytes for rules in sets) + sum(map(len, self.sitemaps))

    @classmethod
    def parse(cls, body: bytes, *, tokens: tuple[str, ...], purpose: str = "") -> RobotsRules:
        """Parse *body*, a robots.txt, for the crawler with these product *tokens*.

        The group of the first token that has one applies, or else that of ``*``. Preferences are
        what the owner says about the use of pages for *purpose*, by the kind of line that says so;
        without a purpose they are not read. Only the first 500 KiB are read, up to the last
        complete line.
        """
        rules, crawl_delay, sitemaps, bad_delay, preferences = read(
            body, tokens=tokens, purpose=purpose
        )
        if not (rules or sitemaps or bad_delay or preferences) and crawl_delay is None:
            return _NO_FILE  # one object for all of these saves memory
        return cls(
            rules=RuleSet(rules),
            crawl_delay=crawl_delay,
            sitemaps=sitemaps,
            bad_delay=bad_delay,
            preferences=tuple((source, RuleSet(lines)) for source, lines in preferences.items()),
        )

    @classmethod
    def from_outcome(
        cls, status: int | None, body: bytes, *, tokens: tuple[str, ...], purpose: str = ""
    ) -> RobotsRules:
        """Return the rules that follow from the last answer (RFC 9309, section 2.3.1).

        *status* is None if there was no answer. If the host is unreachable, nothing is allowed. If
        it is reachable but has no file, as with 4xx or too many redirects, there are no rules.
        """
        if is_file(status):
            return cls.parse(body, tokens=tokens, purpose=purpose)
        return _UNREACHABLE if is_unreachable(status) else _NO_FILE

    def decide(self, url: str) -> RuleMatch:
        """Return whether *url*, of this file's origin, may be fetched, and the line that says so.

        The line is text without its comment, "" if no rule matches. Takes about 2 us.
        """
        path = canonical_spelling(path_of(url))
        match = None if path == _ROBOTS_PATH else self.rules.decide(path)
        if match is None:
            return _NO_RULE
        return RuleMatch(match.allow, _decode(match.line))

    def statements(self, url: str, *, at: float, purpose: str) -> list[Statement]:
        """Return what the file, read *at* a time, says about the use of *url* for *purpose*.

        The group of another crawler is a statement only if it denies *url*.
        """
        found: list[Statement] = []
        for source, rules in self.preferences:
            match = rules.decide(canonical_spelling(path_of(url)))
            if match is not None and (source in WORDS or not match.allow):
                statement = create_statement(
                    ROBOTS_TXT if source != TDM else "tdmrep.json",
                    source,
                    _decode(match.line),
                    at,
                    purpose,
                )
                found.append(statement if match.allow else replace(statement, verdict=REFUSE))
        return found


def _decode(line: str) -> str:
    """Return *line*, which has one character per octet, as text."""
    return line.strip().encode("latin-1").decode("utf-8", "replace")


class _TdmRule(msgspec.Struct, rename="kebab"):
    """An element of ``/.well-known/tdmrep.json`` (TDM Reservation Protocol, section 6.1)."""

    location: object = ""
    tdm_reservation: object = ""
    tdm_policy: object = ""


_decode_tdm = json_decoder(list[_TdmRule])


def data_mining_rules(status: int | None, body: bytes) -> RobotsRules:
    """Return rules that allow everything, with the statements of a tdmrep.json in *body*.

    There are none if it is missing or not JSON. The longest location that matches a URL counts;
    elements with the same location are combined.
    """
    try:
        text = body.decode("utf-8-sig", "replace")
        elements = _decode_tdm(text) if is_file(status) else []
    except UndecodableError:
        elements = []
    words: dict[str, str] = {}  # by location, both with one character per octet
    for rule in elements:
        location = str(rule.location).encode().decode("latin-1")
        policy = f", tdm-policy={rule.tdm_policy}" if rule.tdm_policy else ""
        word = f"tdm-reservation={rule.tdm_reservation}{policy}".encode().decode("latin-1")
        words[location] = f"{words[location]}, {word}" if location in words else word
    # Rules that allow their location, and have the statement as their line.
    lines = [(True, *item) for item in words.items() if item[0]]
    return RobotsRules(RuleSet([]), preferences=((TDM, RuleSet(lines)),) if lines else ())


_NO_RULE = RuleMatch(allow=True, line="")
# Shared by the hosts without rules for this crawler, which are half of all.
_NO_FILE = RobotsRules(RuleSet([]))
_UNREACHABLE = RobotsRules(RuleSet([(False, "/", "")]), failed=True)
