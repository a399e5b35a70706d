"""Parser of FTP directory listings, in the usual formats.

Called by the download handler for ftp with the answer to MLSD (RFC 3659), which is made for
programs, or to LIST, which is made for people. For LIST, Unix style (``ls -l``) and DOS style are
recognized.

Invariant: each name returned is in the listed directory itself. Names that could lead elsewhere are
left out: those with slashes, ``.`` and ``..``, and links to a parent. So are names that cannot be
requested (line breaks, NUL), and lines that cannot be parsed. Time is linear in the length of the
listing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote

from webcrawl.net.documents import Row

# More lines than links are followed per page. They take 30 ms of the reactor's time.
_MAX_LINES = 10_000
_MAX_LINE_BYTES = 1024  # file names have at most 255

# drwxr-xr-x 2 ftp ftp 4096 Nov 20 11:02 name; owner and group may be missing, and the date may be
# in ISO format.
_UNIX = re.compile(
    rb"([-bcdlps])[-rwxsStTlL]{9}[+.@]?\s+\d[^\r\n]*?"
    rb"\s(?:[A-Za-z]{3}\s+\d\d?\s+(?:\d{4}|\d\d?:\d\d)|\d{4}-\d\d-\d\d\s+\d\d:\d\d)\s(.+)",
    re.DOTALL,
)
# 11-20-26  11:02AM       <DIR>          name
_DOS = re.compile(
    rb"\d\d[-/]\d\d[-/]\d\d(?:\d\d)?\s+\d\d?:\d\d\s?(?:[AaPp][Mm])?\s+(<[A-Z]+>|[\d,.]+)\s+(.+)",
    re.DOTALL,
)
_UPWARDS = re.compile(rb"[./]+")
_REQUESTABLE = re.compile(rb"(?!\.{1,2}\Z)[^\x00/\r\n]+")


class ListedName(NamedTuple):
    """The name of a file or directory in a listing."""

    name: bytes
    is_directory: bool


def entries(listing: bytes, *, is_mlsd: bool) -> Iterator[ListedName]:
    """Yield the names in *listing*, the answer to MLSD if *is_mlsd*, else to LIST."""
    parse = _mlsd_entry if is_mlsd else _list_entry
    for line in itertools.islice(listing.split(b"\n", _MAX_LINES), _MAX_LINES):
        if len(line) > _MAX_LINE_BYTES:
            continue
        entry = parse(line.removesuffix(b"\r"))
        if entry is not None and _REQUESTABLE.fullmatch(entry.name):
            yield entry


def row_of(entry: ListedName) -> Row:
    """Return *entry* as a link relative to the listed directory; directories end in a slash."""
    text = entry.name.decode("utf-8", "replace")
    # All special characters of URLs are escaped, so a name is never read as a scheme or a query.
    href = quote(entry.name, safe="")
    return Row(href + "/", text + "/") if entry.is_directory else Row(href, text)


def _mlsd_entry(line: bytes) -> ListedName | None:
    """Parse a line of MLSD such as ``type=file;size=3; name`` (RFC 3659, section 7.2).

    Returns None if it is not valid, or is the directory itself or a parent.
    """
    facts, space, name = line.partition(b" ")
    if not space or not (facts == b"" or facts.endswith(b";")):
        return None

    kind = b"file"
    for fact in facts.lower().split(b";"):
        key, _, value = fact.partition(b"=")
        if key == b"type":
            kind = value
    # "cdir" is the listed directory, "pdir" a parent. A symbolic link may have its target after a
    # colon, as in "OS.unix=slink:..".
    if kind in {b"cdir", b"pdir"} or _is_upward_link(kind.partition(b":")[2]):
        return None
    return ListedName(name, kind == b"dir")


def _list_entry(line: bytes) -> ListedName | None:
    """Parse a line of LIST, in Unix or DOS style; return None if it is neither or not a file."""
    match = _UNIX.fullmatch(line)
    if match is not None:
        kind = match[1]
        name = match[2]
        if kind == b"l":
            name, _, target = name.partition(b" -> ")
            if _is_upward_link(target):
                return None
        elif kind not in b"-d":
            return None  # devices, pipes, sockets
        return ListedName(name, kind == b"d")

    match = _DOS.fullmatch(line)
    if match is not None:
        return ListedName(match[2], match[1] in {b"<DIR>", b"<JUNCTION>", b"<SYMLINKD>"})
    return None


def _is_upward_link(target: bytes) -> bool:
    """Return whether a symbolic link to *target* leads to a parent, so that it has no end."""
    return _UPWARDS.fullmatch(target) is not None
