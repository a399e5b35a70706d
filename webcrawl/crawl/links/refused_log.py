"""Sample of refused URLs, which reveals a wrong expression or a filter that refuses too much.

``JOBDIR/logs/refused.jsonl`` has, for each filter and run, the first 20 refusals, and then each
whose number is a power of two, so it stays small. At 4 MiB, after many runs, it starts over. One
JSON object a line::

    at      when, epoch seconds
    filter  its name, as in the stat urls/refused/<name>
    number  how many it had refused, including this one; seeds are counted separately
    url     as the filter saw it
    via     the page that links to it; empty for a seed
    reason  given by a custom filter, or the expression of URL_REFUSE; otherwise empty
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from webcrawl.storage.line_log import LineLog

if TYPE_CHECKING:
    from pathlib import Path

    from webcrawl.clock import TimeSource

REFUSED_LOG = "logs/refused.jsonl"
_MAX_URL = 1 << 12
_MAX_REASON = 200
_MAX_FILE_BYTES = 1 << 22


class RefusedLog:
    """The sample of the job in *jobdir*. *clock* gives epoch seconds."""

    def __init__(self, *, jobdir: Path, clock: TimeSource) -> None:
        self._log = LineLog(path=jobdir / REFUSED_LOG, max_bytes=_MAX_FILE_BYTES)
        self._clock = clock

    def append(self, name: str, number: int, url: str, via: str, reason: str) -> None:
        """Append a line; the first one creates the file. Raises OSError."""
        line = {"at": round(self._clock(), 3), "filter": name, "number": number}
        line |= {"url": url[:_MAX_URL], "via": via[:_MAX_URL], "reason": reason[:_MAX_REASON]}
        with suppress(FileNotFoundError):
            if self._log.path.stat().st_size >= _MAX_FILE_BYTES:
                self._log.path.unlink()
        self._log.append_once(msgspec.json.encode(line))
