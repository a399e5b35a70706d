"""Search for many regular expressions in a URL at the same time: those of EXCLUSION_FILE.

RE2's filter (Cox, "Regular Expression Matching in the Wild") searches for the literals that each
expression requires, and then runs only expressions whose literals are all present. For all
expressions, the time is linear in the length of the URL. For measurements see
docs/why/performance.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import re2

#: Limits: expressions in a file, characters in one expression, characters in all expressions.
MAX_EXPRESSIONS = 10_000
MAX_CHARS = 1_000
MAX_CHARS_IN_ALL = 1_000_000

# A filter is compiled in one step, which blocks all threads: 20 ms for a filter of this size.
_FILTER_SIZE = 1_000
_FILTER_CHARS = 20_000
# Limit of the tables of one expression in bytes. An expression that needs more is matched more
# slowly.
_MAX_MEMORY = 1 << 17


class Expressions:
    """A set of regular expressions in RE2's syntax.

    Call ``add`` for each expression, then ``compile``, then ``found_in``.
    """

    def __init__(self) -> None:
        self._filters: list[Any] = []
        self._waiting: list[str] = []  # expressions of the next filter
        self._count = 0
        self._chars = 0

    def __len__(self) -> int:
        """Return the number of expressions."""
        return self._count

    def add(self, expression: str) -> None:
        """Add *expression*.

        Raises ValueError, whose message completes a sentence, if the expression is invalid or too
        long, or if there are too many expressions.
        """
        if len(expression) > MAX_CHARS:
            raise ValueError(f"an expression may have at most {MAX_CHARS:,} characters")
        chars = self._chars + len(expression)
        if self._count >= MAX_EXPRESSIONS or chars > MAX_CHARS_IN_ALL:
            raise ValueError(
                f"there may be at most {MAX_EXPRESSIONS:,} expressions with {MAX_CHARS_IN_ALL:,} "
                "characters in total"
            )
        _filter_of([expression])  # raises ValueError if the expression is invalid
        self._count += 1
        self._chars = chars
        self._waiting.append(expression)
        if len(self._waiting) == _FILTER_SIZE or sum(map(len, self._waiting)) > _FILTER_CHARS:
            self.compile()

    def compile(self) -> None:
        """Compile the expressions added so far. Call it after the last ``add``."""
        self._filters += _compile(self._waiting)
        self._waiting = []

    def found_in(self, url: str) -> bool:
        """Return whether any of the expressions matches a part of *url*."""
        if not self._filters:
            return False
        text = url.encode()
        return any(compiled.Match(text) for compiled in self._filters)


def _filter_of(expressions: Sequence[str]) -> Any:
    """Return an RE2 filter with *expressions*, which is not compiled yet.

    Raises ValueError, whose message completes a sentence, if one of them is invalid.
    """
    options = re2.Options()
    options.max_mem = _MAX_MEMORY
    options.log_errors = False
    options.never_capture = True
    re2_filter = re2.Filter()
    for expression in expressions:
        try:
            re2_filter.Add(expression, options)
        except re2.error:
            raise ValueError(
                f"{expression[:80]!r} is not a valid RE2 expression, or is too large"
            ) from None
    return re2_filter


def _compile(expressions: Sequence[str]) -> list[Any]:
    """Return compiled RE2 filters that together contain *expressions*.

    There are several filters if the literals need more memory than one RE2 set has. Such a set
    would not compile, and would find nothing.
    """
    if not expressions:
        return []
    re2_filter = _filter_of(expressions)
    try:
        re2_filter.Compile()
    except re2.error:
        middle = len(expressions) // 2
        if not middle:
            raise
        return [*_compile(expressions[:middle]), *_compile(expressions[middle:])]
    return [re2_filter]
