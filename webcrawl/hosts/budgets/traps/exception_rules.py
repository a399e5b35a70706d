"""Trap exceptions: patterns and hosts exempt from traps, from TRAP_EXCEPTIONS_FILE.

Lines of the file::

    # line := [pattern | host] [white space "#" comment]
    http://a.test/cal/{n}?sid      a pattern, as in the log line "Trap learned"
    a.test/cal/{n}?sid             the same for every scheme
    www.b.test                     every pattern of the host, and of all hosts below it
"""

from __future__ import annotations

import re

from webcrawl.urls import host_of, normalize
from webcrawl.urls.filters.pattern import MAX_PATTERN
from webcrawl.urls.host import domain_among

_COMMENT = re.compile(r"(?:\A|\s)#.*")


class ExceptionRules:
    """The exceptions in one version of the file."""

    def __init__(self) -> None:
        self._patterns: set[str] = set()
        self._hosts: set[str] = set()

    def __len__(self) -> int:
        """Return the number of different rules."""
        return len(self._patterns) + len(self._hosts)

    def add(self, line: str) -> None:
        """Add the rule of *line*, if there is one.

        Raises ValueError, with the end of a sentence, if it is neither a pattern nor a host.
        """
        text = _COMMENT.sub("", line.strip()).strip()
        if not text:
            return
        if any(map(str.isspace, text)) or len(text) > MAX_PATTERN:
            raise ValueError(f"{text[:80]!r} is neither a pattern nor a host")
        # A pattern is not a URL, so only its server is checked.
        server, slash, _ = (text.partition("://")[2] or text).partition("/")
        url = normalize(f"http://{server}/")
        if url is None:
            raise ValueError(f"{text[:80]!r} is neither a pattern nor a host")
        if slash:
            self._patterns.add(text)
        else:
            self._hosts.add(host_of(url))

    def is_exempt(self, host: str, *patterns: str) -> bool:
        """Return whether one of *patterns*, or *host* (as from ``host_of``), is never parked."""
        for pattern in patterns if self._patterns else ():
            if pattern in self._patterns or pattern.partition("://")[2] in self._patterns:
                return True
        return bool(self._hosts) and domain_among(self._hosts, host) is not None
