"""Counts of pages, redirects and URLs given up, added up from the counts of outcomes.

Everything that the user reads uses the same words. A *page* is a URL that returned a document
(2xx), a *redirect* one that leads elsewhere (3xx). crawl/lease/outcome_log.py defines which URLs
were *given up*. A *contact* is one request to a host with any result: pages, redirects,
failures, retries and robots.txt files all count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

_EXACT = 100_000
_CAUSES = {
    "cpu": "CPU",
    "one_request_a_host": "one request per host",
    "politeness": "waiting for hosts",
}


def with_prefix(prefix: str, stats: Mapping[str, Any]) -> dict[str, int]:
    """Return the non-zero numbers in *stats* whose names have *prefix*, which is removed."""
    return {
        name.removeprefix(prefix): int(value)
        for name, value in list(stats.items())  # a copy: threads of modules add stats
        if name.startswith(prefix) and isinstance(value, (int, float)) and int(value)
    }


def refused_seeds(stats: Mapping[str, Any], prefix: str) -> str:
    """Describe how many seeds each filter has refused, largest number first; "" if none has.

    *prefix* as in ``Counts.of``.
    """
    counts = with_prefix(f"{prefix}seeds/refused/", stats).items()
    most_first = sorted(counts, key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {number:,}" for name, number in most_first)


def module_failures(stats: Mapping[str, Any], prefix: str = "") -> dict[str, int]:
    """Return how many pages each processing module has failed on, by the path of its class."""
    counts = sorted(with_prefix(f"{prefix}critical/", stats).items())
    return {name: number for name, number in counts if name not in ("callback", "download")}


def cause_in_words(cause: str) -> str:
    """Return the name of what limits a crawl, as in its stats, in messages to users."""
    return _CAUSES.get(cause, cause.replace("_", " "))


def shares_of(stats: Mapping[str, Any], prefix: str = "") -> str:
    """Return each cause's share of the crawl's time, in words: "waiting for hosts 62%, CPU 21%".

    Computed from ``doctor/..._secs`` in *stats*, whose names may have a *prefix*. Shares below a
    tenth are left out. Returns "" if there are no such stats.
    """
    # A copy of the names, because threads of modules add stats.
    names = (name for name in [*stats] if re.fullmatch(rf"{prefix}doctor/\w+_secs", name))
    secs = {name.rpartition("/")[2].removesuffix("_secs"): stats[name] for name in names}
    total = sum(secs.values()) or 1
    causes = sorted(secs, key=secs.__getitem__, reverse=True)
    shown = [cause for cause in causes if secs[cause] >= total / 10]
    return ", ".join(f"{cause_in_words(cause)} {secs[cause] / total:.0%}" for cause in shown)


def format_short(number: int) -> str:
    """Format *number* for a progress line: exact up to a hundred thousand.

    >>> [format_short(number) for number in (99_999, 123_456, 12_345_678)]
    ['99,999', '123k', '12.3M']
    """
    if number < _EXACT:
        return f"{number:,}"
    return f"{number // 1000}k" if number < 1_000_000 else f"{number / 1e6:,.1f}M"


def per_second(rate: float) -> str:
    """Format *rate*, per second, for a progress line.

    >>> [per_second(rate) for rate in (0, 0.25, 17.8)]
    ['0', '0.2', '18']
    """
    return f"{rate:,.{int(0 < rate < 1)}f}"


def format_elapsed(secs: float) -> str:
    """Format *secs* as hours, minutes and seconds.

    >>> format_elapsed(3_725.6)
    '1:02:05'
    """
    minutes, seconds = divmod(int(secs), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


def is_unused(stats: Mapping[str, Any], prefix: str) -> bool:
    """Return whether a crawl has contacted no host and has only URLs of its seed list.

    *prefix* as in ``Counts.of``. The next run of such a crawl starts over with the seed list, which
    would lose any other URLs.
    """
    refused = sum(with_prefix(f"{prefix}seeds/refused/", stats).values())
    submitted = stats.get(f"{prefix}links/submitted", 0)
    # Each seed was submitted or refused. Any more URLs came from elsewhere, and so did all of them
    # in a crawl without a seed list, which lacks the stat.
    has_only_seeds = submitted + refused <= stats.get("seeds/read", -1)
    has_contacts = stats.get(f"{prefix}contacts") or Counts.of(stats, prefix).pages
    return has_only_seeds and not has_contacts


def count_waiting(stats: Mapping[str, Any]) -> int:
    """Return the number of waiting URLs, including those not yet checked for duplicates."""
    return sum(int(stats.get(name, 0)) for name in ("frontier/waiting", "seen/waiting"))


class Counts(NamedTuple):
    """Numbers of finished URLs, pages, redirects, and repeat visits.

    *given_up* is the number of URLs that were given up, by outcome.
    """

    urls: int
    pages: int
    redirects: int
    given_up: Mapping[str, int]
    visits: int

    @classmethod
    def of(cls, stats: Mapping[str, Any], prefix: str = "") -> Self:
        """Add up the stats ``outcome/…`` and ``visits/…``.

        *prefix* comes before these names in *stats*: "crawl/" for the whole crawl, "" for this run.
        """
        # Imported here because they load packages that most commands do not need.
        from webcrawl.crawl.lease.outcome_log import is_given_up  # noqa: PLC0415
        from webcrawl.net.outcomes import is_document  # noqa: PLC0415

        outcomes = with_prefix(f"{prefix}outcome/", stats)
        return cls(
            urls=sum(outcomes.values()),
            pages=sum(number for name, number in outcomes.items() if is_document(name)),
            redirects=sum(number for name, number in outcomes.items() if name.startswith("http_3")),
            given_up={name: number for name, number in outcomes.items() if is_given_up(name)},
            visits=sum(with_prefix(f"{prefix}visits/", stats).values()),
        )

    @property
    def total_given_up(self) -> int:
        """Return the number of all URLs that were given up."""
        return sum(self.given_up.values())
