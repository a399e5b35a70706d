"""Reads the access log of the simulated web."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from webcrawl.simweb.accesslog import AnswerEnd, Hit

if TYPE_CHECKING:
    from collections.abc import Iterator

# A line of the log. Its fields are those of ``Hit``, except that the client comes first.
_LINE = re.compile(
    r"(\S+) - - \[(\d+\.\d{6}) (\d+\.\d{6})\] "
    r'"(\S*) (\S*) [A-Z]+/(\S*)" (\d+) (\d+) '
    rf'"-?([^"]*)" "-?([^"]*)" (\S+) (\S+) ({"|".join(AnswerEnd)})\n',
    re.ASCII,
)


class LoggedHit(Hit):
    """A request that was read from the access log."""

    @property
    def url(self) -> str:
        """The URL that was requested."""
        return self.origin + self.target

    @property
    def host(self) -> str:
        """Host name in lower case, without the port: the politeness key."""
        return self.origin.partition("://")[2].partition(":")[0].lower()


def read_access_log(path: str | Path) -> Iterator[LoggedHit]:
    """Yield the requests in the access log at *path*; skip an incomplete last line.

    Raises ValueError, with the line number, for an invalid line.
    """
    with Path(path).open(encoding="ascii") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith("\n"):
                return
            match = _LINE.fullmatch(line)
            if match is None:
                raise ValueError(f"{path}, line {number}: not a line of an access log")
            client, start, end, *rest = match.groups()
            fields = (start, end, client, *rest)
            yield LoggedHit(*msgspec.convert(fields, Hit, strict=False))
