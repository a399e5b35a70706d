"""Trap files: ``traps.txt``, where parked patterns are noted, and TRAP_EXCEPTIONS_FILE.

A line of ``traps.txt``, appended for each event, which is also logged::

    # pattern, two spaces, "#" and the event
    http://a.test/cal/{n}?sid  # 2026-11-20 13:00:05 parked: 30 of 30 pages had been seen, as http…

Copied to TRAP_EXCEPTIONS_FILE it frees its pattern. The crawl never reads ``traps.txt``, and a full
disk does not end it here. The lines of the exceptions::

    # line := [pattern | host] [white space "#" comment]
    http://a.test/cal/{n}?sid      a pattern, as traps.txt has it
    a.test/cal/{n}?sid             the same, whatever the scheme
    www.b.test                     every pattern of the host; of all below it too
"""

from __future__ import annotations

import logging
import re
import time
from typing import TYPE_CHECKING, Final

from webcrawl.urls import host_of, normalize
from webcrawl.urls.filters.pattern import MAX_PATTERN
from webcrawl.urls.host import domain_among

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

_COMMENT: Final = re.compile(r"(?:\A|\s)#.*")


class Notes:
    """The writer of ``traps.txt``, *path*; it makes no directory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._complained = False

    def parked(self, pattern: str, *, seen: int, of: int, example: str, at: float) -> None:
        """Note that *seen* of the pattern's recent documents, *of* in all, had content seen
        before."""
        logger.info(
            "Trap learned: %d of the last %d pages of %s had content already seen, as %s; its URLs "
            "wait from now on",
            seen, of, pattern, example,
        )  # fmt: skip
        self._append(pattern, f"parked: {seen} of {of} pages had been seen, as {example}", at)

    def tried(self, pattern: str, *, at: float) -> None:
        """Note that the pattern is free until some more pages are known."""
        self._append(pattern, "tried again", at)

    def _append(self, pattern: str, what: str, at: float) -> None:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{pattern}  # {when} {what}\n")
        except OSError as error:
            if not self._complained:
                self._complained = True
                logger.error(  # noqa: TRY400  # the sentence says it all
                    "%s could not be written (%s); the traps are learned all the same",
                    self._path, error.strerror,
                )  # fmt: skip


class ExceptionRules:
    """The exceptions in one version of the file."""

    def __init__(self) -> None:
        self._patterns: set[str] = set()
        self._hosts: set[str] = set()

    def __len__(self) -> int:
        """The number of different rules."""
        return len(self._patterns) + len(self._hosts)

    def add(self, line: str) -> None:
        """Add the rule of *line*, if there is one. ValueError, with the end of a sentence, if it is
        neither a pattern nor a host."""
        text = _COMMENT.sub("", line.strip()).strip()
        if not text:
            return
        if any(map(str.isspace, text)) or len(text) > MAX_PATTERN:
            raise ValueError(f"{text[:80]!r} is neither a pattern nor a host")
        server, slash, _ = (text.partition("://")[2] or text).partition("/")
        url = normalize(f"http://{server}/")
        if url is None:
            raise ValueError(f"{text[:80]!r} is neither a pattern nor a host")
        if slash:
            self._patterns.add(text)
        else:
            self._hosts.add(host_of(url))

    def excepts(self, host: str, *patterns: str) -> bool:
        """Whether one of *patterns*, or *host* in the form of ``host_of``, is never parked."""
        for pattern in patterns if self._patterns else ():
            if pattern in self._patterns or pattern.partition("://")[2] in self._patterns:
                return True
        return bool(self._hosts) and domain_among(self._hosts, host) is not None
