"""Parts of a host: up to eight queues with a clock each, if the site's owner allows that.

A part has a politeness key of its own, ``host#i``, and contains the URLs whose CRC-32 is i modulo
the number of parts. Entries name only the host. The key is computed when an entry enters the back
end, and again when it is handed out, as the number of parts may have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from zlib import crc32

from webcrawl.frontier.entry import Entry

MAX_PARTS = 8
_MARK = "#"  # not allowed in host names


def politeness_key(host: str, url: str, parts: int) -> str:
    """Return the politeness key of *url*: one of the *parts* of *host*, or *host* if undivided."""
    return host if parts == 1 else f"{host}{_MARK}{crc32(url.encode()) % parts}"


def host_of_key(key: str) -> str:
    """Return the host of the politeness key *key*, which is the host itself or one of its parts."""
    return key.partition(_MARK)[0]


def keys_of_other_divisions(host: str, parts: int) -> Iterator[str]:
    """Yield the keys that *host* may have had when it was not divided into *parts* parts."""
    if parts > 1:
        yield host
    # Parts with lower numbers are in use now.
    for part in range(parts if parts > 1 else 0, MAX_PARTS):
        yield f"{host}{_MARK}{part}"


class HostParts:
    """Finds the politeness keys of entries; *count* returns the present number of a host's parts.

    ``existed``: whether any host has been divided, now or in the restored state.
    """

    def __init__(self, count: Callable[[str], int]) -> None:
        self.count = count
        self.existed = False

    def key_of(self, entry: Entry) -> str:
        """Return the politeness key of *entry*: its host, or a part of the host."""
        return politeness_key(entry.host, entry.url, self.count(entry.host))

    def enter(self, key: str) -> str:
        """Record that the politeness key *key* is in use, and return its host."""
        host = host_of_key(key)
        self.existed = self.existed or host != key
        return host
