"""Rule matcher: of the rules that match, the one with most octets decides (RFC 9309, 2.2.2).

Rules without wildcards are found by looking up the beginnings of the path. Rules with wildcards are
found by the text before their first ``*`` and then tried one after the other, those with most
octets first. Regular expressions are not used, so nothing backtracks.

Invariant: nothing raises. A decision takes at most one look-up for each length of a rule, and
`_MAX_STEPS` steps of comparing, however many rules there are. A path for which these steps are not
enough is disallowed, as one of the remaining rules may disallow it. No honest file comes near this
limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

from webcrawl.hosts.robots.grammar import MAX_BYTES, RuleLine
from webcrawl.hosts.robots.spelling import canonical_spelling, loose_spelling

_Key = TypeVar("_Key")

_STARS = re.compile(r"\*+")

# One step compares about one octet of the path with a wildcard rule; all steps take at most 8 ms.
# Honest files need fewer than 200,000 (1,000 such rules, a URL of 100 octets).
_MAX_STEPS = 2_000_000
# Additional steps for a rule, and for each of its pieces.
_STEPS_PER_RULE = 64
_STEPS_PER_PIECE = 16
# A rule of 32 octets costs as much as two short ones. As a rank is about twice the number of
# octets, shifting it right by this many bits gives the additional weight.
_WEIGHT_SHIFT = 6

# Measured bytes of memory for a rule, in addition to its texts.
_RULE_BYTES = 250


# Rank and line of a rule. The rank is twice the number of octets in the pattern, plus one if it is
# an Allow rule. So the matching rule with the highest rank decides, and between equals Allow wins.
_RankedRule = tuple[int, str]
_NO_RULE: _RankedRule = (0, "")
# Its rank is higher than that of any rule, and even, so the path is disallowed.
_UNDECIDED: _RankedRule = (
    2 * MAX_BYTES,
    "# too many wildcard rules for such a long path: disallowed",
)
# The part of a wildcard pattern after its first wildcard: the pieces that the path must contain, in
# this order, and the text with which the path must end.
_Remainder = tuple[tuple[str, ...], str]
# Lengths of rules, longest first, each with the highest rank of rules of at most that length.
_Lengths = tuple[tuple[int, int], ...]
# Few files have rules of all kinds, and thousands of rule sets are in memory. Sharing one empty
# dict saves 64 bytes for each.
_EMPTY: dict[str, Any] = {}


class RuleMatch(NamedTuple):
    """The decision about a path, and the line of robots.txt that makes it, as octets."""

    allow: bool
    line: str


class RuleSet:
    """The rules of one file, which decide about paths.

    Immutable; *size_bytes* is approximately its size in memory.
    """

    __slots__ = ("_exact", "_prefix_lengths", "_prefixes", "_start_lengths", "_wild", "size_bytes")

    def __init__(self, rules: Iterable[RuleLine]) -> None:
        builder = _RuleSetBuilder()
        for allow, pattern, line in rules:
            builder.add(pattern, allow=allow, line=line)
        self.size_bytes = builder.size_bytes

        # Rules without wildcards: those for a single path, and those for all paths with a prefix.
        self._exact = builder.exact or _EMPTY
        self._prefixes = builder.prefixes or _EMPTY
        self._prefix_lengths = _lengths(
            (len(prefix), rule[0]) for prefix, rule in builder.prefixes.items()
        )
        # Rules with wildcards by the text before the first one, highest rank first.
        self._wild = {
            start: sorted(((*rule, *remainder) for remainder, rule in rules.items()), reverse=True)
            for start, rules in builder.wild.items()
        } or _EMPTY
        self._start_lengths = _lengths(
            (len(start), rules[0][0]) for start, rules in self._wild.items()
        )

    def decide(self, path: str) -> RuleMatch | None:
        """Return the decision about *path*, or None if no rule matches.

        *path* is in the canonical spelling of `spelling.canonical_spelling`.
        """
        best = self._find_best(path, _NO_RULE)
        loose = loose_spelling(path)
        if loose != path:
            best = self._find_best(loose, best)
        # The rank of an Allow rule is odd; a rank of 0 means that no rule matches.
        rank, line = best
        return RuleMatch(allow=bool(rank & 1), line=line) if rank else None

    def _find_best(self, path: str, best: _RankedRule) -> _RankedRule:
        """Return the matching rule with the highest rank, or *best* if its rank is not lower."""
        size = len(path)
        rule = self._exact.get(path, _NO_RULE)
        if rule[0] > best[0]:
            best = rule

        for length, max_rank in self._prefix_lengths:
            if max_rank <= best[0]:
                break  # shorter rules have no higher rank
            if length <= size:
                rule = self._prefixes.get(path[:length], _NO_RULE)
                if rule[0] > best[0]:
                    best = rule

        steps_left = _MAX_STEPS
        for length, max_rank in self._start_lengths:
            if max_rank <= best[0]:
                break
            if length > size:
                continue
            for rank, line, pieces, ending in self._wild.get(path[:length], ()):
                if rank <= best[0]:
                    break
                # The comparison costs a step per octet of the path, more for long rules, and some
                # for the rule and each of its pieces.
                steps_left -= size * (1 + (rank >> _WEIGHT_SHIFT))
                steps_left -= _STEPS_PER_RULE + _STEPS_PER_PIECE * len(pieces)
                if steps_left < 0:
                    return _UNDECIDED
                if _has_pieces(path, length, pieces, ending):
                    best = rank, line
                    break
        return best


class _RuleSetBuilder:
    """Sorts the rules of a file into tables: exact paths, prefixes, and wildcard patterns.

    *wild* contains the wildcard patterns by the text before their first wildcard. If several rules
    have the same pattern, only the one with the highest rank is kept.
    """

    def __init__(self) -> None:
        self.exact: dict[str, _RankedRule] = {}
        self.prefixes: dict[str, _RankedRule] = {}
        self.wild: dict[str, dict[_Remainder, _RankedRule]] = {}
        self.size_bytes = 0

    def add(self, pattern: str, *, allow: bool, line: str) -> None:
        """Add a rule with this *pattern*, in both spellings; *line* is its line in the file."""
        if pattern[0] not in "/*":
            pattern = "/" + pattern
        pattern = canonical_spelling(pattern)
        rule = (2 * len(pattern) + allow, line)

        # With a "$" at its end, a pattern must match to the end of the path.
        is_anchored = pattern[-1] == "$"
        if not is_anchored and "*" not in pattern:
            self._add_best(self.prefixes, pattern, rule)
            loose = loose_spelling(pattern)
            if loose != pattern:
                self._add_best(self.prefixes, loose, rule)
            return

        if is_anchored:
            pattern = pattern[:-1]
        if pattern[-1:] == "*":  # anything may follow
            is_anchored = False
            pattern = pattern.rstrip("*")
        if "**" in pattern:
            pattern = _STARS.sub("*", pattern)

        pieces = pattern.split("*")
        self._add_pieces(pieces, rule, is_anchored=is_anchored)
        loose_pieces = _loosely_spelled(pieces) if "%" in pattern else pieces
        if loose_pieces != pieces:
            self._add_pieces(loose_pieces, rule, is_anchored=is_anchored)

    def _add_pieces(self, pieces: list[str], rule: _RankedRule, *, is_anchored: bool) -> None:
        """Add *rule*, whose pattern consists of *pieces* with wildcards between them."""
        start = pieces[0]
        if len(pieces) == 1:
            self._add_best(self.exact if is_anchored else self.prefixes, start, rule)
            return

        rules = self.wild.get(start)
        if rules is None:
            rules = {}
            self.wild[start] = rules
        # Only an anchored pattern says how the path must end.
        remainder = (tuple(pieces[1:-1]), pieces[-1]) if is_anchored else (tuple(pieces[1:]), "")
        self._add_best(rules, remainder, rule)

    def _add_best(self, rules: dict[_Key, _RankedRule], key: _Key, rule: _RankedRule) -> None:
        """Store *rule* as ``rules[key]``, unless the rule that is there has a higher rank."""
        known = rules.setdefault(key, rule)
        if known is rule:
            self.size_bytes += _RULE_BYTES + 2 * len(rule[1])
        elif known[0] < rule[0]:
            rules[key] = rule


def _lengths(ranks: Iterable[tuple[int, int]]) -> _Lengths:
    """Return the lengths in *ranks*, longest first, each with the highest rank up to that length.

    *ranks* contains the length and the rank of each rule.
    """
    highest: dict[int, int] = {}
    for length, rank in ranks:
        if rank > highest.get(length, 0):
            highest[length] = rank

    lengths = []
    max_rank = 0
    for length in sorted(highest):
        max_rank = max(max_rank, highest[length])
        lengths.append((length, max_rank))
    lengths.reverse()
    return tuple(lengths)


def _has_pieces(path: str, position: int, pieces: tuple[str, ...], ending: str) -> bool:
    """Return whether *path* has *pieces* in this order after *position*, and ends with *ending*."""
    end = len(path) - len(ending)
    if end < position or not path.endswith(ending):
        return False

    for piece in pieces:
        position = path.find(piece, position, end)
        if position < 0:
            return False
        position += len(piece)
    return True


def _loosely_spelled(pieces: list[str]) -> list[str]:
    """Return the *pieces* of a pattern in their loose spelling; a ``?`` begins the query."""
    loose = []
    in_query = False
    for piece in pieces:
        loose.append(loose_spelling(piece, in_query=in_query))
        in_query = in_query or "?" in piece
    return loose
