"""Directives of pages for robots: ``<meta name=robots>`` and ``X-Robots-Tag``.

Called with what ``extraction.extract`` and the response headers hold. Both have the
same grammar: directives separated by commas, in the header with a crawler's name and a colon before
those that are meant for it. What is said to all and what is said to this crawler add up, so the
most restrictive counts. Unknown directives are ignored; nothing is raised.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import mktime_tz, parsedate_tz
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from webcrawl.urls.link import Link

ALL_ROBOTS: Final = "robots"
"""The name of the ``<meta>`` element that speaks to every crawler."""

MAX_DIRECTIVES: Final = 200
"""Of one header or element that are read."""

_MAX_VALUE_CHARS: Final = 4096
_MAX_DATE_CHARS: Final = 100
_NAMED: Final = re.compile(r"\s*([\w.*-]{1,64}?)\s*:(.*)", re.DOTALL)
# Directives that have a value behind a colon, and so are no crawler's name.
_DATE: Final = "unavailable_after"
_VALUED: Final = frozenset({_DATE, "max-snippet", "max-image-preview", "max-video-preview"})


class RobotsDirectives(msgspec.Struct, frozen=True):
    """The directives of a page for crawlers."""

    noindex: bool = False
    nofollow: bool = False
    noarchive: bool = False
    unavailable_after: float | None = None
    """Seconds since the epoch, the earliest of those stated; from then on it means ``noindex``."""


NO_DIRECTIVES: Final = RobotsDirectives()
"""What most pages ask: nothing."""


def robots_directives(
    *,
    agent: str,
    headers: Iterable[bytes] = (),
    metas: Iterable[tuple[str, str]] = (),
) -> RobotsDirectives:
    """What the ``X-Robots-Tag`` *headers* and the ``<meta>`` elements *metas* ask of *agent*.

    *agent* is the crawler's product token; *metas* are pairs of lower-case name and content.
    """
    agent = agent.partition("/")[0].strip().lower()
    said: set[str] = set()
    dates: list[float] = []
    sources = [("", header.decode("latin-1")) for header in headers]
    sources += [("", content) for name, content in metas if name in (ALL_ROBOTS, agent)]
    for to_whom, value in sources:
        for name, directive, argument in _directives(to_whom, value[:_MAX_VALUE_CHARS]):
            if name in ("", "*", ALL_ROBOTS, agent):
                said.add(directive)
                if argument is not None:
                    dates.append(argument)
    return RobotsDirectives(
        noindex=not said.isdisjoint(("noindex", "none")),
        nofollow=not said.isdisjoint(("nofollow", "none")),
        noarchive=not said.isdisjoint(("noarchive", "nocache")),
        unavailable_after=min(dates, default=None),
    )


def followed(links: Iterable[Link]) -> list[Link]:
    """Those of *links* that the page does not ask to leave alone by ``rel=nofollow``."""
    return [link for link in links if not link.rel or "nofollow" not in link.rel.split()]


def _directives(name: str, value: str) -> Iterator[tuple[str, str, float | None]]:
    """To whom, what, and until when for each directive of *value*."""
    parts = value.split(",")[:MAX_DIRECTIVES]
    for i, written in enumerate(parts):
        part = written
        found = _NAMED.fullmatch(part)
        if found is not None and found[1].lower() not in _VALUED:
            name, part = found[1].lower(), found[2]
            found = _NAMED.fullmatch(part)
        if found is None:
            yield name, part.strip().lower(), None
        elif found[1].lower() == _DATE:
            # The day of the week is followed by a comma, too.
            rest = ",".join(parts[i + 1 : i + 2])
            date = _timestamp(found[2])
            yield name, _DATE, _timestamp(f"{found[2]},{rest}") if date is None else date


def _timestamp(text: str) -> float | None:
    """Seconds since the epoch of a date as RFC 822, 850 or ISO 8601 write it; in UTC if unsaid."""
    text = text.strip()[:_MAX_DATE_CHARS]
    try:
        date = datetime.fromisoformat(text)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        pass
    try:
        parsed = parsedate_tz(text)
        return None if parsed is None else float(mktime_tz(parsed))
    except (ValueError, OverflowError, IndexError, TypeError):
        # The library promises none of these, but has raised each for some nonsense or other.
        return None
