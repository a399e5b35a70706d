"""A table of odd answers, what other clients read in them, and what this crawler has to read.

The clients are Debian's Chromium 156.0.8078.108 (``fetch()``), curl 7.88.1 (``--compressed``) and
stock Scrapy 2.19; tests/nightly/test_judge.py asks them again. What each of them reads is a letter:

    P  PAGE, whole          e  nothing, as if that were whole     S  the status, no success
    p  the beginning of it  o  other bytes                        F  it fails, maybe after a part

This crawler has to read what Chromium reads whole, or what curl and Scrapy both read. Each part of
the table has the source of that. Where it begins with "exception", this crawler does not follow.
"""

from __future__ import annotations

import gzip
import zlib
from functools import partial
from typing import Any, Final, NamedTuple

import brotli
from odd_server import Answer

from webcrawl.net.http.decoding import zstd

PAGE: Final = (
    b'<!DOCTYPE html><title>Page</title><p>This is the page, with a <a href="/next">link</a>.'
    + b"<p>The same sentence over and over makes it worth packing." * 5
)
_START, _REST = PAGE[:30], PAGE[30:]
_OK: Final = b"HTTP/1.1 200 OK"
_NONE: Final = b"HTTP/1.1 404 Not Found"
_OLD: Final = b"HTTP/1.0 200 OK"
_LENGTH: Final = b"Content-Length: %d" % len(PAGE)
_WORD: Final = b"Content-Length: many"
_SHORT: Final = b"Content-Length: 5"
_CHUNKED: Final = b"Transfer-Encoding: chunked"
_IDENTITY: Final = b"Transfer-Encoding: identity"
_GZIPPED: Final = b"Transfer-Encoding: gzip"
_NAMED: Final = b"Content-Encoding: gzip"


class Frozen(NamedTuple):
    """One answer.

    others: the letters of Chromium, curl and Scrapy. crawler: what this crawler has to read: a
    status that is no success, or "page", "part", "empty" or "fails"; with a star, it may be marked
    as damaged.
    """

    name: str
    answer: Answer
    others: tuple[str, ...]
    crawler: str
    source: str


def letter_of(reading):
    """Return the letter of this table for *reading*."""
    if reading.status and not reading.is_success:
        return "S"
    if reading.failure:
        return "F"
    if not reading.body:
        return "e"
    if not PAGE.startswith(reading.body):
        return "o"
    return "P" if reading.body == PAGE else "p"


# --- the parts of answers --------------------------------------------------------------------


def _head(*lines, status=_OK, end=b"\r\n"):
    return end.join([status, *lines, b"Content-Type: text/html", b"", b""])


def _with(*lines, status=_OK, end=b"\r\n"):
    """An answer that is sound but for these lines, and closed after its length."""
    return _head(*lines, _LENGTH, status=status, end=end) + PAGE


def _framed(*lines, body=PAGE, status=_OK):
    """An answer with these lines about its framing, closed after its body."""
    return _head(*lines, status=status) + body


def _ends(end, *lines, body=PAGE):
    """An answer whose lines end with *end*, but for the empty line."""
    return end.join([_OK, *(lines or (_LENGTH,)), b"Content-Type: text/html", b"\r\n"]) + body


def _chunks(size=b"%x", *, after=b"\r\n", last=b"0\r\n\r\n"):
    """Two chunks; *size* is the template of a size, and of its line end if that is not CRLF."""
    if not size.endswith(b"\n"):
        size += b"\r\n"
    return b"".join(size % len(part) + part + after for part in (_START, _REST)) + last


def _chunked(size=b"%x", *, after=b"\r\n", last=b"0\r\n\r\n"):
    return _framed(_CHUNKED, body=_chunks(size, after=after, last=last))


def _coded(names, body, status=_OK):
    lines = (b"Content-Encoding: " + names, b"Content-Length: %d" % len(body))
    return _framed(*lines, body=body, status=status)


def _raw_deflate(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


_pack = partial(gzip.compress, mtime=0)
_GZIP: Final = _pack(PAGE)
_ZLIB: Final = zlib.compress(PAGE)
_RAW: Final = _raw_deflate(PAGE)
_BROTLI: Final = brotli.compress(PAGE)
_ZSTD: Final = zstd.compress(PAGE)
_TWO_FRAMES: Final = zstd.compress(_START) + zstd.compress(_REST)
_GZIP_CHUNK: Final = b"%x\r\n%b\r\n" % (len(_GZIP), _GZIP)


def _packed(times):
    data = PAGE
    for _ in range(times):
        data = _pack(data)
    return data


# --- the table -------------------------------------------------------------------------------

# By what this crawler has to read, and the source of that: by name, what Chromium, curl and Scrapy
# read, and the bytes; "open" or "rst" behind them, if the connection does not end with FIN.
_TABLE: Final[dict[tuple[str, str], dict[str, tuple[Any, ...]]]] = {
    ("page", "RFC 9112, sections 2 to 6"): {
        "sound": ("P P P", _with()),
        "no reason": ("P P P", _with(status=b"HTTP/1.1 200")),
        "version 2.0": ("P P P", _with(status=b"HTTP/2.0 200 OK")),
        "8 bit value": ("P P P", _with(b"X-A: \xe9\xff")),
        "control byte in a value": ("P P P", _with(b"X-A: a\x01b")),
        "fold": ("P P P", _with(b"X-A: a\r\n b\r\n\tc")),
        "line of blanks": ("P P P", _with(b"X-A: 1", b"   ")),
        "bare LF": ("P P P", _with(end=b"\n")),
        "early hints": ("P P P", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + _with()),
        "five interim answers": ("P P P", b"HTTP/1.1 102 Processing\r\n\r\n" * 5 + _with()),
        "200 fields": ("P P P", _with(*(b"X-%d: 1" % n for n in range(200)))),
    },
    # --- lines of the head
    ("page", "Chromium leaves the line out"): {
        "line without a colon": ("P F P", _with(b"garbage line")),
        "line with an equals sign": ("P F P", _with(b"X-XSS-Protection=1;")),
        "tag as a line": ("P F P", _with(b"<meta charset=utf-8>")),
        "status line as a line": ("P F P", _with(_OK)),
        "line after the status line": ("P F P", _with(status=_OK + b"\r\ngarbage")),
        "fold of a line without a colon": ("P F F", _with(b"garbage\r\n X-A: 1")),
        "line without a colon, chunks": ("P F P", _framed(b"garbage", _CHUNKED, body=_chunks())),
        "bad line in an interim answer": ("P S P", b"HTTP/1.1 100 C\r\nbad\r\n\r\n" + _with()),
        "quoted line": ("P P F", _with(b'"X-XSS-Protection: 0"')),
        "empty name": ("P P F", _with(b": x")),
        "name with a blank": ("P P F", _with(b"X A: 1")),
        "name with a control byte": ("P P F", _with(b"X\x01A: 1")),
        "8 bit name": ("P P F", _with(b"X-\xe9: 1")),
        "name with brackets": ("P P F", _with(b"(X)<A>@: 1")),
    },
    ("page", "RFC 9112, section 5.1: blanks before the colon are removed; Chromium"): {
        "blank before the colon": ("P P F", _with(b"X-A : 1")),
        "tab before the colon": ("P P F", _with(b"X-A\t: 1")),
        "blank before the length": ("P F F", _framed(_LENGTH.replace(b":", b" :")), "open"),
        "tab before the length": ("P F F", _framed(_LENGTH.replace(b":", b"\t:")), "open"),
        "blank before chunked": ("P o F", _framed(b"Transfer-Encoding : chunked", body=_chunks())),
        "blank before gzip": ("P o F", _framed(b"Content-Encoding : gzip", body=_GZIP)),
    },
    ("page", "RFC 9112, section 5.2: a fold is a blank"): {
        "fold in the length": ("P F P", _framed(_LENGTH.replace(b" ", b"\r\n ")), "open"),
        "fold in chunked": ("P o P", _framed(_CHUNKED.replace(b" ", b"\r\n\t"), body=_chunks())),
        "fold after chunked": ("P P P", _framed(_CHUNKED + b"\r\n ", body=_chunks())),
    },
    ("page", "RFC 9112, section 2.2: such lines are left out"): {
        "fold after the status line": ("P F F", _with(status=_OK + b"\r\n folded")),
        "blank before the first name": ("P F F", _with(status=_OK + b"\r\n X-A: 1")),
        "blanks after the status line": ("P F F", _with(status=_OK + b"\r\n ")),
    },
    ("fails", "RFC 9110, section 5.5: NUL is dangerous; Chromium and curl"): {
        "NUL in a value": ("F F P", _with(b"X-A: a\0b")),
        "NUL in a name": ("F F F", _with(b"X\0A: 1")),
        "NUL in the reason": ("F F P", _with(status=b"HTTP/1.1 200 O\0K")),
    },
    ("page", "Chromium, curl and Scrapy"): {
        "CR in a line": ("P P P", _with(b"X-A: 1\rX-B: 2")),
        "CR CR LF after a line": ("P P P", _with(b"X-A: 1\r")),
        "CR CR LF after the status line": ("P P P", _with(status=_OK + b"\r")),
        "CR CR LF, empty line CRLF": ("P P P", _ends(b"\r\r\n")),
        "CR CR LF, empty line CRLF, chunks": ("P P P", _ends(b"\r\r\n", _CHUNKED, body=_chunks())),
        "LF, empty line CRLF": ("P P P", _ends(b"\n")),
        "CRLF, empty line LF": ("P P P", _with().replace(b"\r\n\r\n", b"\r\n\n")),
        "blanks before the empty line": ("P P P", _with().replace(b"\r\n\r\n", b"\r\n \r\n\r\n")),
    },
    ("page", "Chromium: a line ends at CR, and the name counts"): {
        "CR, and two line ends": ("P P P", _with(end=b"\r").replace(b"\r\r", b"\r\n\r\n")),
        "length after CR": ("P F F", _framed(b"X-A: 1\r" + _LENGTH), "open"),
    },
    # --- the status line
    ("page", "Chromium"): {
        "lower case": ("P P P", _with(status=b"http/1.1 200 ok")),
        "tab before the code": ("P P P", _with(status=b"HTTP/1.1 \t200 OK")),
        "two blanks before the code": ("P P F", _with(status=b"HTTP/1.1  200 OK")),
        "no blank after the code": ("P P F", _with(status=b"HTTP/1.1 200OK")),
        "version 2": ("P P F", _with(status=b"HTTP/2 200")),
        "version 1.10": ("P F P", _with(status=b"HTTP/1.10 200 OK")),
        "version 1.2": ("P F P", _with(status=b"HTTP/1.2 200 OK")),
        "version 3.7": ("P F P", _with(status=b"HTTP/3.7 200 OK")),
        "version 0.9": ("P F P", _with(status=b"HTTP/0.9 200 OK")),
        "code 0200": ("P F P", _with(status=b"HTTP/1.1 0200 OK")),
        "HTTPS as the protocol": ("P F P", _with(status=b"HTTPS/1.1 200 OK")),
        "four bytes in front": ("P F P", b"abcd" + _with()),
        "byte order mark in front": ("P F P", b"\xef\xbb\xbf" + _with()),
        "version 1": ("P F F", _with(status=b"HTTP/1 200 OK")),
        "version 1.x": ("P F F", _with(status=b"HTTP/1.x 200 OK")),
        "no version": ("P F F", _with(status=b"HTTP 200 OK")),
        "blank in front": ("P F F", _with(status=b" HTTP/1.1 200 OK")),
        "line end in front": ("P F F", b"\r\n" + _with()),
        "two line ends in front": ("P F F", b"\r\n\r\n" + _with()),
        "tabs for blanks": ("P F F", _with(status=b"HTTP/1.1\t200\tOK")),
        "no blank after the version": ("P F F", _with(status=b"HTTP/1.1200 OK")),
        "no code": ("P F F", _with(status=b"HTTP/1.1 OK")),
        "version alone": ("P F F", _with(status=b"HTTP/1.1")),
        "101 in front": ("P S P", b"HTTP/1.1 101 S\r\nUpgrade: x\r\n\r\n" + _with()),
    },
    ("page", "RFC 9112, section 2.2: empty lines in front are skipped, a bounded number here"): {
        "six line ends in front": ("F F F", b"\r\n" * 6 + _with()),
    },
    ("fails", "RFC 9112, section 4: there is no status line"): {
        "HTTP/0.9": ("F F F", PAGE),
        "fields alone": ("F F F", _with().partition(b"\r\n")[2]),
        "code alone": ("F F F", _with(status=b"200 OK")),
        "field for the status": ("F F F", _with(status=b"Status: 200 OK")),
        "line of junk in front": ("F F F", b"a line of junk\r\n" + _with()),
    },
    ("fails", "exception: RFC 9112, section 4: this is another protocol"): {
        "ICY": ("o F F", _with(status=b"ICY 200 OK")),
    },
    ("404", "RFC 9110, section 15"): {
        "404 without a reason": ("S S S", _with(status=b"HTTP/1.1 404")),
        "404, no blank after the code": ("S S F", _with(status=b"HTTP/1.1 404Not Found")),
        "404 with a bad line": ("S S S", _with(b"garbage", status=_NONE)),
    },
    ("999", "RFC 9110, section 15, and some servers"): {
        "999": ("S S S", _with(status=b"HTTP/1.1 999 Denied")),
    },
    # --- the length
    ("page", "RFC 9112, section 6.3: equal lengths are one"): {
        "length twice": ("P P P", _with(_LENGTH)),
        "length twice in a line": ("P P P", _framed(_LENGTH + b", %d" % len(PAGE)), "open"),
        "length with zeros": ("P P P", _framed(_LENGTH.replace(b": ", b": 000")), "open"),
    },
    ("fails", "RFC 9112, section 6.3: a client must discard the answer"): {
        "lengths that differ": ("F P F", _with(b"Content-Length: 5")),
        "lengths that differ, the longer first": ("F p F", _framed(_LENGTH, b"Content-Length: 5")),
        "lengths that differ in a line": ("F P F", _framed(_LENGTH + b", 5")),
        "bad length and another": ("F F F", _with(_WORD)),
    },
    ("page", "RFC 9110, section 5.6.1: an element of a list that is empty is none"): {
        "empty length and another": ("F F F", _with(b"Content-Length:")),
    },
    ("page", "curl and Scrapy; the numbers are equal"): {
        "lengths that differ as text": ("F P P", _with(_LENGTH.replace(b": ", b": 0"))),
    },
    ("fails", "exception: RFC 9112, section 6.3: a client must discard what has a bad length"): {
        "length below 0": ("P F F", _framed(b"Content-Length: -1")),
        "length with a plus": ("P P F", _framed(_LENGTH.replace(b": ", b": +"))),
        "length that is a word": ("P F F", _framed(_WORD)),
        "length with letters": ("P P F", _framed(_LENGTH + b"abc")),
        "length with a semicolon": ("P P F", _framed(_LENGTH + b";")),
        "length in quotes": ("P F F", _framed(b'Content-Length: "%d"' % len(PAGE))),
        "length with a point": ("P P F", _framed(_LENGTH + b".0")),
        "length in hex": ("P e F", _framed(b"Content-Length: 0x%x" % len(PAGE))),
        "empty length": ("P F F", _framed(b"Content-Length:")),
        "length with a blank in it": ("P p F", _framed(b"Content-Length: 8 3")),
    },
    ("fails", "exception: RFC 9112, section 8: a body shorter than its length is incomplete"): {
        "length of 2**63": ("P P F", _framed(b"Content-Length: 9223372036854775808")),
        "length of 30 digits": ("P P F", _framed(b"Content-Length: " + b"9" * 30)),
    },
    # --- transfer codings
    ("page", "RFC 9112, section 6.3: chunked counts, and not the length"): {
        "chunks and the length": ("P P P", _framed(_LENGTH, _CHUNKED, body=_chunks())),
        "chunks and a short length": ("P P P", _framed(_CHUNKED, _SHORT, body=_chunks())),
        "chunks and a bad length": ("P F P", _framed(_CHUNKED, _WORD, body=_chunks())),
        "chunks and two lengths": ("P P P", _framed(_SHORT, _CHUNKED, _LENGTH, body=_chunks())),
    },
    ("page", "RFC 9112, section 7: coding names have no case"): {
        "CHUNKED": ("P P P", _framed(b"Transfer-Encoding:  CHUNKED ", body=_chunks())),
    },
    ("page", "Chromium undoes chunks once, if any name is chunked"): {
        "chunked in two lines": ("P P P", _framed(_CHUNKED, _CHUNKED, body=_chunks())),
        "chunked, chunked": ("P P F", _framed(_CHUNKED + b", chunked", body=_chunks())),
        "identity, chunked": ("P P F", _framed(_IDENTITY + b", chunked", body=_chunks())),
        "chunked, identity": ("P P F", _framed(_CHUNKED + b", identity", body=_chunks())),
        "chunked and a comma": ("P P F", _framed(_CHUNKED + b",", body=_chunks())),
        "gzip, chunked, and no gzip": ("P F F", _framed(_GZIPPED + b", chunked", body=_chunks())),
    },
    (
        "page*",
        "exception: RFC 9112, section 6.3: the connection's end is the body's, and it stays open",
    ): {
        "unknown one and the length": ("P F F", _with(b"Transfer-Encoding: foo"), "open"),
    },
    ("page", "Chromium: an unknown transfer coding is none"): {
        "identity and the length": ("P F F", _with(_IDENTITY), "open"),
        "identity": ("P P F", _framed(_IDENTITY)),
        "unknown transfer coding": ("P F F", _framed(b"Transfer-Encoding: foo")),
        "empty transfer coding": ("P P F", _framed(b"Transfer-Encoding:")),
    },
    ("page", "exception: RFC 9112, section 6.1; curl and Scrapy undo chunks in HTTP/1.0, too"): {
        "chunks with HTTP/1.0": ("o P P", _framed(_CHUNKED, body=_chunks(), status=_OLD)),
    },
    # --- chunks
    ("page", "RFC 9112, section 7.1, Chromium and curl"): {
        "zeros before a size": ("P P P", _chunked(b"0000%x")),
        "20 zeros before a size": ("P F P", _chunked(b"00000000000000000000%x")),
        "blanks after a size": ("P P F", _chunked(b"%x   ")),
        "extension": ("P P P", _chunked(b"%x;a=b")),
        "extension with blanks": ("P P F", _chunked(b'%x ; a = "b"')),
        "empty extension": ("P P P", _chunked(b"%x;")),
        "extension with a quote": ("P P P", _chunked(b'%x;a="b')),
        "long extension": ("P P F", _chunked(b"%x;" + b"e" * 3000)),
        "trailer": ("P P P", _chunked(last=b"0\r\nX-A: 1\r\n\r\n")),
        "junk after the last chunk": ("P P P", _chunked() + b"junk"),
    },
    ("page", "Chromium, curl or Scrapy"): {
        "length in the trailer": ("P P P", _chunked(last=b"0\r\nContent-Length: 5\r\n\r\n")),
        "bad line in the trailer": ("P F P", _chunked(last=b"0\r\njunk\r\n\r\n")),
        "LF after sizes": ("P P F", _chunked(b"%x\n")),
        "LF after sizes and data": ("P P F", _chunked(b"%x\n", after=b"\n", last=b"0\n\n")),
        "LF after the last chunk": ("P P F", _chunked(last=b"0\n\n")),
        "LF after the last chunk, kept open": ("P P F", _chunked(last=b"0\n\n"), "open"),
    },
    ("fails", "RFC 9112, section 7.1: this is no chunk"): {
        "blank before a size": ("F F F", _chunked(b" %x")),
        "0x before a size": ("F F F", _chunked(b"0x%x")),
        "minus before a size": ("F F F", _chunked(b"-%x")),
        "no line end after a chunk": ("F F F", _chunked(after=b"")),
        "two line ends after a chunk": ("F F F", _chunked(after=b"\r\n\r\n")),
        "huge size": ("F F F", _chunked(last=b"ffffffffffffffffff\r\nabc")),
        "chunked, and no chunks": ("F F F", _framed(_CHUNKED)),
    },
    ("fails", "RFC 9112, section 8: a body without its last chunk is incomplete"): {
        "no last chunk": ("F F F", _chunked(last=b"")),
        "no last chunk, RST": ("F F F", _chunked(last=b""), "rst"),
        "gzip, and no last chunk": ("F F F", _framed(_CHUNKED, _NAMED, body=_GZIP_CHUNK)),
    },
    ("page", "RFC 9112, section 8: a body is complete with its chunk of no bytes"): {
        "half of the last chunk": ("F F F", _chunked(last=b"0\r\n")),
    },
    # --- the end
    ("page", "RFC 9112, section 6.3"): {
        "bytes after the length": ("P P P", _with() + b"x" * 20),
        "length, left open": ("P P P", _with(), "open"),
        "chunks, left open": ("P P P", _chunked(), "open"),
        "length, RST": ("P P P", _with(), "rst"),
        "chunks, RST": ("P P P", _chunked(), "rst"),
        "until the end": ("P P P", _framed()),
        "until the end, keep-alive": ("P P P", _framed(b"Connection: keep-alive")),
    },
    ("fails", "RFC 9112, section 8: the body is incomplete"): {
        "shorter than the length": ("F F F", _framed(b"Content-Length: %d" % (len(PAGE) + 20))),
        "shorter by a byte": ("F F F", _framed(b"Content-Length: %d" % (len(PAGE) + 1))),
        "shorter, RST": ("F F F", _framed(b"Content-Length: %d" % (len(PAGE) + 20)), "rst"),
        "head alone": ("F F F", _framed(_LENGTH, body=b"")),
        "until the end, RST": ("F F P", _framed(), "rst"),
    },
    ("fails", "exception: RFC 9112, section 8: the head is incomplete"): {
        "head without its end": ("e F F", _head(_LENGTH)[:-2]),
        "head cut in a line": ("e F F", _head(_LENGTH)[:-9]),
        "status line alone": ("e e F", _OK + b"\r\n"),
    },
    ("fails", "RFC 9112, section 8: there is no answer"): {
        "nothing": ("F F F", b""),
        "interim answer alone": ("F S F", b"HTTP/1.1 100 Continue\r\n\r\n"),
    },
    ("empty", "RFC 9110, section 15.3: a success without content"): {
        "length 0": ("e e e", _framed(b"Content-Length: 0", body=b"")),
        "nothing until the end": ("e e e", _framed(body=b"")),
        "gzip of nothing": ("e e e", _coded(b"gzip", b"")),
    },
    ("empty", "RFC 9110, section 15.3.5: there is no body"): {
        "204 with a body": ("e e e", _with(status=b"HTTP/1.1 204 No Content")),
    },
    ("404", "the head decides: its status counts, however the body ends"): {
        "404, shorter than its length": ("S S F", _framed(_SHORT, body=b"1", status=_NONE)),
        "404 without the last chunk": ("S S F", _framed(_CHUNKED, body=b"1\r\nx", status=_NONE)),
        "404 with bad chunks": ("S S F", _framed(_CHUNKED, body=b"hello\r\n", status=_NONE)),
        "404, left open": ("S S F", _framed(status=_NONE), "open"),
        "404 with cut gzip": ("S S F", _coded(b"gzip", _GZIP[:20], _NONE)),
        "404, RST": ("S S F", _framed(_SHORT, body=b"1", status=_NONE), "rst"),
    },
    ("fails", "RFC 9112, section 6.3: it must be discarded, whatever its status"): {
        "404 with a bad length": ("S S F", _framed(b"Content-Length: -1", status=_NONE)),
    },
    # --- content codings
    ("page", "RFC 9110, section 8.4.1"): {
        "gzip": ("P P P", _coded(b"gzip", _GZIP)),
        "x-gzip": ("P P P", _coded(b"x-gzip", _GZIP)),
        "GZIP": ("P P P", _coded(b"GZIP", _GZIP)),
        "deflate": ("P P P", _coded(b"deflate", _ZLIB)),
        "raw deflate": ("P P P", _coded(b"deflate", _RAW)),
        "br": ("P P P", _coded(b"br", _BROTLI)),
        "zstd": ("P P P", _coded(b"zstd", _ZSTD)),
        "gzip, br": ("P P P", _coded(b"gzip, br", brotli.compress(_GZIP))),
        "identity as content coding": ("P P P", _coded(b"identity", PAGE)),
        "zstd in two frames": ("P P P", _coded(b"zstd", _TWO_FRAMES)),
    },
    ("page", "exception: RFC 1952, section 2.2, and Scrapy: members follow each other"): {
        "gzip in two members": ("p F P", _coded(b"gzip", _pack(_START) + _pack(_REST))),
        "gzip after an empty member": ("e F P", _coded(b"gzip", _pack(b"") + _GZIP)),
    },
    ("page", "exception: RFC 9110, section 8.4, curl and Scrapy: identity codes nothing"): {
        "identity, gzip": ("o P P", _coded(b"identity, gzip", _GZIP)),
    },
    ("page", "Chromium: more codings than curl"): {
        "five codings": ("P P P", _coded(b", ".join([b"gzip"] * 5), _packed(5))),
    },
    ("page", "Chromium: what is decoded to its end is whole"): {
        "gzip without its trailer": ("P P P", _coded(b"gzip", _GZIP[:-8])),
        "gzip with half its trailer": ("P P P", _coded(b"gzip", _GZIP[:-4])),
        "gzip, wrong checksum": ("P F P", _coded(b"gzip", _GZIP[:-8] + b"abcd" + _GZIP[-4:])),
        "gzip, wrong size": ("P F P", _coded(b"gzip", _GZIP[:-4] + b"abcd")),
        "gzip and junk": ("P F P", _coded(b"gzip", _GZIP + b"junk junk")),
        "gzip and zeros": ("P F P", _coded(b"gzip", _GZIP + bytes(20))),
        "gzip and the start of another": ("P F P", _coded(b"gzip", _GZIP + b"\x1f\x8bjunk")),
        "deflate without its checksum": ("P P P", _coded(b"deflate", _ZLIB[:-4])),
        "deflate and junk": ("P F P", _coded(b"deflate", _ZLIB + b"junk")),
        "raw deflate and junk": ("F P P", _coded(b"deflate", _RAW + b"junk")),
        "br and junk": ("P F F", _coded(b"br", _BROTLI + b"junk")),
        "gzip with the length of the page": ("P F F", _framed(_NAMED, _LENGTH, body=_GZIP)),
    },
    ("page*", "the checksum is wrong: Chromium and Scrapy fail, curl after the page"): {
        "deflate, wrong checksum": ("F F F", _coded(b"deflate", _ZLIB[:-4] + b"abcd")),
        "zstd and junk": ("F F F", _coded(b"zstd", _ZSTD + b"junk")),
    },
    ("page", "Chromium and Scrapy: what is not coded is shown"): {
        "unknown coding": ("P F P", _coded(b"foo", PAGE)),
        "compress": ("P F P", _coded(b"x-compress", PAGE)),
        "none": ("P P P", _coded(b"none", PAGE)),
        "utf-8": ("P F P", _coded(b"utf-8", PAGE)),
        "empty coding": ("P P P", _coded(b"", PAGE)),
    },
    ("page*", "all fail; the page is there all the same"): {
        "gzip, not applied": ("F F F", _coded(b"gzip", PAGE)),
        "deflate, not applied": ("F F F", _coded(b"deflate", PAGE)),
        "br, not applied": ("F F F", _coded(b"br", PAGE)),
        "zstd, not applied": ("F F F", _coded(b"zstd", PAGE)),
        "gzip, gzip, applied once": ("F F F", _coded(b"gzip, gzip", _GZIP)),
    },
    ("part", "Chromium, curl and Scrapy show what there is; here it is marked"): {
        "gzip cut": ("p p p", _coded(b"gzip", _GZIP[:60])),
        "deflate cut": ("p p p", _coded(b"deflate", _ZLIB[:60])),
        "br cut": ("p p p", _coded(b"br", _BROTLI[:-3])),
        "second member of gzip cut": ("p F p", _coded(b"gzip", _pack(_START) + _pack(_REST)[:30])),
    },
}


def _frozen():
    rows = []
    for (crawler, source), answers in _TABLE.items():
        for name, (letters, data, *ending) in answers.items():
            answer = Answer((data,), *ending)
            rows.append(Frozen(name, answer, tuple(letters.split()), crawler, source))
    assert len({row.name for row in rows}) == len(rows)
    return rows


FROZEN: Final = _frozen()
