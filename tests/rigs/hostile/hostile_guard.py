"""Traps: names and URLs that lead to addresses a crawler has no business with.

A listener waits at the end of those that lead to this machine. With the guard on nobody may ever
connect to it, whatever the name server says.
"""

import contextlib

from loopback import name_server, raw_server, zone

# By the name that has them; the port is that of the listener.
_ADDRESSES = {
    "loopback": "127.0.0.1",
    "loopback-elsewhere": "127.255.255.254",
    "several": "10.0.0.1 127.0.0.1",
    "unspecified": "0.0.0.0",
    "private-a": "10.0.0.1",
    "private-b": "172.16.0.1",
    "private-c": "192.168.0.1",
    "shared": "100.64.0.1",
    "metadata": "169.254.169.254",
    "multicast": "224.0.0.1",
    "broadcast": "255.255.255.255",
    "loopback-6": "::1",
    "mapped": "::ffff:127.0.0.1",
    "translated": "64:ff9b::7f00:1",
    "link-local-6": "fe80::1",
    "unique-local-6": "fd00::1",
}
_ZONE = {
    f"{name}.trap.test": [
        f"300 {'AAAA' if ':' in address else 'A'} {address}" for address in addresses.split()
    ]
    for name, addresses in _ADDRESSES.items()
}
_LITERALS = [
    "127.0.0.1",
    "localhost",
    "www.localhost",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "127.1",
    "0.0.0.0",
    "169.254.169.254",
    "[::1]",
    "[::ffff:127.0.0.1]",
]


class Traps:
    """All of them; *sprung* lists who fell into one."""

    def __init__(self):
        self.sprung = []
        self.dns = ""
        self._port = 0

    def urls(self):
        """Each with a path of its own, as the hosts of some become the same when normalized."""
        hosts = [*_ZONE, *_LITERALS]
        return [f"http://{host}:{self._port}/{n}" for n, host in enumerate(hosts)]

    @contextlib.asynccontextmanager
    async def set_up(self):
        async with raw_server(self._spring) as listener, name_server(zone(_ZONE)) as names:
            self._port = listener.port
            self.dns = f"127.0.0.1:{names.port}"
            yield self

    async def _spring(self, reader, writer):
        self.sprung.append(await reader.read(1000))
