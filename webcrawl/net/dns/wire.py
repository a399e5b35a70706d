"""DNS messages: encodes a question, and decodes the addresses in its answer (RFC 1035).

dnspython, with which the tests compare this module, takes twenty times as long for a message.

Invariant: for any bytes, `read_answer` raises only MalformedAnswerError, and its time is
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

_RECURSION_DESIRED = 0x0100
_RESPONSE = 0x8000
_TRUNCATED = 0x0200

_MAX_NAME = 255
_MAX_LABEL = 63
_LENGTHS = [bytes((size,)) for size in range(_MAX_LABEL + 1)]
# Maximum number of labels and pointers that are followed for a name. A name has at most half as
# many labels as bytes. The limit also ends a loop of pointers.
_MAX_JUMPS = 128
# Longer chains of aliases inside one answer are an attack or a mistake.
_MAX_ALIASES = 16
# An answer over UDP cannot have more records. Over TCP a message of 64 kB could have 4,000.
_MAX_RECORDS = 512
# Seconds for which negative answers are cached: the maximum (RFC 2308, section 5), and the value
# used if there is no SOA record.
_MAX_NEGATIVE_TTL = 3 * 3600
_NEGATIVE_TTL = 60


class MalformedAnswerError(Exception):
    """The message is not an answer to the question, which continues to wait for one."""


class DnsAnswer(NamedTuple):
    """The answer of a name server to one question.

    If *alias* is set, the message does not contain the end of the chain of aliases: that name (wire
    form) must be looked up next. *ttl* is in seconds: the smallest in the chain, or that of the
    negative answer.
    """

    rcode: int
    truncated: bool
    addresses: tuple[str, ...]
    ttl: int
    alias: bytes | None


def wire_name(host: str) -> bytes:
    """Return *host* (ASCII, no trailing dot) in wire form: a sequence of labels in lower case.

    Raises ValueError if it cannot be a name: it is not ASCII, or a label is empty or too long.
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
    """Return the question section that asks for the *qtype* records of *name* (wire form)."""
    return name + struct.pack(">HH", qtype, _IN)


def query(ident: int, asked: bytes) -> bytes:
    """Return the message with id *ident* that asks a recursive server the question *asked*.

    It does not use EDNS. Answers of more than 512 bytes are therefore truncated and fetched over
    TCP, but they are rarer than servers that cannot handle an OPT record.
    """
    return _HEADER.pack(ident, _RECURSION_DESIRED, 1, 0, 0, 0) + asked


def read_answer(message: bytes, asked: bytes) -> DnsAnswer:
    """Decode *message*, the answer to the question *asked*; raise MalformedAnswerError otherwise.

    The caller has checked the message id. The message must repeat the question as it was asked.
    """
    try:
        return _read(message, asked)
    except (struct.error, IndexError) as e:
        raise MalformedAnswerError("the message ends early") from e


def _read(message: bytes, asked: bytes) -> DnsAnswer:
    """Decode *message* as in ``read_answer``; it may raise other errors if the message is cut."""
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

    # The question ends with its type and class, two bytes each.
    qtype = int.from_bytes(asked[-4:-2], "big")
    family, size = (socket.AF_INET, 4) if qtype == A else (socket.AF_INET6, 16)
    asked_name = asked[:-4]

    # Addresses and aliases, by the name that they belong to.
    aliases: dict[bytes, tuple[bytes, int]] = {}
    addresses: dict[bytes, list[str]] = {}
    ttls: dict[bytes, int] = {}
    for _ in range(answers):
        owner, pos = _name_at(message, pos, asked_name)
        rtype, rclass, ttl, length = _RECORD.unpack_from(message, pos)
        pos += _RECORD.size
        if rclass == _IN:
            if rtype == qtype and length == size:
                address = socket.inet_ntop(family, _slice(message, pos, size))
                addresses.setdefault(owner, []).append(address)
                ttls[owner] = min(ttls.get(owner, ttl), ttl)
            elif rtype == CNAME:
                aliases.setdefault(owner, (_name_at(message, pos, asked_name)[0], ttl))
        pos += length

    # Follow the aliases to a name with addresses.
    name = asked_name
    min_ttl = 0x7FFFFFFF
    hops = 0
    while name not in addresses and name in aliases and hops < _MAX_ALIASES:
        name, ttl = aliases[name]
        min_ttl = min(min_ttl, ttl)
        hops += 1

    truncated = bool(flags & _TRUNCATED)
    if name in addresses:
        return DnsAnswer(rcode, truncated, tuple(addresses[name]), min(min_ttl, ttls[name]), None)
    negative_ttl = _negative_ttl(message, pos, authorities, asked_name)
    # Without an SOA record, an answer that ends with an alias does not deny that the alias has
    # addresses: the server has just not followed it.
    if rcode == NOERROR and hops and name not in aliases and negative_ttl is None:
        return DnsAnswer(rcode, truncated, (), 0, name)
    ttl = _NEGATIVE_TTL if negative_ttl is None else negative_ttl
    return DnsAnswer(rcode, truncated, (), min(min_ttl, ttl), None)


def _negative_ttl(message: bytes, pos: int, authorities: int, asked_name: bytes) -> int | None:
    """Return for how many seconds a negative answer is valid (RFC 2308); None without an SOA.

    The *authorities* records of the authority section begin at *pos*.
    """
    for _ in range(authorities):
        _, pos = _name_at(message, pos, asked_name)
        rtype, _, ttl, length = _RECORD.unpack_from(message, pos)
        pos += _RECORD.size
        if rtype == SOA and length >= 20:
            # The last field of an SOA record is the maximum time for negative answers.
            minimum = int.from_bytes(_slice(message, pos + length - 4, 4), "big")
            return min(int(ttl), minimum, _MAX_NEGATIVE_TTL)
        pos += length
    return None


def _slice(message: bytes, pos: int, size: int) -> bytes:
    """Return *size* bytes at *pos*; raise MalformedAnswerError if there are fewer."""
    part = message[pos : pos + size]
    if len(part) != size:
        raise MalformedAnswerError("the message ends early")
    return part


def _name_at(message: bytes, pos: int, asked_name: bytes) -> tuple[bytes, int]:
    """Return the complete name at *pos*, in lower case, and the position after it.

    *asked_name* is the name in the question, to which most owner names are pointers.
    """
    if message[pos] == 0xC0 and message[pos + 1] == _HEADER.size:
        return asked_name, pos + 2  # a pointer to the question, as nine of ten owner names are

    labels: list[bytes] = []
    end = -1
    size = 0
    for _ in range(_MAX_JUMPS):
        length = message[pos]
        # The upper two bits mark a pointer to another place, where the name continues.
        if length >= 0xC0:
            if end < 0:
                end = pos + 2
            pos = (length & 0x3F) << 8 | message[pos + 1]
            continue

        if length > _MAX_LABEL:
            raise MalformedAnswerError("a label has an unknown type")
        size += length + 1
        if size > _MAX_NAME:
            raise MalformedAnswerError("a name is too long")
        labels.append(_slice(message, pos, length + 1))
        pos += length + 1
        if not length:
            return b"".join(labels).lower(), pos if end < 0 else end
    raise MalformedAnswerError("a name does not end")
