"""Required delays: how long a politeness key must rest after a contact, and the file of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from webcrawl.errors import FatalError
from webcrawl.jobs.audit.log_line import MICRO

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from webcrawl.jobs.audit.log_line import LoggedRequest


class RequiredDelays:
    """The delay due after a contact: the larger of *min_delay* and the host's own, in seconds.

    After a robots.txt that redirects only *min_delay* is due: its Crawl-delay has not been read.
    """

    def __init__(self, *, min_delay: float, hosts: Mapping[str, float]) -> None:
        self._min_delay = round(min_delay * MICRO)
        self._hosts = {host: round(pause * MICRO) for host, pause in hosts.items()}

    def after(self, contact: LoggedRequest) -> int:
        """The delay that is due after *contact*, in microseconds."""
        if contact.robots_moved:
            return self._min_delay
        return max(self._min_delay, self._hosts.get(contact.host, 0))


def read_delays(path: Path) -> dict[str, float]:
    """The delays in the file at *path*: ``host seconds`` a line; blank lines and # comments.

    The last line of a host counts. FatalError names the file and the line.
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
