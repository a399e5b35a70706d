"""DNS messages as bytes: encodes a question, and decodes the addresses of its answer (RFC 1035).

dnspython, which the tests compare with, takes twenty times as long for a message.

Invariant: whatever the bytes are, `read_answer` raises only MalformedAnswerError, and takes time
linear in their number.
"""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

A = 1
CNAME = 5
SOA = 6
AAAA = 28
_IN = 1

NOERROR = 0
NXDOMAIN = 3

# message  := id u16 | flags u16 | counts u16*4 (questions, answers, authority, additional) | ...
# question := name | type u16 | class u16
# record   := name | type u16 | class u16 | ttl u32 | length u16 | data          (big-endian all)
_HEADER = struct.Struct(">HHHHHH")
_RECORD = struct.Struct(">HHIH")
assert (_HEADER.size, _RECORD.size) == (12, 10)

_RECURSION_DESIRED = 0x0100
_RESPONSE = 0x8000
_TRUNCATED = 0x0200

_MAX_NAME = 255
_MAX_LABEL = 63
_LENGTHS = [bytes((size,)) for size in range(_MAX_LABEL + 1)]
# A name has at most half as many labels as bytes. This also ends a loop of pointers.
_MAX_JUMPS = 128
# Longer chains of aliases inside one answer are an attack or a mistake.
_MAX_ALIASES = 16
# An answer over UDP cannot have more. Over TCP a message of 64 kB could have 4,000.
_MAX_RECORDS = 512
# RFC 2308, section 5: negative answers are not cached longer. The second is used without an SOA.
_MAX_NEGATIVE_TTL = 3 * 3600
_NEGATIVE_TTL = 60


class MalformedAnswerError(Exception):
    """The bytes are not an answer to this question; the lookup continues to wait for one."""


class DnsAnswer(NamedTuple):
    """Answer of a name server to one question.

    If *alias* is set, the chain of aliases leads out of the message: ask again for that name (wire
    form). *ttl* is in seconds, the smallest in the chain, or that of the negative answer.
    """

    rcode: int
    truncated: bool
    addresses: tuple[str, ...]
    ttl: int
    alias: bytes | None


def text_of(name: bytes) -> str:
    """Return the host name of the result of ``wire_name``."""
    labels, rest = [], name
    while rest[:1].strip(b"\0"):
        labels.append(rest[1 : 1 + rest[0]])
        rest = rest[1 + rest[0] :]
    return b".".join(labels).decode("ascii", "replace")


def wire_name(host: str) -> bytes:
    """Return *host* (ASCII, no trailing dot) as labels in lower case.

    Raises ValueError if it cannot be a name: empty or oversized labels, or not ASCII.
    """
    parts: list[bytes] = []
    for label in host.lower().encode("ascii").split(b"."):
        if not 0 < len(label) <= _MAX_LABEL:
            raise ValueError(f"{host!r} has a label of {len(label)} bytes")
        parts += (_LENGTHS[len(label)], label)
    parts.append(b"\0")
    name = b"".join(parts)
    if len(name) > _MAX_NAME:
        raise ValueError(f"{host[:80]!r}... is {len(name)} bytes long")
    return name


def question(name: bytes, qtype: int) -> bytes:
    """Return the question section that asks for records of *qtype* of *name* (wire form)."""
    return name + struct.pack(">HH", qtype, _IN)


def query(ident: int, asked: bytes) -> bytes:
    """Return the message that asks a recursive server one question.

    It does not use EDNS. An answer over 512 bytes comes back truncated and is fetched over TCP,
    which is rarer than servers that cannot handle an OPT record.
    """
    return _HEADER.pack(ident, _RECURSION_DESIRED, 1, 0, 0, 0) + asked


def read_answer(message: bytes, asked: bytes) -> DnsAnswer:
    """Read the addresses that *message* gives to the question *asked*.

    The caller has checked the message id. Here the question must be repeated as it was asked.
    """
    try:
        return _read(message, asked)
    except (struct.error, IndexError) as e:
        raise MalformedAnswerError("the message ends early") from e


def _read(message: bytes, asked: bytes) -> DnsAnswer:
    _, flags, questions, answers, authorities, _ = _HEADER.unpack_from(message)
    if not flags & _RESPONSE:
        raise MalformedAnswerError("it is not a response")
    rcode = flags & 15
    pos = _HEADER.size + len(asked)
    if questions != 1 or message[_HEADER.size : pos].lower() != asked:
        # Servers that reject a question do not always repeat it.
        if questions == 0 and rcode not in {NOERROR, NXDOMAIN}:
            return DnsAnswer(rcode, False, (), 0, None)
        raise MalformedAnswerError("it answers another question")
    if answers + authorities > _MAX_RECORDS:
        raise MalformedAnswerError(f"it has {answers + authorities} records")
    qtype = int.from_bytes(asked[-4:-2], "big")
    family, size = (socket.AF_INET, 4) if qtype == A else (socket.AF_INET6, 16)
    first = asked[:-4]
    aliases: dict[bytes, tuple[bytes, int]] = {}
    found: dict[bytes, list[str]] = {}
    ttls: dict[bytes, int] = {}
    for _ in range(answers):
        owner, pos = _name_at(message, pos, first)
        rtype, rclass, ttl, length = _RECORD.unpack_from(message, pos)
        pos += 10
        if rclass == _IN:
            if rtype == qtype and length == size:
                address = socket.inet_ntop(family, _slice(message, pos, size))
                found.setdefault(owner, []).append(address)
                ttls[owner] = min(ttls.get(owner, ttl), ttl)
            elif rtype == CNAME:
                aliases.setdefault(owner, (_name_at(message, pos, first)[0], ttl))
        pos += length
    name = first
    min_ttl = 0x7FFFFFFF
    hops = 0
    while name not in found and name in aliases and hops < _MAX_ALIASES:
        name, ttl = aliases[name]
        min_ttl = min(min_ttl, ttl)
        hops += 1
    truncated = bool(flags & _TRUNCATED)
    if name in found:
        return DnsAnswer(rcode, truncated, tuple(found[name]), min(min_ttl, ttls[name]), None)
    negative = _negative_ttl(message, pos, authorities, first)
    if rcode == NOERROR and hops and name not in aliases and negative is None:
        return DnsAnswer(rcode, truncated, (), 0, name)
    ttl = _NEGATIVE_TTL if negative is None else negative
    return DnsAnswer(rcode, truncated, (), min(min_ttl, ttl), None)


def _negative_ttl(message: bytes, pos: int, authorities: int, first: bytes) -> int | None:
    """Return how long a negative answer is valid (RFC 2308), None if no SOA says so."""
    for _ in range(authorities):
        _, pos = _name_at(message, pos, first)
        rtype, _, ttl, length = _RECORD.unpack_from(message, pos)
        pos += 10
        if rtype == SOA and length >= 20:
            minimum = int.from_bytes(_slice(message, pos + length - 4, 4), "big")
            return min(int(ttl), minimum, _MAX_NEGATIVE_TTL)
        pos += length
    return None


def _slice(message: bytes, pos: int, size: int) -> bytes:
    part = message[pos : pos + size]
    if len(part) != size:
        raise MalformedAnswerError("the message ends early")
    return part


def _name_at(message: bytes, pos: int, first: bytes) -> tuple[bytes, int]:
    """Return the name at *pos* in full, in lower case, and the position after it."""
    if message[pos] == 0xC0 and message[pos + 1] == _HEADER.size:
        return first, pos + 2  # a pointer to the question, as nine of ten owner names are
    parts: list[bytes] = []
    after = -1
    size = 0
    for _ in range(_MAX_JUMPS):
        length = message[pos]
        if length >= 0xC0:
            if after < 0:
                after = pos + 2
            pos = (length & 0x3F) << 8 | message[pos + 1]
            continue
        if length > _MAX_LABEL:
            raise MalformedAnswerError("a label has an unknown type")
        size += length + 1
        if size > _MAX_NAME:
            raise MalformedAnswerError("a name is too long")
        parts.append(_slice(message, pos, length + 1))
        pos += length + 1
        if not length:
            return b"".join(parts).lower(), pos if after < 0 else after
    raise MalformedAnswerError("a name does not end")
