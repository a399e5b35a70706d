"""Hosts files: lines of an address and names that are resolved without a name server (hosts(5)).

The resolver reads them once, at the start. The guard checks their addresses like any answer.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING

from webcrawl.errors import FatalError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_SYSTEM_FILE = Path("/etc/hosts")
# Long blocklists have 10 MB.
_MAX_BYTES = 32 << 20


def hosts_of(settings: BaseSettings) -> dict[str, list[str]]:
    """Return the addresses of the names in HOSTS_FILE and /etc/hosts; HOSTS_FILE takes precedence.

    These are the IPv4 addresses of a name, or the IPv6 ones if it has no others. Blocks. Raises
    FatalError for a HOSTS_FILE that cannot be used.
    """
    found: dict[str, list[str]] = {}
    own = settings.get("HOSTS_FILE")
    for path in (_SYSTEM_FILE, *([Path(own)] if own else ())):
        try:
            found |= _read(path)
        except (OSError, ValueError) as error:
            if path is not _SYSTEM_FILE:
                raise FatalError(f"HOSTS_FILE {path} cannot be used: {error}.") from error
    return found


def _read(path: Path) -> dict[str, list[str]]:
    """Read the file *path*. Raises OSError, or ValueError with the reason."""
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ValueError(f"it is larger than {_MAX_BYTES >> 20} MiB")
    found: dict[str, list[str]] = {}
    for number, line in enumerate(data.decode("utf-8-sig", "replace").splitlines(), start=1):
        address, *names = line.partition("#")[0].split() or ("",)
        try:
            version = ipaddress.ip_address(address).version if address else 4
        except ValueError:
            if path is _SYSTEM_FILE:
                continue  # the C library skips such lines, too
            raise ValueError(f"line {number} does not begin with an address") from None
        for name in names:
            known = found.setdefault(name.removesuffix(".").lower(), [])
            if known and version == 4 and ":" in known[0]:
                known.clear()
            if not known or (":" in known[0]) == (version == 6):
                known.append(address)
    return found
