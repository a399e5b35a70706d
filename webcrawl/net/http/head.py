"""Response heads that break the rules, mended so that the parser can read them.

Servers of the open web send header lines without a colon, quoted lines, lone carriage returns and
two spaces in the status line, and every browser shows their pages. Lines are mended as RFC 9112,
section 5, says, or as Chromium's parser does (net/http: ``HttpUtil::AssembleRawHeaders`` and
``HttpResponseHeaders``); a line of which neither makes a field is dropped. The framing is that of
RFC 9112, section 6.3; what the RFC says must be discarded is refused.

Invariant: all of it takes time linear in the head, and a mended head is well-formed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

#: The end of the line before an empty line, and that line.
HEAD_END = re.compile(rb"\n\r*\n")
_LINES = re.compile(rb"[\r\n]+")
# Chromium skips up to four bytes before the status line, and needs no more of it than the name of
# the protocol. A status is the digits after the first spaces; without any it is 200.
_SLOP = 4
_HTTP = b"http"
_STATUS_LINE = re.compile(rb"http(?:/([0-9])\.?([0-9]?))?[^ ]*(?: +([0-9]*)(.*))?", re.IGNORECASE)
_OK = b"200"
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BLANK = b" \t"
_CODING = b"transfer-encoding"
_CHUNKED = b"chunked"
_LENGTH = b"content-length"
# More digits than any length has.
_MAX_DIGITS = 40

Fields = list[tuple[bytes, bytes]]


class MendedHead(NamedTuple):
    """A head as the parser reads it; *is_interim*: another one follows."""

    data: bytes
    is_interim: bool


def may_be_head(received: bytes, start: int) -> bool:
    """Return whether a response head may begin at *start* of *received*."""
    return _start(received[start:]) >= 0 or len(received) - start < _SLOP + len(_HTTP)


def end_of_head(received: bytes, start: int) -> int:
    """Return where the head that begins at *start* of *received* ends; -1 if it does not."""
    found = HEAD_END.search(received, start)
    return -1 if found is None else found.end()


def mended_head(head: bytes) -> MendedHead:
    """Mend *head*, which ends with its empty line.

    ValueError if it has no status line, no valid status or length, or a zero byte.
    """
    if b"\0" in head:
        raise ValueError("a zero byte in the header")
    start = _start(head)
    if start < 0:
        raise ValueError("no status line")
    first, *lines = _LINES.split(head[start:].rstrip(b"\r\n"))
    found = _STATUS_LINE.fullmatch(first)
    assert found is not None, first
    major, minor, digits, reason = found.groups()
    status = int(digits[:_MAX_DIGITS] or _OK) if digits is not None else int(_OK)
    if not 100 <= status <= 999:
        raise ValueError(f"{status} is not a status")
    # Numbers of later versions mean the same as 1.1 (RFC 9110, section 2.5).
    version = b"1.1" if (major or b"", minor or b"0") >= (b"1", b"1") else b"1.0"
    fields = _framed(_fields(lines))
    parts = [b"HTTP/%b %d %b" % (version, status, (reason or b"").strip(_BLANK))]
    parts += [b"%b: %b" % field for field in fields]
    return MendedHead(b"\r\n".join([*parts, b"", b""]), is_interim=status < 200)


def _start(received: bytes) -> int:
    """Return where the status line begins; -1 if it does not."""
    return received[: _SLOP + len(_HTTP)].lower().find(_HTTP)


def _fields(lines: list[bytes]) -> Fields:
    """Return the fields in *lines*."""
    fields: list[tuple[bytes, list[bytes]]] = []
    is_field = False
    for line in lines:
        if line[:1] in _BLANK:
            # Section 5.2, for folded values; section 2.2, for a line that continues no field.
            if is_field:
                fields[-1][1].append(line.strip(_BLANK))
            continue
        name, colon, value = line.partition(b":")
        name = name.rstrip(_BLANK)  # section 5.1
        is_field = bool(colon) and _TOKEN.fullmatch(name) is not None
        if is_field:
            fields.append((name, [value.strip(_BLANK)]))
    return [(name, b" ".join(parts)) for name, parts in fields]


def _framed(fields: Fields) -> Fields:
    """Return *fields* with one field at most that says where the body ends, by section 6.3."""
    codings = [one for one in _values(fields, _CODING) if one.lower() != b"identity"]
    framing: list[tuple[bytes, bytes]] = []
    if codings:
        # Others than chunked stay undone, and without it the connection's end is the body's.
        if codings[-1].lower() == _CHUNKED:
            framing.append((b"Transfer-Encoding", _CHUNKED))
    elif any(name.lower() == _LENGTH for name, _ in fields):
        framing.append((b"Content-Length", b"%d" % _length(_values(fields, _LENGTH))))
    framed = []
    for field in fields:
        if field[0].lower() not in (_CODING, _LENGTH):
            framed.append(field)
        elif framing:
            framed.append(framing.pop())
    return framed


def _length(values: list[bytes]) -> int:
    """Return the one number that all *values* are."""
    if not all(value.isdigit() and len(value) <= _MAX_DIGITS for value in values):
        raise ValueError("no valid length")
    lengths = {int(value) for value in values}
    if len(lengths) != 1:
        raise ValueError("lengths that differ")
    return lengths.pop()


def _values(fields: Fields, of: bytes) -> list[bytes]:
    """Return the values in the lists that the fields named *of* are."""
    parts = [part for name, value in fields if name.lower() == of for part in value.split(b",")]
    return [part for one in parts if (part := one.strip(_BLANK))]
