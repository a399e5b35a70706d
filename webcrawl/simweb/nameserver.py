"""Name server of the simulated web: IPv4 addresses over DNS by UDP.

``reply`` is the whole server as a pure function from a query to an answer; ``NameServer`` runs it
on a socket. It does not use a DNS library (RFC 1035, section 4), because every first request to a
host needs it: it takes about 10 µs, a tenth of the time of a library. The tests query it with
dnspython.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from typing import TYPE_CHECKING, cast

from webcrawl.simweb.farm import DOMAINS
from webcrawl.simweb.host_spec import Behaviour, HostSpec
from webcrawl.simweb.world import ZONE, SimWebError, World

if TYPE_CHECKING:
    from collections.abc import Callable


DNS_ADDRESS = "127.0.0.1"
TTL = 300

# header := id u16 | flags u16 | questions u16 | answers u16 | authorities u16 | additionals u16
_HEADER = struct.Struct(">HHHHHH")
_QUESTION_TAIL = struct.Struct(">HH")  # type, class
# record := name | type u16 | class u16 | ttl u32 | length u16 | data; here the name is a pointer
_RECORD = struct.Struct(">HHHIH")

_RESPONSE = 0x8000
_OPCODE = 0x7800
_RECURSION_DESIRED = 0x0100
# Authoritative. Recursion is not available, but stub resolvers expect the flag.
_FLAGS = _RESPONSE | 0x0400 | 0x0080

_NOERROR = 0
_SERVFAIL = 2
_NXDOMAIN = 3
_REFUSED = 5
_A = 1
_SOA = 6
_IN = 1
_QUESTION = 0xC000 | _HEADER.size  # a pointer to the name in the question

# In answers without addresses, the SOA record says how long they may be cached (RFC 2308). Both
# names in it are the root.
_SOA_DATA = b"\0\0" + struct.pack(">5I", 1, 3600, 600, 86400, 60)
_SOA_RECORD = b"\0" + struct.pack(">HHIH", _SOA, _IN, 60, len(_SOA_DATA)) + _SOA_DATA


def reply(find: Callable[[str], HostSpec | None], query: bytes) -> bytes | None:
    """Return the answer to the DNS message *query*, or None to send no answer.

    Anything but a plain query is not answered. *find* returns a host by name, like ``World.find``.
    """
    try:
        query_id, flags, questions, *_ = _HEADER.unpack_from(query)
        offset = _HEADER.size
        labels = []
        while length := query[offset]:
            labels.append(query[offset + 1 : offset + 1 + length])
            offset += 1 + length
        record_type, record_class = _QUESTION_TAIL.unpack_from(query, offset + 1)
    except (struct.error, IndexError):
        return None
    if flags & (_RESPONSE | _OPCODE) or questions != 1 or record_class != _IN:
        return None

    name = b".".join(labels).decode("latin-1").lower()
    host = find(name)
    behaviour = host.behaviour if host else Behaviour.NXDOMAIN
    if behaviour is Behaviour.DNS_TIMEOUT:
        return None

    code = _NOERROR
    answer = b""
    authority = b""
    if host is None and not f".{name}".endswith(tuple(f".{zone}" for zone in (ZONE, *DOMAINS))):
        code = _REFUSED
    elif behaviour is Behaviour.SERVFAIL:
        code = _SERVFAIL
    elif host is not None and record_type == _A and behaviour is not Behaviour.NXDOMAIN:
        answer = _RECORD.pack(_QUESTION, _A, _IN, TTL, 4) + socket.inet_aton(host.address)
    else:
        code = _NXDOMAIN if behaviour is Behaviour.NXDOMAIN else _NOERROR
        authority = _SOA_RECORD

    flags = _FLAGS | flags & _RECURSION_DESIRED | code
    head = _HEADER.pack(query_id, flags, 1, bool(answer), bool(authority), 0)
    return head + query[_HEADER.size : offset + 1 + _QUESTION_TAIL.size] + answer + authority


class NameServer(asyncio.DatagramProtocol):
    """UDP socket of the name server; answers *latency* seconds after the query."""

    def __init__(self, *, world: World, latency: float) -> None:
        self._world = world
        self._latency = latency

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport. Called by the event loop."""
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Answer a query. Called by the event loop."""
        answer = reply(self._world.find, data)
        if answer is not None:
            asyncio.get_running_loop().call_later(self._latency, self._send, answer, addr)

    def _send(self, answer: bytes, addr: tuple[str, int]) -> None:
        if not self._transport.is_closing():
            self._transport.sendto(answer, addr)


async def start_name_server(
    world: World, port: int, *, latency: float
) -> asyncio.DatagramTransport:
    """Serve DNS for *world* on UDP; port 0 means any free port.

    Answers are sent after *latency* seconds. Raises SimWebError if the port is in use.
    """
    loop = asyncio.get_running_loop()
    try:
        transport, _ = await loop.create_datagram_endpoint(
            lambda: NameServer(world=world, latency=latency), local_addr=(DNS_ADDRESS, port)
        )
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise SimWebError(
            f"cannot serve DNS on UDP port {port} of {DNS_ADDRESS}: {reason}"
        ) from error
    sock: socket.socket = transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    return transport
