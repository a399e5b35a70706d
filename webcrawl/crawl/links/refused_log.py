"""Log of a sample of refused URLs, which helps to find filters that refuse too much.

To stay small, ``JOBDIR/logs/refused.jsonl`` has, for each filter and run, only the first 20
refusals, and later ones whose number is a power of two. At 4 MiB, after many runs, it starts over.
It has one JSON object per line::

    at      when the URL was refused, epoch seconds
    filter  name of the filter, as in the stat urls/refused/<name>
    number  how many URLs the filter had refused, including this one; seeds are counted separately
    url     the URL as the filter saw it
    via     the page that links to the URL; empty for a seed
    reason  the reason given by a custom filter, or the expression of URL_REFUSE; otherwise empty
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from webcrawl.clock import TimeSource
from webcrawl.storage.line_log import LineLog

REFUSED_LOG = "logs/refused.jsonl"
_MAX_URL = 1 << 12
_MAX_REASON = 200
_MAX_FILE_BYTES = 1 << 22


class RefusedLog:
    """Writes the log of refused URLs of the job in *jobdir*. *clock* returns epoch seconds."""

    def __init__(self, *, jobdir: Path, clock: TimeSource) -> None:
        self._log = LineLog(path=jobdir / REFUSED_LOG, max_bytes=_MAX_FILE_BYTES)
        self._clock = clock

    def append(self, name: str, number: int, url: str, via: str, reason: str) -> None:
        """Append a line about a refusal by the filter *name*; the first line creates the file.

        The other arguments are fields of the line. Raises OSError.
        """
        line = {"at": round(self._clock(), 3), "filter": name, "number": number}
        line |= {"url": url[:_MAX_URL], "via": via[:_MAX_URL], "reason": reason[:_MAX_REASON]}
        with suppress(FileNotFoundError):
            if self._log.path.stat().st_size >= _MAX_FILE_BYTES:
                self._log.path.unlink()
        self._log.append_once(msgspec.json.encode(line))
