"""Counts of pages, redirects and URLs given up, summed up from the counts of outcomes.

One word each, wherever the user reads them: a *page* is a URL that gave a document (2xx), a
*redirect* one that leads elsewhere (3xx), and any other end means that the URL was *given up*. A
*contact* is one request to a host, whatever its result: pages, redirects, failures, retries and
robots.txt files all count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Mapping


_EXACT = 100_000
_PREFIXES = ("", "k", "M", "G", "T")


def with_prefix(prefix: str, stats: Mapping[str, Any]) -> dict[str, int]:
    """Return the non-zero numbers in *stats* with *prefix*, by the rest of their name."""
    return {
        name.removeprefix(prefix): int(value)
        for name, value in list(stats.items())  # modules count in threads
        if name.startswith(prefix) and isinstance(value, (int, float)) and int(value)
    }


def refused_seeds(stats: Mapping[str, Any], prefix: str = "") -> str:
    """Describe how many seeds each filter has refused, the most first; "" if none has."""
    found = with_prefix(f"{prefix}seeds/refused/", stats).items()
    most_first = sorted(found, key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {number:,}" for name, number in most_first)


def module_failures(stats: Mapping[str, Any], prefix: str = "") -> dict[str, int]:
    """Return how many pages each processing module has failed on, by its class."""
    found = sorted(with_prefix(f"{prefix}critical/", stats).items())
    return {name: number for name, number in found if name not in ("callback", "download")}


def short(number: int) -> str:
    """Return *number* for a progress line: exact up to a hundred thousand.

    >>> [short(number) for number in (99_999, 123_456, 12_345_678)] ['99,999', '123k', '12.3M']
    """
    if number < _EXACT:
        return f"{number:,}"
    return f"{number // 1000}k" if number < 1_000_000 else f"{number / 1e6:,.1f}M"


def per_second(rate: float) -> str:
    """Return *rate* for a progress line.

    >>> [per_second(rate) for rate in (0, 0.25, 17.8)] ['0', '0.2', '18']
    """
    return f"{rate:,.{int(0 < rate < 1)}f}"


def size(number: float) -> str:
    """Return *number* of bytes in three digits.

    >>> [size(number) for number in (900, 12_345, 7.1e6, 2.25e12)] ['900B', '12.3kB', '7.10MB',
    '2.25TB']
    """
    power = 0
    while number >= 999.5 and power < len(_PREFIXES) - 1:
        number /= 1000
        power += 1
    digits = f"{number:#.3g}".rstrip(".") if power else f"{number:.0f}"
    return f"{digits}{_PREFIXES[power]}B"


def elapsed(secs: float) -> str:
    """Return *secs* as hours, minutes and seconds.

    >>> elapsed(3_725.6) '1:02:05'
    """
    minutes, seconds = divmod(int(secs), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


class Counts(NamedTuple):
    """Counts of pages, redirects, URLs *given_up* by outcome, and repeat *visits*."""

    pages: int
    redirects: int
    given_up: Mapping[str, int]
    visits: int

    @classmethod
    def of(cls, stats: Mapping[str, Any], prefix: str = "") -> Self:
        """Sum up the counts ``outcome/…`` in *stats*, or those with a *prefix*."""
        from webcrawl.net.outcomes import is_document  # noqa: PLC0415  # it loads a package

        outcomes = with_prefix(f"{prefix}outcome/", stats)
        return cls(
            sum(number for name, number in outcomes.items() if is_document(name)),
            sum(number for name, number in outcomes.items() if name.startswith("http_3")),
            {
                name: number
                for name, number in outcomes.items()
                if not name.startswith(("http_2", "http_3"))
            },
            sum(with_prefix(f"{prefix}visits/", stats).values()),
        )
