"""Pages, redirects and URLs given up: what the counts of outcomes amount to.

One word each, wherever the user reads them: a *page* is a URL that gave a document (2xx), a
*redirect* one that leads elsewhere (3xx), and any other end means that the URL was *given up*. A
*contact* is one request to a host, whatever came of it: pages, redirects, failures, each try of
these, and robots.txt files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Mapping


_EXACT: Final = 100_000


def refused_seeds(stats: Mapping[str, Any], prefix: str = "") -> str:
    """How many seeds each filter has refused, the most first, in words; "" if none has."""
    prefix += "seeds/refused/"
    found = sorted(
        (-int(number), name.removeprefix(prefix))
        for name, number in stats.items()
        if name.startswith(prefix) and number
    )
    return ", ".join(f"{name} {-number:,}" for number, name in found)


def module_failures(stats: Mapping[str, Any], prefix: str = "") -> dict[str, int]:
    """How many pages each processing module has failed on, by its class."""
    prefix += "critical/"
    found = {n.removeprefix(prefix): int(v) for n, v in stats.items() if n.startswith(prefix)}
    return {name: v for name, v in sorted(found.items()) if name not in ("callback", "download")}


def short(number: int) -> str:
    """*number* as a progress line has it: exact up to a hundred thousand.

    >>> [short(number) for number in (99_999, 123_456, 12_345_678)]
    ['99,999', '123k', '12.3M']
    """
    if number < _EXACT:
        return f"{number:,}"
    return f"{number // 1000}k" if number < 1_000_000 else f"{number / 1e6:,.1f}M"


class Counts(NamedTuple):
    """*given_up* by outcome."""

    pages: int
    redirects: int
    given_up: Mapping[str, int]

    @classmethod
    def of(cls, stats: Mapping[str, Any], prefix: str = "") -> Self:
        """From the counts ``outcome/…`` in *stats*; with a *prefix*, from those behind it."""
        prefix += "outcome/"
        outcomes = {
            name.removeprefix(prefix): int(number)
            for name, number in list(stats.items())  # modules count in threads
            if name.startswith(prefix)
        }
        return cls(
            sum(number for name, number in outcomes.items() if name.startswith("http_2")),
            sum(number for name, number in outcomes.items() if name.startswith("http_3")),
            {
                name: number
                for name, number in outcomes.items()
                if not name.startswith(("http_2", "http_3"))
            },
        )
