"""Wording for logs, summaries and commands.

Counts get their nouns, and text from strangers is made safe.
"""

from __future__ import annotations

from unicodedata import category

_SHOWN = "\n\xad\u200c\u200d"


def counted(number: int, noun: str, shown: str = "") -> str:
    """Return *number*, or *shown* instead, with *noun* in the singular or the plural.

    >>> counted(1, "host"), counted(0, "address"), counted(123_456, "page", "123k") ('1 host', '0
    addresses', '123k pages')
    """
    plural = "es" if noun.endswith("s") else "s"
    return f"{shown or f'{number:,}'} {noun}{'' if number == 1 else plural}"


def visible(text: str) -> str:
    r"""Return *text* with control characters escaped, except line ends.

    Spaces of every width stay, and so do soft hyphens and the joiners in words of Persian or Hindi.

    >>> visible("Disallow: /\x1b[2J\x9b\n") 'Disallow: /\\x1b[2J\\x9b\n'
    """
    if text.isprintable():
        return text
    return "".join(
        one
        if one.isprintable() or one in _SHOWN or category(one) == "Zs"
        else one.encode("unicode_escape").decode()
        for one in text
    )
