"""The filters that a link must pass before the eliminator sees it.

Each filter is a small object with a name and one question; a ``FilterChain`` asks them in order and
counts refusals by name. The names are the last part of the stats ``urls/refused/<name>``. Filters
keep no state, so a link that was refused once is refused again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from webcrawl.urls.normalizer import HTTP_SCHEMES

if TYPE_CHECKING:
    from collections.abc import Sequence


class UrlFilter(Protocol):
    """One reason to leave a URL alone. ``url`` is normalized, so its length in characters is its
    length in bytes; ``depth`` is the number of links from the seed."""

    name: ClassVar[str]

    def refuses(self, url: str, depth: int) -> bool: ...


@dataclass(slots=True, frozen=True)
class SchemeFilter:
    """Refuses URLs that no download handler of this crawl can fetch."""

    name: ClassVar[str] = "scheme"
    schemes: frozenset[str]

    def refuses(self, url: str, depth: int) -> bool:  # noqa: ARG002  part of the protocol
        return url.partition(":")[0] not in self.schemes


@dataclass(slots=True, frozen=True)
class LengthFilter:
    """Refuses URLs of more than ``max_bytes``: beyond 2 kB they are traps or session state."""

    name: ClassVar[str] = "length"
    max_bytes: int

    def refuses(self, url: str, depth: int) -> bool:  # noqa: ARG002  part of the protocol
        return len(url) > self.max_bytes


@dataclass(slots=True, frozen=True)
class DepthFilter:
    """Refuses URLs more than ``max_depth`` links from the seed."""

    name: ClassVar[str] = "depth"
    max_depth: int

    def refuses(self, url: str, depth: int) -> bool:  # noqa: ARG002  part of the protocol
        return depth > self.max_depth


class FilterChain:
    """Asks its filters in order; the first that refuses decides.

    ``refused`` counts by filter name since the chain was built.
    """

    def __init__(self, filters: Sequence[UrlFilter]) -> None:
        self.refused: Counter[str] = Counter()
        self._filters = tuple((one.name, one.refuses) for one in filters)

    def refusal(self, url: str, depth: int) -> str | None:
        """Name of the filter that refuses *url* at *depth*, None when all let it pass."""
        for name, refuses in self._filters:
            if refuses(url, depth):
                self.refused[name] += 1
                return name
        return None


def standard_filters(
    *, max_bytes: int, max_depth: int, schemes: frozenset[str] = HTTP_SCHEMES
) -> FilterChain:
    """The chain that URL_MAX_LENGTH_BYTES and URL_MAX_DEPTH describe; 0 means no limit."""
    filters: list[UrlFilter] = [SchemeFilter(schemes)]
    if max_bytes > 0:
        filters.append(LengthFilter(max_bytes))
    if max_depth > 0:
        filters.append(DepthFilter(max_depth))
    return FilterChain(filters)
