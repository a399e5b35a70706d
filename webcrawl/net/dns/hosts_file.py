"""Hosts files: names that are resolved without a name server, with their addresses (hosts(5)).

The resolver reads them once, at the start. The guard checks these addresses like all others.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path

from scrapy.settings import BaseSettings

from webcrawl.errors import FatalError, require_file

_SYSTEM_FILE = Path("/etc/hosts")
# Long blocklists have about 10 MB.
_MAX_BYTES = 32 << 20


def hosts_of(settings: BaseSettings) -> dict[str, list[str]]:
    """Return the addresses of the names in HOSTS_FILE and /etc/hosts; HOSTS_FILE takes precedence.

    For each name these are its IPv4 addresses, or the IPv6 addresses if it has no others. Blocks
    while the files are read. Raises FatalError for a HOSTS_FILE that cannot be used.
    """
    addresses_by_name: dict[str, list[str]] = {}
    setting = settings.get("HOSTS_FILE")
    for path in (_SYSTEM_FILE, *([Path(setting)] if setting else ())):
        try:
            addresses_by_name |= _read(path)
        except (OSError, ValueError) as error:
            if path is not _SYSTEM_FILE:
                raise FatalError(f"HOSTS_FILE {path} cannot be used: {error}.") from error
    return addresses_by_name


def _read(path: Path) -> dict[str, list[str]]:
    """Return the addresses in the hosts file *path*, by name.

    Raises OSError, or ValueError with the reason why the file cannot be used.
    """
    require_file(path)
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ValueError(f"it is larger than {_MAX_BYTES >> 20} MiB")

    addresses_by_name: dict[str, list[str]] = {}
    for number, line in enumerate(data.decode("utf-8-sig", "replace").splitlines(), start=1):
        # An empty line or a comment has no address and no names.
        address, *names = line.partition("#")[0].split() or ("",)
        try:
            version = ipaddress.ip_address(address).version if address else 4
        except ValueError:
            if path is _SYSTEM_FILE:
                continue  # the C library skips such lines, too
            raise ValueError(f"line {number} does not begin with an address") from None

        # The addresses of a name are of one version; an IPv4 address replaces IPv6 addresses.
        for name in names:
            known = addresses_by_name.setdefault(name.removesuffix(".").lower(), [])
            if known and version == 4 and ":" in known[0]:
                known.clear()
            if not known or (":" in known[0]) == (version == 6):
                known.append(address)
    return addresses_by_name
