"""Repairs response heads that break the rules, so that the parser can read them.

Servers of the open web send header lines without a colon, quoted lines, single carriage returns and
two spaces in the status line, and every browser shows their pages. Lines are repaired as in RFC
9112, section 5, or as in Chromium's parser (net/http: ``HttpUtil::AssembleRawHeaders`` and
``HttpResponseHeaders``). A line that is not a field by either rule is dropped. Framing follows RFC
9112, section 6.3; heads that must be discarded according to the RFC are rejected.

Invariant: everything takes time linear in the length of the head, and a repaired head is
well-formed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

#: The end of the line before an empty line, and that line.
HEAD_END = re.compile(rb"\n\r*\n")
_LINES = re.compile(rb"[\r\n]+")
# Chromium skips up to four bytes before the status line, and accepts a status line that has only
# the name of the protocol. The status is the digits after the first spaces; 200 if there are none.
_SLOP = 4
_HTTP = b"http"
_STATUS_LINE = re.compile(rb"http(?:/([0-9])\.?([0-9]?))?[^ ]*(?: +([0-9]*)(.*))?", re.IGNORECASE)
_OK = b"200"
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BLANK = b" \t"
_CODING = b"transfer-encoding"
_CHUNKED = b"chunked"
_LENGTH = b"content-length"
# A valid length has fewer digits.
_MAX_DIGITS = 40

Fields = list[tuple[bytes, bytes]]


class MendedHead(NamedTuple):
    """A repaired head. *is_interim* tells whether it is an interim answer, so that more follow."""

    data: bytes
    is_interim: bool


def may_be_head(received: bytes, start: int) -> bool:
    """Return whether a response head may begin at position *start* of *received*."""
    return _start(received[start:]) >= 0 or len(received) - start < _SLOP + len(_HTTP)


def end_of_head(received: bytes, start: int) -> int:
    """Return where the head ends that begins at *start* of *received*; -1 if it is incomplete."""
    match = HEAD_END.search(received, start)
    return -1 if match is None else match.end()


def mended_head(head: bytes) -> MendedHead:
    """Repair *head*, a complete head with the empty line at its end.

    Raises ValueError if it has no status line, no valid status or length, or contains a zero byte.
    """
    if b"\0" in head:
        raise ValueError("a zero byte in the header")
    start = _start(head)
    if start < 0:
        raise ValueError("no status line")

    status_line, *lines = _LINES.split(head[start:].rstrip(b"\r\n"))
    match = _STATUS_LINE.fullmatch(status_line)
    major, minor, digits, reason = match.groups()  # type: ignore[union-attr]  # ``_start`` found it
    status = int(digits[:_MAX_DIGITS] or _OK) if digits is not None else int(_OK)
    if not 100 <= status <= 999:
        raise ValueError(f"{status} is not a status")
    # Numbers of later versions mean the same as 1.1 (RFC 9110, section 2.5).
    version = b"1.1" if (major or b"", minor or b"0") >= (b"1", b"1") else b"1.0"

    fields = _fix_framing(_fields(lines))
    parts = [b"HTTP/%b %d %b" % (version, status, (reason or b"").strip(_BLANK))]
    parts += [b"%b: %b" % field for field in fields]
    return MendedHead(b"\r\n".join([*parts, b"", b""]), is_interim=status < 200)


def _start(received: bytes) -> int:
    """Return where the status line begins in *received*; -1 if there is none."""
    return received[: _SLOP + len(_HTTP)].lower().find(_HTTP)


def _fields(lines: list[bytes]) -> Fields:
    """Return names and values of the fields in *lines*; other lines are dropped."""
    fields: list[tuple[bytes, list[bytes]]] = []
    is_field = False
    for line in lines:
        if line[:1] in _BLANK:
            # A line that begins with a blank continues the value of a field (section 5.2), or is
            # dropped (section 2.2).
            if is_field:
                fields[-1][1].append(line.strip(_BLANK))
            continue

        name, colon, value = line.partition(b":")
        name = name.rstrip(_BLANK)  # section 5.1
        is_field = bool(colon) and _TOKEN.fullmatch(name) is not None
        if is_field:
            fields.append((name, [value.strip(_BLANK)]))
    return [(name, b" ".join(parts)) for name, parts in fields]


def _fix_framing(fields: Fields) -> Fields:
    """Return *fields* with at most one field that determines where the body ends (section 6.3)."""
    codings = [coding for coding in _values(fields, _CODING) if coding.lower() != b"identity"]
    framing: list[tuple[bytes, bytes]] = []
    if codings:
        # Codings other than chunked are not undone. Without chunked the body ends with the
        # connection.
        if codings[-1].lower() == _CHUNKED:
            framing.append((b"Transfer-Encoding", _CHUNKED))
    elif any(name.lower() == _LENGTH for name, _ in fields):
        framing.append((b"Content-Length", b"%d" % _length(_values(fields, _LENGTH))))

    # The new field takes the place of the first one of its kind.
    framed = []
    for field in fields:
        if field[0].lower() not in (_CODING, _LENGTH):
            framed.append(field)
        elif framing:
            framed.append(framing.pop())
    return framed


def _length(values: list[bytes]) -> int:
    """Return the number in *values*; raise ValueError unless they are all the same number."""
    if not all(value.isdigit() and len(value) <= _MAX_DIGITS for value in values):
        raise ValueError("Content-Length is not a number")
    lengths = {int(value) for value in values}
    if len(lengths) != 1:
        raise ValueError("Content-Length has different values")
    return lengths.pop()


def _values(fields: Fields, name: bytes) -> list[bytes]:
    """Return the values of all fields called *name*, each of which is a comma-separated list."""
    parts = [part for key, value in fields if key.lower() == name for part in value.split(b",")]
    return [part for value in parts if (part := value.strip(_BLANK))]
