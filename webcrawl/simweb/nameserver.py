"""The name server of the simulated web: DNS over UDP, authoritative for sim.test.

`reply` is the whole server as a pure function from a query to an answer; `NameServer` puts it on
a socket. Written by hand (RFC 1035, section 4) because it is the reply to every first contact with
a host: about 10 µs each, a tenth of a general library's. The tests ask it with dnspython.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING, Final, cast

from webcrawl.simweb.farm import DOMAINS
from webcrawl.simweb.host_spec import Behaviour
from webcrawl.simweb.world import ZONE, SimWebError

if TYPE_CHECKING:
    from webcrawl.simweb.world import World

TTL: Final = 300

# header := id u16 | flags u16 | questions u16 | answers u16 | authorities u16 | additionals u16
_HEADER = struct.Struct(">HHHHHH")
assert _HEADER.size == 12
_QUESTION_TAIL = struct.Struct(">HH")  # type, class
# record := name | type u16 | class u16 | ttl u32 | length u16 | data; the name as a pointer here
_RECORD = struct.Struct(">HHHIH")

_RESPONSE: Final = 0x8000
_AUTHORITATIVE: Final = 0x0400
_OPCODE: Final = 0x7800
_RECURSION_DESIRED: Final = 0x0100
_RECURSION_AVAILABLE: Final = 0x0080

_NOERROR, _FORMERR, _SERVFAIL, _NXDOMAIN, _NOTIMP, _REFUSED = range(6)
_A, _NS, _SOA, _OPT, _ANY = 1, 2, 6, 41, 255
_IN: Final = 1
_POINTER_TO_QUESTION: Final = 0xC00C


def _encoded(name: str) -> bytes:
    return b"".join(bytes((len(part),)) + part.encode() for part in name.split(".")) + b"\0"


_SERVER_NAME = f"ns.{ZONE}"
_SOA_DATA = (
    _encoded(_SERVER_NAME) + _encoded(f"admin.{ZONE}") + struct.pack(">5I", 1, 3600, 600, 86400, 60)
)
_SOA_RECORD = _encoded(ZONE) + struct.pack(">HHIH", _SOA, _IN, 60, len(_SOA_DATA)) + _SOA_DATA
_OPT_RECORD = b"\0" + struct.pack(">HHIH", _OPT, 1232, 0, 0)


def reply(world: World, query: bytes) -> bytes | None:
    """The answer to *query*, or None where a name server stays silent."""
    if len(query) < _HEADER.size:
        return None
    ident, flags, questions, _, _, additionals = _HEADER.unpack_from(query)
    if flags & _RESPONSE:
        return None  # never answer an answer
    if flags & _OPCODE:
        return _HEADER.pack(ident, _RESPONSE | flags & _OPCODE | _NOTIMP, 0, 0, 0, 0)
    parsed = _question(query) if questions == 1 else None
    if parsed is None:
        return _HEADER.pack(ident, _RESPONSE | _FORMERR, 0, 0, 0, 0)
    name, kind, klass, end = parsed
    found = _records(world, name, kind, klass)
    if found is None:
        return None
    code, answers = found
    # Nothing, or no such name: the SOA says for how long that may be remembered (RFC 2308).
    soa = _SOA_RECORD if not answers and code in {_NOERROR, _NXDOMAIN} else b""
    extended = additionals == 1 and query[end : end + 3] == b"\0\0\x29"
    head = _HEADER.pack(
        ident,
        _RESPONSE
        | _AUTHORITATIVE * (code != _REFUSED)
        | flags & _RECURSION_DESIRED
        | _RECURSION_AVAILABLE  # untrue, but stub resolvers want to see it
        | code,
        1,
        len(answers),
        int(bool(soa)),
        int(extended),
    )
    return b"".join(
        (head, query[_HEADER.size : end], *answers, soa, _OPT_RECORD if extended else b"")
    )


def _records(world: World, name: str, kind: int, klass: int) -> tuple[int, list[bytes]] | None:
    """Code and answer records for a question; None for silence."""
    code = _NOERROR
    answers: list[bytes] = []
    zones = (ZONE, *DOMAINS) if world.farm_hosts else (ZONE,)
    if klass != _IN or not any(f".{name}".endswith("." + zone) for zone in zones):
        code = _REFUSED
    elif name == ZONE:
        if kind in {_SOA, _ANY}:
            answers.append(_answer(_SOA, _SOA_DATA))
        if kind in {_NS, _ANY}:
            answers.append(_answer(_NS, _encoded(_SERVER_NAME)))
    elif name == _SERVER_NAME:
        if kind in {_A, _ANY}:
            answers.append(_answer(_A, b"\x7f\0\0\1"))
    else:
        host = world.find(name)
        behaviour = host.behaviour if host else Behaviour.NXDOMAIN
        if behaviour is Behaviour.DNS_TIMEOUT:
            return None
        if behaviour is Behaviour.SERVFAIL:
            code = _SERVFAIL
        elif host is None or behaviour is Behaviour.NXDOMAIN:
            code = _NXDOMAIN
        elif kind in {_A, _ANY}:
            answers.append(_answer(_A, socket.inet_aton(host.address)))
    return code, answers


def _answer(kind: int, data: bytes) -> bytes:
    return _RECORD.pack(_POINTER_TO_QUESTION, kind, _IN, TTL, len(data)) + data


def _question(query: bytes) -> tuple[str, int, int, int] | None:
    """Name in lower case, type, class and where the question ends; None if it is malformed."""
    at = _HEADER.size
    labels: list[str] = []
    while True:
        if at >= len(query):
            return None
        length = query[at]
        at += 1
        if length == 0:
            break
        if length > 63 or at + length > len(query) or at > 255 + _HEADER.size:
            return None
        labels.append(query[at : at + length].decode("latin-1"))
        at += length
    if at + _QUESTION_TAIL.size > len(query):
        return None
    kind, klass = _QUESTION_TAIL.unpack_from(query, at)
    return ".".join(labels).lower(), kind, klass, at + _QUESTION_TAIL.size


class NameServer(asyncio.DatagramProtocol):
    """The UDP socket of the name server; answers *latency* seconds after the query."""

    def __init__(self, *, world: World, latency: float) -> None:
        self._world = world
        self._latency = latency
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Called by the event loop."""
        answer = reply(self._world, data)
        if answer is None:
            return
        if self._latency:
            asyncio.get_running_loop().call_later(self._latency, self._send, answer, addr)
        else:
            self._send(answer, addr)

    def _send(self, answer: bytes, addr: tuple[str, int]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(answer, addr)


def bind_udp(address: str, port: int) -> socket.socket:
    """A UDP socket on *address*; port 0 means any free one. Raises SimWebError if it is taken."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        sock.setblocking(False)
        sock.bind((address, port))
    except OSError as error:
        sock.close()
        raise SimWebError(
            f"cannot serve DNS on UDP port {port} of {address}: {error.strerror}"
        ) from error
    return sock
