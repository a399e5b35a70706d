"""Wording for logs, summaries and commands.

Puts nouns after counts, formats times and durations, and makes text from others safe to print.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from unicodedata import category

#: How the user calls the commands; webcrawl/__main__.py sets the variable.
COMMAND = os.environ.get("WEBCRAWL_COMMAND", "scrapy")
_HARMLESS = "\n\xad\u200c\u200d"


def counted(number: int, noun: str, shown: str = "") -> str:
    """Return *number*, or the text *shown* instead, with *noun* in the singular or the plural.

    >>> counted(1, "host"), counted(0, "address"), counted(123_456, "page", "123k")
    ('1 host', '0 addresses', '123k pages')
    """
    plural = "es" if noun.endswith("s") else "s"
    return f"{shown or f'{number:,}'} {noun}{'' if number == 1 else plural}"


def utc_time(at: float) -> str:
    """Format the epoch second *at* in UTC, for people.

    >>> utc_time(1_763_632_800.5)
    '2025-11-20 10:00:00'
    """
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))


def iso_time(at: float, timespec: str = "seconds") -> str:
    """Format the epoch second *at* in UTC, for files; *timespec* as for ``datetime.isoformat``.

    >>> iso_time(1_763_632_800.5), iso_time(1_763_632_800.5, "milliseconds")
    ('2025-11-20T10:00:00Z', '2025-11-20T10:00:00.500Z')
    """
    return datetime.fromtimestamp(at, UTC).isoformat(timespec=timespec)[:-6] + "Z"


def span(secs: float) -> str:
    """Format a duration of *secs* seconds.

    >>> [span(secs) for secs in (0.01234, 9, 123.4, 5400, 141_900, 1_500_000)]
    ['0.0123 s', '9 s', '123 s', '90 min', '39.4 h', '17.4 days']
    """
    if secs < 600:
        return f"{secs:.3g} s"
    if secs < 7200:
        return f"{secs / 60:.0f} min"
    return f"{secs / 3600:.1f} h" if secs < 172_800 else f"{secs / 86_400:.1f} days"


def escape_controls(text: str) -> str:
    r"""Return *text* with control characters escaped, except line ends.

    Spaces of every width are kept, and so are soft hyphens and the joiners in words of Persian or
    Hindi.

    >>> escape_controls("Disallow: /\x1b[2J\x9b\n")
    'Disallow: /\\x1b[2J\\x9b\n'
    """
    if text.isprintable():
        return text
    return "".join(
        char
        if char.isprintable() or char in _HARMLESS or category(char) == "Zs"
        else char.encode("unicode_escape").decode()
        for char in text
    )
