"""Many regular expressions, looked for in a URL at once: those of EXCLUSION_FILE.

RE2's filter (Cox, "Regular Expression Matching in the Wild") looks for the literals that each
expression needs, and then runs only the expressions whose literals are all there. The time for a
URL is linear in its length, whatever the expression. Figures: docs/performance.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import re2

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Expressions of a file, characters of one, and of all.
MAX_EXPRESSIONS = 10_000
MAX_CHARS = 1_000
MAX_CHARS_IN_ALL = 1_000_000

# A filter is compiled in one step, which holds up all threads: 20 ms for so many or so long ones.
_FILTER_SIZE = 1_000
_FILTER_CHARS = 20_000
# Bytes of the tables of one expression; beyond them it is matched more slowly.
_MAX_MEMORY = 1 << 17


class Expressions:
    """A set of regular expressions in RE2's syntax. Add all, ``compile``, then look."""

    def __init__(self) -> None:
        self._filters: list[Any] = []
        self._waiting: list[str] = []  # those of the next filter
        self._count = self._chars = 0

    def __len__(self) -> int:
        """The number of expressions."""
        return self._count

    def add(self, expression: str) -> None:
        """Add *expression*. ValueError, with the end of a sentence, for what is none, is too long
        or too many."""
        if len(expression) > MAX_CHARS:
            raise ValueError(f"an expression has at most {MAX_CHARS:,} characters")
        chars = self._chars + len(expression)
        if self._count >= MAX_EXPRESSIONS or chars > MAX_CHARS_IN_ALL:
            raise ValueError(
                f"at most {MAX_EXPRESSIONS:,} expressions with {MAX_CHARS_IN_ALL:,} characters "
                "may be given"
            )
        _filter_of([expression])
        self._count, self._chars = self._count + 1, chars
        self._waiting.append(expression)
        if len(self._waiting) == _FILTER_SIZE or sum(map(len, self._waiting)) > _FILTER_CHARS:
            self.compile()

    def compile(self) -> None:
        """All are added."""
        self._filters += _compiled(self._waiting)
        self._waiting = []

    def found_in(self, url: str) -> bool:
        """Whether one of them is found in *url*."""
        if not self._filters:
            return False
        text = url.encode()
        return any(one.Match(text) for one in self._filters)


def _filter_of(expressions: Sequence[str]) -> Any:
    """A filter, not compiled. ValueError, with the end of a sentence, for what is no expression."""
    options = re2.Options()
    options.max_mem, options.log_errors, options.never_capture = _MAX_MEMORY, False, True
    made = re2.Filter()
    for expression in expressions:
        try:
            made.Add(expression, options)
        except re2.error:
            raise ValueError(f"{expression[:80]!r} is no expression of RE2, or too large") from None
    return made


def _compiled(expressions: Sequence[str]) -> list[Any]:
    """Filters of *expressions*: more than one if their literals need more memory than a set of RE2
    has, which does not compile then, and would find nothing."""
    if not expressions:
        return []
    made = _filter_of(expressions)
    try:
        made.Compile()
    except re2.error:
        middle = len(expressions) // 2
        if not middle:
            raise
        return [*_compiled(expressions[:middle]), *_compiled(expressions[middle:])]
    return [made]
