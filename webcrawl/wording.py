"""Counts with their nouns, for logs, summaries and the output of commands."""

from __future__ import annotations


def counted(number: int, noun: str, shown: str = "") -> str:
    """*number*, or *shown* in its place, and *noun* in the singular or the plural.

    >>> counted(1, "host"), counted(0, "address"), counted(123_456, "page", "123k")
    ('1 host', '0 addresses', '123k pages')
    """
    plural = "es" if noun.endswith("s") else "s"
    return f"{shown or f'{number:,}'} {noun}{'' if number == 1 else plural}"
