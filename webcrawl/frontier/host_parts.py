"""Parts of a host: up to eight queues with a clock each, if the site's owner allows that.

A part has a politeness key of its own, ``host#i``, and contains the URLs whose CRC-32 is i modulo
the number of parts. Entries name only the host. The key is computed when an entry enters the back
end, and again when it is handed out, as the number of parts may have changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    for part in range(parts if parts > 1 else 0, MAX_PARTS):
        yield f"{host}{_MARK}{part}"
