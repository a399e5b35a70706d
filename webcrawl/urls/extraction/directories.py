"""Absolute URLs of the references of one page, each directory resolved once.

Called by ``extraction`` in front of the ``Resolver``, for references that begin with a dot. The
links of a page lead to few directories: ``../../c/`` comes again and again, each time with another
name behind it. Once the directory is resolved, a plain name only has to be put behind it: 0.6 µs in
place of 2.6. The invariant, held by a differential test: the answer is always that of the resolver,
whatever the reference begins with.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from webcrawl.urls.extraction.resolver import Resolver

# What the URL Standard keeps as it is: no dot segment, no escape, no second directory. The fragment
# is matched to be dropped.
_NAME: Final = re.compile(
    r"((?:[A-Za-z0-9_~-][A-Za-z0-9._~-]*+)?+(?:\?[A-Za-z0-9._~%&=+,;:@-]*+)?+)(?:#[^/\r\n\t]*+)?+",
    re.ASCII,
)
# In these, a directory that resolves has a host, and what follows it is path.
_SCHEMES: Final = ("http://", "https://")


class Directories:
    """The directories that the references of one page have led to so far."""

    __slots__ = ("_known", "_resolver")

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._known: dict[str, str] = {}

    def resolve(self, reference: str) -> str | None:
        """The normalized absolute URL of *reference*, None when there is none to fetch."""
        cut = reference.rfind("/") + 1
        if cut > 1:
            found = _NAME.fullmatch(reference, cut)
            if found is not None:
                written = reference[:cut]
                directory = self._known.get(written)
                if directory is None:
                    directory = self._known[written] = self._directory(written)
                if directory:
                    return directory + found[1]
        return self._resolver.resolve(reference)

    def _directory(self, written: str) -> str:
        """What names are put behind, "" where that would not do."""
        if "?" in written or "#" in written:
            return ""
        directory = self._resolver.resolve(written)
        if directory is None or not directory.startswith(_SCHEMES) or directory[-1] != "/":
            return ""
        return directory
