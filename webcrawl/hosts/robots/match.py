"""Rule matcher: the rule with the most octets that matches decides (RFC 9309, section 2.2.2).

Rules without wildcards are found by looking up the beginnings of the path. Rules with wildcards are
found by the text before their first ``*`` and then tried one after the other, most octets first.
There are no regular expressions, so nothing backtracks.

Invariant: nothing raises. A decision costs at most one look-up for each length of a rule and
`_MAX_STEPS` of comparing, however many rules there are. A path for which that is not enough is
disallowed, as a rule may say so; no honest file comes near the limit.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from webcrawl.hosts.robots.grammar import MAX_BYTES
from webcrawl.hosts.robots.spelling import loosened, spelled

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webcrawl.hosts.robots.grammar import RuleLine

_Key = TypeVar("_Key")

_STARS = re.compile(r"\*+")

# One step compares about one octet of the path with a wildcard rule; all steps take at most 8 ms.
# Honest files need fewer than 200,000 (1,000 such rules, a URL of 100 octets).
_MAX_STEPS = 2_000_000
# Additional steps for a rule, and for each of its pieces.
_STEPS_PER_RULE = 64
_STEPS_PER_PIECE = 16
# A rule of 32 octets costs as much as two short ones; a rank has two for each octet.
_RANKS_PER_WEIGHT = 6

# Bytes that a rule takes in memory besides its texts, as measured.
_RULE_BYTES = 250


# Rank and line of a rule that matches. The rank is twice the octets of the pattern, plus one if it
# allows: the highest decides, and between equals Allow wins.
_Found: TypeAlias = tuple[int, str]
_NOTHING: _Found = (0, "")
_UNDECIDED: _Found = (
    2 * MAX_BYTES,
    "# too many wildcard rules for such a long path: disallowed",
)
# A wildcard rule after its first wildcard: pieces that the path must have one after the other, and
# the text with which it must end.
_Rest: TypeAlias = tuple[tuple[str, ...], str]
# Lengths of rules, longest first, each with the highest rank of rules of that length or shorter.
_Lengths: TypeAlias = tuple[tuple[int, int], ...]
# Few files have rules of all kinds, and thousands of sets are in memory. Sharing an empty dict
# saves 64 bytes each.
_EMPTY: dict[str, Any] = {}


class RuleMatch(NamedTuple):
    """The decision of the rules about a path, and the line that makes it, as octets."""

    allow: bool
    line: str


class RuleSet:
    """The rules of one file, for many paths. Immutable; *size_bytes* is roughly its memory."""

    __slots__ = ("_heads", "_lengths", "_prefixes", "_whole", "_wild", "size_bytes")

    def __init__(self, rules: Iterable[RuleLine]) -> None:
        build = _Build()
        for allow, pattern, line in rules:
            build.add(pattern, allow=allow, line=line)
        self.size_bytes = build.size_bytes
        self._whole = build.whole or _EMPTY
        self._prefixes = build.prefixes or _EMPTY
        self._lengths = _lengths((len(text), found[0]) for text, found in build.prefixes.items())
        # By the text before the first wildcard, highest rank first.
        self._wild = {
            head: sorted(((*found, *rest) for rest, found in rules.items()), reverse=True)
            for head, rules in build.wild.items()
        } or _EMPTY
        self._heads = _lengths((len(head), rules[0][0]) for head, rules in self._wild.items())

    def decide(self, path: str) -> RuleMatch | None:
        """Return the decision about *path*, spelled by `spelling.spelled`, or None.

        It is None if no rule matches.
        """
        best = self._best(path, _NOTHING)
        loose = loosened(path)
        if loose != path:
            best = self._best(loose, best)
        rank, line = best
        return RuleMatch(allow=bool(rank & 1), line=line) if rank else None

    def _best(self, path: str, best: _Found) -> _Found:
        """Return the rule of highest rank that matches *path*, or *best* if none is higher."""
        size = len(path)
        rule = self._whole.get(path, _NOTHING)
        if rule[0] > best[0]:
            best = rule
        for length, ceiling in self._lengths:
            if ceiling <= best[0]:
                break
            if length <= size:
                rule = self._prefixes.get(path[:length], _NOTHING)
                if rule[0] > best[0]:
                    best = rule
        steps = _MAX_STEPS
        for length, ceiling in self._heads:
            if ceiling <= best[0]:
                break
            if length > size:
                continue
            for rank, line, pieces, tail in self._wild.get(path[:length], ()):
                if rank <= best[0]:
                    break
                steps -= size * (1 + (rank >> _RANKS_PER_WEIGHT))
                steps -= _STEPS_PER_RULE + _STEPS_PER_PIECE * len(pieces)
                if steps < 0:
                    return _UNDECIDED
                if _continues_with(path, length, pieces, tail):
                    best = rank, line
                    break
        return best


class _Build:
    """The rules by the text before their first wildcard, each once."""

    def __init__(self) -> None:
        self.whole: dict[str, _Found] = {}
        self.prefixes: dict[str, _Found] = {}
        self.wild: dict[str, dict[_Rest, _Found]] = {}
        self.size_bytes = 0

    def add(self, pattern: str, *, allow: bool, line: str) -> None:
        if pattern[0] not in "/*":
            pattern = "/" + pattern
        pattern = spelled(pattern)
        rule = (2 * len(pattern) + allow, line)
        ends = pattern[-1] == "$"
        if not ends and "*" not in pattern:
            self._add_best(self.prefixes, pattern, rule)
            loose = loosened(pattern)
            if loose != pattern:
                self._add_best(self.prefixes, loose, rule)
            return
        if ends:
            pattern = pattern[:-1]
        if pattern[-1:] == "*":  # anything may follow
            ends = False
            pattern = pattern.rstrip("*")
        if "**" in pattern:
            pattern = _STARS.sub("*", pattern)
        pieces = pattern.split("*")
        self._place(pieces, rule, ends=ends)
        loose_pieces = _loosened(pieces) if "%" in pattern else pieces
        if loose_pieces != pieces:
            self._place(loose_pieces, rule, ends=ends)

    def _place(self, pieces: list[str], found: _Found, *, ends: bool) -> None:
        head = pieces[0]
        if len(pieces) == 1:
            self._add_best(self.whole if ends else self.prefixes, head, found)
            return
        rules = self.wild.get(head)
        if rules is None:
            rules = self.wild[head] = {}
        rest = (tuple(pieces[1:-1]), pieces[-1]) if ends else (tuple(pieces[1:]), "")
        self._add_best(rules, rest, found)

    def _add_best(self, rules: dict[_Key, _Found], key: _Key, found: _Found) -> None:
        known = rules.setdefault(key, found)
        if known is found:
            self.size_bytes += _RULE_BYTES + 2 * len(found[1])
        elif known[0] < found[0]:
            rules[key] = found


def _lengths(ranks: Iterable[tuple[int, int]]) -> _Lengths:
    highest: dict[int, int] = {}
    for length, rank in ranks:
        if rank > highest.get(length, 0):
            highest[length] = rank
    lengths = []
    ceiling = 0
    for length in sorted(highest):
        ceiling = max(ceiling, highest[length])
        lengths.append((length, ceiling))
    lengths.reverse()
    return tuple(lengths)


def _continues_with(path: str, at: int, pieces: tuple[str, ...], tail: str) -> bool:
    """Return whether *path* continues from *at* with *pieces* and ends with *tail*."""
    end = len(path) - len(tail)
    if end < at or not path.endswith(tail):
        return False
    for piece in pieces:
        at = path.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


def _loosened(pieces: list[str]) -> list[str]:
    """Return the pieces of a pattern in their second spelling; the query begins after a ``?``."""
    loose = []
    in_query = False
    for piece in pieces:
        loose.append(loosened(piece, in_query=in_query))
        in_query = in_query or "?" in piece
    return loose
