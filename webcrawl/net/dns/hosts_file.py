"""Hosts files: lines of an address and names, for which no name server is asked (hosts(5)).

Read once, at the start, by the resolver. What they name passes the guard as any answer does.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING

from webcrawl.errors import FatalError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_SYSTEMS = Path("/etc/hosts")
# Long lists of refused hosts have 10 MB.
_MAX_BYTES = 32 << 20


def hosts_of(settings: BaseSettings) -> dict[str, list[str]]:
    """The addresses of the names in HOSTS_FILE, and of others in /etc/hosts: the IPv4 ones, or the
    IPv6 ones of a name that has no other. Blocks; FatalError for a HOSTS_FILE that cannot be."""
    found: dict[str, list[str]] = {}
    own = settings.get("HOSTS_FILE")
    for path in (_SYSTEMS, *([Path(own)] if own else ())):
        try:
            found |= _read(path)
        except (OSError, ValueError) as error:
            if path is not _SYSTEMS:
                raise FatalError(f"HOSTS_FILE {path} cannot be used: {error}.") from error
    return found


def _read(path: Path) -> dict[str, list[str]]:
    """OSError, ValueError with the reason."""
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ValueError(f"it has more than {_MAX_BYTES >> 20} MiB")
    found: dict[str, list[str]] = {}
    for number, line in enumerate(data.decode("utf-8-sig", "replace").splitlines(), start=1):
        address, *names = line.partition("#")[0].split() or ("",)
        try:
            version = ipaddress.ip_address(address).version if address else 4
        except ValueError:
            if path is _SYSTEMS:
                continue  # the C library skips such lines, too
            raise ValueError(f"line {number} begins with no address") from None
        for name in names:
            known = found.setdefault(name.removesuffix(".").lower(), [])
            if known and version == 4 and ":" in known[0]:
                known.clear()
            if not known or (":" in known[0]) == (version == 6):
                known.append(address)
    return found
