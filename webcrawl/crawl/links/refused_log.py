"""Sample of refused URLs: a wrong expression or a filter that refuses too much is seen there.

``JOBDIR/logs/refused.jsonl`` has, of each filter and run, the first 20 refusals and then each whose
number is a power of two, so that it stays small; what many runs wrote is thrown away at 4 MiB. One
JSON object a line::

    at      when, epoch seconds
    filter  its name, as in the stat urls/refused/<name>
    number  how many it had refused with this one; seeds are counted apart
    url     as the filter saw it
    via     the page that links to it; empty for a seed
    reason  what a filter of a user's own gave, or the expression of URL_REFUSE; else empty
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
        """Append a line; the file is made by the first one. OSError."""
        line = {"at": round(self._clock(), 3), "filter": name, "number": number}
        line |= {"url": url[:_MAX_URL], "via": via[:_MAX_URL], "reason": reason[:_MAX_REASON]}
        with suppress(FileNotFoundError):
            if self._log.path.stat().st_size >= _MAX_FILE_BYTES:
                self._log.path.unlink()
        self._log.append_once(msgspec.json.encode(line))
