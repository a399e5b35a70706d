"""Which pause is due after a contact, and the file that says so host by host."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from webcrawl.errors import FatalError
from webcrawl.jobs.audit.lines import MICRO

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from webcrawl.jobs.audit.lines import Contact


class Pauses:
    """The larger of *least* and of the host's own pause in *hosts*; both in seconds.

    After a robots.txt that has moved only *least* is due: nobody knows of a Crawl-delay that is
    in a file which has not been read.
    """

    def __init__(self, *, least: float, hosts: Mapping[str, float]) -> None:
        self._least = round(least * MICRO)
        self._hosts = {host: round(pause * MICRO) for host, pause in hosts.items()}

    def after(self, contact: Contact) -> int:
        """The pause that is due after *contact*, in microseconds."""
        if contact.robots_moved:
            return self._least
        return max(self._least, self._hosts.get(contact.host, 0))


def read_delays(path: Path) -> dict[str, float]:
    """The pauses in the file at *path*: ``host seconds`` a line; blank lines and # comments.

    The last line of a host counts. Raises FatalError naming the file and the line.
    """
    delays: dict[str, float] = {}
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise FatalError(f"cannot read the delays in {path}: {error.strerror}") from error
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        pause = _seconds(words[1]) if len(words) == 2 else None
        if pause is None:
            raise FatalError(f"{path}, line {number}: a line is a host and its pause in seconds")
        delays[words[0].lower().removesuffix(".")] = pause
    return delays


def _seconds(word: str) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if value >= 0 and math.isfinite(value) else None
