"""The name servers to use: those in DNS_SERVERS, or else those of the system.

Called by the resolver. The system's servers may change while a crawl runs for weeks (a DHCP lease,
a VPN), so their file is read again regularly.

Invariant: there is always at least one name server.
"""

from __future__ import annotations

import contextlib
import ipaddress
from pathlib import Path
from urllib.parse import urlsplit

from webcrawl.clock import TimeSource, now
from webcrawl.errors import FatalError

Address = tuple[str, int]

_RESOLV_CONF = Path("/etc/resolv.conf")
# The server that the C library asks if none is configured (resolv.conf(5)).
_LOCAL = (("127.0.0.1", 53),)
# Seconds between two reads of the file, which has a few lines.
_READ_EVERY = 5.0


class SystemServers:
    """The name servers listed in /etc/resolv.conf, which may change."""

    def __init__(self, *, clock: TimeSource = now) -> None:
        self._clock = clock
        self._next_read_at = float("-inf")
        self._servers: tuple[Address, ...] = _LOCAL

    def current_servers(self) -> tuple[Address, ...]:
        """Return the name servers. The file is read again after 5 s.

        If it cannot be read or names no server, for example while it is being written, the last
        name servers are returned.
        """
        if self._clock() >= self._next_read_at:
            self._next_read_at = self._clock() + _READ_EVERY
            with contextlib.suppress(OSError):
                self._servers = _read(_RESOLV_CONF) or self._servers
        return self._servers


def server_address(text: str) -> Address:
    """Parse *text*: ``host``, ``host:port``, ``[v6]:port`` or a bare IPv6 address.

    Raises FatalError unless the host is an IP address, as a name could not be resolved.
    """
    named = text.strip()
    is_bare = named.count(":") > 1 and "[" not in named
    try:
        parts = urlsplit(f"//[{named}]" if is_bare else f"//{named}")
        address = str(ipaddress.ip_address(parts.hostname or ""))
        port = 53 if parts.port is None else parts.port
    except ValueError:
        port = 0
    if not port:
        raise FatalError(f"DNS_SERVERS must contain addresses (ip or ip:port), not {text!r}.")
    return address, port


def _read(path: Path) -> tuple[Address, ...]:
    """Return the name servers in the file *path*; raise OSError if it cannot be read."""
    servers = []
    for line in path.read_text("utf-8", "replace").splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == "nameserver":
            try:
                servers.append((str(ipaddress.ip_address(words[1])), 53))
            except ValueError:
                continue  # the C library skips such lines, too
    return tuple(servers)
