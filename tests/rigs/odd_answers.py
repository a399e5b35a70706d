"""Answers of servers that are slightly or badly wrong, made from numbers.

One number makes one `Case`, always the same. A case has one mutation, sometimes two, of a sound
answer. The name of a mutation begins with its family: head, framing, ending or coding.
"""

from __future__ import annotations

import gzip
import itertools
import random
import zlib
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import brotli
from odd_server import Answer

from webcrawl.net.http.decoding import zstd

if TYPE_CHECKING:
    from collections.abc import Callable

FAMILIES: Final = ("head", "framing", "ending", "coding")
#: The share of cases with a second mutation, of another family.
_TWO = 0.15


class Case(NamedTuple):
    """One answer, and how it was made.

    kinds: the names of its mutations. document: the page that the answer is about.
    """

    number: int
    kinds: tuple[str, ...]
    document: bytes
    answer: Answer

    @property
    def family(self):
        """The family of its first mutation."""
        return self.kinds[0].partition(":")[0]


@dataclass
class Draft:
    """An answer in the making, which mutations change.

    before: bytes before the status line. lines: of the head, without those of the framing.
    framing: lines that say where the body ends. codings: the value of Content-Encoding, if any.
    body: coded. wire: the framed body; None as long as nothing has framed it. head_end: the empty
    line, if it differs from the other line ends. cut: makes the bytes that are sent of all bytes
    and of the length of the head.
    """

    rng: random.Random
    document: bytes
    body: bytes
    status: bytes = b"HTTP/1.1 200 OK"
    before: bytes = b""
    lines: list[bytes] = field(default_factory=lambda: [b"Content-Type: text/html"])
    framing: list[bytes] = field(default_factory=list)
    codings: bytes | None = None
    wire: bytes | None = None
    line_ends: tuple[bytes, ...] = (b"\r\n",)
    head_end: bytes | None = None
    ending: str = "fin"
    change_head: Callable[[bytes], bytes] = bytes
    cut: Callable[[bytes, int], bytes] = lambda data, _: data
    split: Callable[[bytes], tuple[bytes, ...]] = lambda data: (data,)

    def add(self, *lines):
        """Put *lines* somewhere in the head, next to each other."""
        place = self.rng.randint(0, len(self.lines))
        self.lines[place:place] = lines

    def by_length(self, template=b"Content-Length: %d", length=None):
        """Frame the body by its length, or what *template* makes of it."""
        length = len(self.body) if length is None else length
        count = template.count(b"%") - 2 * template.count(b"%%")
        self.framing += (template % ((length,) * count)).split(b"\n")
        self.wire = self.body

    def by_chunks(
        self,
        *,
        field=b"Transfer-Encoding: chunked",
        size=b"%x".__mod__,
        end=b"\r\n",
        after=None,
        last=None,
    ):
        """Frame the body by chunks.

        *end* follows a size, *after* the data of a chunk, *last* ends the body.
        """
        if field is not None:
            self.framing.append(field)
        after = end if after is None else after
        parts = [b"%b%b%b%b" % (size(len(p)), end, p, after) for p in self.pieces()]
        self.wire = b"".join(parts) + (size(0) + end + end if last is None else last)

    def pieces(self):
        """Cut the body into one to four pieces that are not empty."""
        count = min(self.rng.randint(1, 4), len(self.body))
        places = sorted(self.rng.sample(range(1, max(2, len(self.body))), max(0, count - 1)))
        bounds = [0, *places, len(self.body)]
        pieces = [self.body[a:b] for a, b in itertools.pairwise(bounds)]
        return [piece for piece in pieces if piece]

    def code(self, *names, named=None):
        """Apply the codings *names* and say so, or say *named*."""
        for name in names:
            self.body = PACK[name](self.body)
        self.codings = b", ".join(names) if named is None else named

    def answer(self):
        """Put all parts together."""
        if self.wire is None:
            _frame(self)
        assert self.wire is not None
        coding = [] if self.codings is None else [b"Content-Encoding: " + self.codings]
        lines = [self.status, *_shuffled(self.rng, self.lines, [*self.framing, *coding])]
        head = b"".join(line + self.rng.choice(self.line_ends) for line in lines)
        head += self.rng.choice(self.line_ends) if self.head_end is None else self.head_end
        head = self.change_head(self.before + head)
        return Answer(self.split(self.cut(head + self.wire, len(head))), self.ending)


def case(number):
    """Return the case of *number*."""
    rng = random.Random(number)
    kinds = [_KINDS[number % len(_KINDS)]]
    if rng.random() < _TWO:
        others = [kind for kind in _KINDS if kind.partition(":")[0] != kinds[0].partition(":")[0]]
        kinds.append(rng.choice(others))
    document = _document(rng, number)
    draft = Draft(rng, document, document)
    draft.status = _sound_status(rng)
    for family in ("coding", "framing", "head", "ending"):  # as one is built upon the other
        mine = [kind for kind in kinds if kind.startswith(family)]
        for kind in mine:
            MUTATIONS[kind](draft)
        if family == "coding" and not mine and rng.random() < 0.3:
            draft.code(rng.choice((b"gzip", b"deflate", b"br", b"zstd")))
    return Case(number, tuple(kinds), document, draft.answer())


def _document(rng, number):
    page = b'<!DOCTYPE html><title>%d</title><p>Page with a <a href="/next">link</a>.' % number
    words = [b"crawl", b"page", b"link", b"host", b"\xc3\xa9t\xc3\xa9", b"seven", b"<p>"]
    more = rng.choice((0, 0, 30, 500, 5000))
    return page + b" ".join(rng.choices(words, k=more))


def _sound_status(rng):
    """Return a sound status line, most often that of a document."""
    statuses = (200, 201, 202, 203, 206, 404, 410, 429, 500, 503)
    status = rng.choices(statuses, (90, 1, 1, 2, 2, 4, 1, 1, 1, 2))[0]
    return b"HTTP/1.1 %d Some Reason" % status if status != 200 else b"HTTP/1.1 200 OK"


def _frame(draft):
    """Frame the body in a sound way."""
    way = draft.rng.choice(("length", "length", "chunks", "close"))
    if way == "length" or draft.ending == "open":
        draft.by_length()
    elif way == "chunks":
        draft.by_chunks()
    else:
        draft.wire = draft.body


def _shuffled(rng, lines, more):
    """Put each of *more*, in this order, into *lines*, which stay in theirs."""
    places = sorted(rng.randint(0, len(lines)) for _ in more)
    result = [*lines]
    for count, (place, line) in enumerate(zip(places, more, strict=True)):
        result.insert(place + count, line)
    return result


# --- codings ---------------------------------------------------------------------------------


def raw_deflate(data):
    """Pack as many servers do that announce deflate: without the header of zlib."""
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACK: Final[dict[bytes, Callable[[bytes], bytes]]] = {
    b"gzip": partial(gzip.compress, mtime=0),
    b"x-gzip": partial(gzip.compress, mtime=0),
    b"deflate": zlib.compress,
    b"raw deflate": raw_deflate,
    b"br": partial(brotli.compress, quality=5),
    b"zstd": zstd.compress,
}
_NAMED: Final = (b"gzip", b"deflate", b"br", b"zstd")


MUTATIONS: dict[str, Callable[[Draft], None]] = {}


def _mutation(name):
    def add(mutate):
        assert name not in MUTATIONS
        MUTATIONS[name] = mutate
        return mutate

    return add


def _one_of(name, mutate, *choices):
    """A mutation by one of *choices*."""
    _mutation(name)(lambda draft: mutate(draft, draft.rng.choice(choices)))


# --- the head: its lines ---------------------------------------------------------------------


def _add(draft, line):
    draft.add(line)


for _kind, _lines in {
    "line without colon": (
        b"garbage line", b"X-XSS-Protection=1;", b"<meta charset=utf-8>", b"HTTP/1.1 200 OK",
        b"Set-Cookie a=b", b"-", b"Content-Length", b"\xe9\xff", b'P3P CP="NOI"', b"//",
    ),
    "quoted line": (b'"X-XSS-Protection: 0"', b"'X-A: 1'", b'"X-A": 1'),
    "space before colon": (b"X-A : 1", b"X-A\t: 1", b"X-A  \t : 1", b"X-A :1"),
    "empty name": (b": x", b":", b":: x"),
    "name that is not a token": (
        b"X A: 1", b"(X): 1", b"X\xe9: 1", b"X\x01: 1", b"X@Y: 1", b"{X}: 1", b"X/Y: 1", b"X=Y: 1",
        b"[X]: 1", b"X;Y: 1", b"X\x7f: 1", b"X,Y: 1", b"Date Mon, 1 Jan: 12:00:00",
    ),
    "odd name": (b"X_A: 1", b"!#$%&'*+-.^_`|~: 1", b"1: 2", b"http://x/: 1", b"X-A:: 1"),
    "odd value": (
        b"X-A: a\x01b", b"X-A: \xe9\xff", b"X-A: \x7f", b"X-A:\t\ta", b"X-A:", b"X-A: \x1b[0m",
        b"X-A:a", b"X-A: \x0b\x0c", b"X-A:    ", b"X-A: \xe2\x80\xa8",
    ),
    "NUL": (b"X-A: a\0b", b"X\0A: 1", b"\0", b"X-A: 1\0", b"\0X-A: 1"),
    "fold": (b"X-A: a\r\n b", b"X-A: a\r\n\tb", b"X-A:\r\n b\r\n c", b"X-A: a\r\n    \r\n b"),
    "fold of a dropped line": (b"garbage\r\n b", b"X A: 1\r\n b: 2", b": x\r\n\tb"),
    "blank before name": (b" X-A: 1", b"\tX-A: 1", b"  X-A: 1"),
    "line of blanks": (b" ", b"\t", b"    \t "),
    "CR in a line": (b"X-A: 1\rX-B: 2", b"X-A: 1\r\rX-B: 2", b"\rX-A: 1", b"X-A: 1\r X-B: 2"),
    "CR CR LF after a line": (b"X-A: 1\r",),
    "conflicting fields": (
        b"Content-Type: text/plain", b"Server: a\r\nServer: b", b"ETag: a\r\nETag: b",
        b"Content-Type:", b"Connection: close\r\nConnection: keep-alive", b"Date: x\r\nDate: y",
    ),
    "field of other messages": (
        b"Host: a.test", b"GET / HTTP/1.1", b"Upgrade: h2c", b"Connection: upgrade, h2c",
        b"Upgrade: websocket\r\nConnection: Upgrade", b"Trailer: X", b"TE: chunked",
        b"Keep-Alive: timeout=5", b"Proxy-Connection: keep-alive", b"Expect: 100-continue",
    ),
}.items():  # fmt: skip
    _one_of(f"head: {_kind}", _add, *_lines)


@_mutation("head: fold after the status line")
def _(draft):
    draft.status += draft.rng.choice((b"\r\n folded", b"\r\n\tX-A: 1", b"\r\n "))


@_mutation("head: line after the status line")
def _(draft):
    lines = (b"garbage", b"OK", b"HTTP/1.1 200 OK", b"Status 200", b"X A: 1", b": x")
    draft.status += b"\r\n" + draft.rng.choice(lines)


@_mutation("head: long line")
def _(draft):
    draft.add(b"X-Long: " + b"a" * draft.rng.randint(4000, 60_000))


@_mutation("head: line of 140 kB")
def _(draft):
    draft.add(b"X-Long: " + b"a" * 140_000)


@_mutation("head: line of 300 kB")
def _(draft):
    draft.add(b"X-Long: " + b"a" * 300_000)


@_mutation("head: many fields")
def _(draft):
    draft.add(*(b"X-%d: 1" % n for n in range(draft.rng.randint(100, 240))))


@_mutation("head: more than 256 fields")
def _(draft):
    draft.add(*(b"X-%d: 1" % n for n in range(draft.rng.randint(260, 600))))


def _name(framing):
    """Change the name of the fields of framing and coding, whose value counts."""

    def mutate(draft):
        if draft.wire is None:
            draft.rng.choice((draft.by_length, draft.by_chunks))()
        draft.framing = [line.replace(b":", framing, 1) for line in draft.framing]

    return mutate


_mutation("head: space before the colon of the framing")(_name(b" :"))
_mutation("head: tab before the colon of the framing")(_name(b"\t:"))
_mutation("head: fold in the framing")(_name(b":\r\n"))
_mutation("head: blanks around the framing")(_name(b": \t  "))


@_mutation("head: names in another case")
def _(draft):
    change = draft.rng.choice((bytes.lower, bytes.upper, bytes.swapcase))
    draft.change_head = lambda head: b"\r\n".join(
        [(status := head.split(b"\r\n"))[0]]
        + [
            b":".join([change(line.partition(b":")[0]), line.partition(b":")[2]]) if line else line
            for line in status[1:]
        ]
    )


# --- the head: its line ends -----------------------------------------------------------------


def _line_ends(*ends, head_end=None):
    def mutate(draft):
        draft.line_ends, draft.head_end = ends, head_end

    return mutate


for _kind, _mutate in {
    "LF": _line_ends(b"\n"),
    "LF and CRLF": _line_ends(b"\n", b"\r\n"),
    "LF, empty line CRLF": _line_ends(b"\n", head_end=b"\r\n"),
    "CRLF, empty line LF": _line_ends(b"\r\n", head_end=b"\n"),
    "CR CR LF": _line_ends(b"\r\r\n"),
    "CR CR LF, empty line CRLF": _line_ends(b"\r\r\n", head_end=b"\r\n"),
    "CRLF, empty line CR CR LF": _line_ends(b"\r\n", head_end=b"\r\r\n"),
    "CR": _line_ends(b"\r"),
    "CR, end CRLF CRLF": _line_ends(b"\r", head_end=b"\r\n\r\n"),
    "LF CR": _line_ends(b"\n\r"),
    "all kinds": _line_ends(b"\n", b"\r\n", b"\r\r\n", b"\r", head_end=b"\r\n\r\n"),
    "blank in the empty line": _line_ends(b"\r\n", head_end=b" \r\n\r\n"),
}.items():
    _mutation(f"head: line ends {_kind}")(_mutate)


# --- the head: its status line, and what comes before ----------------------------------------


def _status(draft, status):
    draft.status = status


for _kind, _lines in {
    "no reason": (b"HTTP/1.1 200", b"HTTP/1.1 200 ", b"HTTP/1.1 404", b"HTTP/1.0 200"),
    "version 1.0": (b"HTTP/1.0 200 OK", b"HTTP/1.0 404 Not Found"),
    "other case": (b"http/1.1 200 ok", b"Http/1.1 200 OK", b"hTTP/1.1 200 OK"),
    "blanks": (b"HTTP/1.1  200 OK", b"HTTP/1.1   200   OK", b"HTTP/1.1 200  "),
    "tabs": (b"HTTP/1.1\t200\tOK", b"HTTP/1.1 200\tOK", b"HTTP/1.1 \t200 OK"),
    "odd reason": (
        b"HTTP/1.1 200 \xe9\xff", b"HTTP/1.1 200 OK\x01", b"HTTP/1.1 200 HTTP/1.1 200 OK",
        b"HTTP/1.1 200 " + b"a" * 3000, b"HTTP/1.1 200 OK:", b"HTTP/1.1 200 \x1b",
    ),
    "junk after the code": (b"HTTP/1.1 200OK", b"HTTP/1.1 200.5 OK", b"HTTP/1.1 200,OK",
                            b"HTTP/1.1 404Not Found", b"HTTP/1.1 200; OK"),
    "no blank after the version": (b"HTTP/1.1200 OK", b"HTTP/1.1200", b"HTTP/1.1404 Not Found"),
    "odd version 1": (b"HTTP/1.10 200 OK", b"HTTP/01.1 200 OK", b"HTTP/1.2 200 OK",
                      b"HTTP/1 200 OK", b"HTTP/1.x 200 OK", b"HTTP/1.1.1 200 OK",
                      b"HTTP/1,1 200 OK", b"HTTP/1. 200 OK"),
    "no version": (b"HTTP 200 OK", b"HTTP/ 200 OK", b"HTTP/x 200 OK"),
    "version 2 and above": (b"HTTP/2 200", b"HTTP/2 200 OK", b"HTTP/2.0 200 OK", b"HTTP/3 200",
                            b"HTTP/3.7 200 OK", b"HTTP/9.9 200 OK", b"HTTP/10.0 200 OK"),
    "version below 1": (b"HTTP/0.9 200 OK", b"HTTP/0.0 200 OK"),
    "blank in the version": (b"HTTP/ 1.1 200 OK", b"HTTP /1.1 200 OK"),
    "other protocol": (b"ICY 200 OK", b"RTSP/1.0 200 OK", b"SIP/2.0 200 OK", b"SSH-2.0-x",
                       b"220 ftp.a.test ready", b"+OK ready", b"200 OK", b"Status: 200 OK",
                       b"GET / HTTP/1.1"),
    "HTTPS as protocol": (b"HTTPS/1.1 200 OK", b"SHTTP/1.1 200 OK"),
    "no code": (b"HTTP/1.1 OK", b"HTTP/1.1", b"HTTP/1.1 ", b"HTTP/1.1 Not Found",
                b"HTTP/1.1 OK 200"),
    "code with a sign": (b"HTTP/1.1 -200 OK", b"HTTP/1.1 +200 OK"),
    "code of another length": (b"HTTP/1.1 20 OK", b"HTTP/1.1 2 OK", b"HTTP/1.1 2000 OK",
                               b"HTTP/1.1 0200 OK", b"HTTP/1.1 00404 Not Found"),
    "code out of range": (b"HTTP/1.1 099 OK", b"HTTP/1.1 000 OK", b"HTTP/1.1 600 OK",
                          b"HTTP/1.1 999 Denied"),
    "code with letters": (b"HTTP/1.1 2xx OK", b"HTTP/1.1 x200 OK", b"HTTP/1.1 two OK"),
    "none": (b"<html><p>no head", b"", b"X-A: 1", b"Content-Type: text/html"),
}.items():  # fmt: skip
    _one_of(f"head: status line, {_kind}", _status, *_lines)


def _before(draft, data):
    draft.before = data


for _kind, _lines in {
    "1 or 2 empty lines": (b"\r\n", b"\n", b"\r\n\r\n", b"\n\n"),
    "3 to 10 empty lines": (b"\r\n" * 3, b"\n" * 6, b"\r\n" * 10, b"\n" * 10),
    "1 to 4 bytes": (b"x", b"abcd", b"\xef\xbb\xbf", b"    ", b"\x01\x02", b"x\r\n", b"\t"),
    "5 bytes and more": (b"abcde", b"     ", b"some junk", b"junk\r\n", b"a line of junk\r\n"),
    "NUL": (b"\0", b"\0\0\0\0"),
    "100": (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100\r\n\r\n", b"HTTP/1.1 100 C\n\n"),
    "103": (b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n",),
    "several interim answers": (
        b"HTTP/1.1 102 Processing\r\n\r\n" * 5,
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n",
    ),
    "interim answer with a bad line": (
        b"HTTP/1.1 100 Continue\r\ngarbage\r\n\r\n", b"HTTP/1.1 103 E\r\nX-A : 1\r\n\r\n",
        b"http/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n: x\r\n\r\n",
    ),
    "interim answer with a length": (b"HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n",
                                     b"HTTP/1.1 103 E\r\nContent-Length: 7\r\n\r\n"),
    "interim answer with a body": (b"HTTP/1.1 100 Continue\r\nContent-Length: 2\r\n\r\nab",),
    "interim answer without empty line": (b"HTTP/1.1 100 Continue\r\n",),
    "101": (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",),
    "another head": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",),
}.items():  # fmt: skip
    _one_of(f"head: before it, {_kind}", _before, *_lines)


# --- the head: noise -------------------------------------------------------------------------


def _noise(change):
    def mutate(draft):
        def change_head(head):
            for _ in range(draft.rng.randint(1, 2)):
                head = change(draft.rng, head, draft.rng.randrange(len(head)))
            return head

        draft.change_head = change_head

    return mutate


def _byte(rng):
    return rng.choice([b"\r", b"\n", b":", b" ", b"\t", b"\0", b";", b",", b'"', rng.randbytes(1)])


_mutation("head: byte inserted")(_noise(lambda rng, head, at: head[:at] + _byte(rng) + head[at:]))
_mutation("head: byte changed")(
    _noise(lambda rng, head, at: head[:at] + _byte(rng) + head[at + 1 :])
)
_mutation("head: byte deleted")(_noise(lambda rng, head, at: head[:at] + head[at + 1 :]))
_mutation("head: piece repeated")(
    _noise(lambda rng, head, at: head[:at] + head[at : at + rng.randint(1, 30)] + head[at:])
)
_mutation("head: piece deleted")(
    _noise(lambda rng, head, at: head[:at] + head[at + rng.randint(2, 20) :])
)


# --- the framing -----------------------------------------------------------------------------


for _kind, _lines in {
    "length twice": (b"Content-Length: %d\nContent-Length: %d", b"Content-Length: %d, %d",
                     b"Content-Length: %d,%d\nContent-Length: %d"),
    "lengths that differ": (b"Content-Length: %d\nContent-Length: 5", b"Content-Length: 5, %d",
                            b"Content-Length: 5\nContent-Length: %d", b"Content-Length: %d, 5"),
    "lengths that differ as text": (b"Content-Length: %d\nContent-Length: 0%d",
                                    b"Content-Length: 00%d, %d"),
    "length with zeros": (b"Content-Length: 0%d", b"Content-Length: 0000%d"),
    "length with blanks": (b"Content-Length:%d", b"Content-Length:  \t%d  ",
                           b"Content-Length:\t%d"),
    "length with plus": (b"Content-Length: +%d",),
    "length below 0": (b"Content-Length: -%d", b"Content-Length: -1"),
    "length that is no number": (b"Content-Length: many", b"Content-Length: null",
                                 b"Content-Length: -", b"Content-Length: NaN"),
    "length with junk": (b"Content-Length: %d;", b"Content-Length: %dabc", b"Content-Length: %d.0",
                         b'Content-Length: "%d"', b"Content-Length: %d bytes",
                         b"Content-Length: 8 3"),
    "length in hex": (b"Content-Length: 0x%x",),
    "length empty": (b"Content-Length:", b"Content-Length: "),
    "length bad and right": (b"Content-Length: many\nContent-Length: %d",
                             b"Content-Length:\nContent-Length: %d", b"Content-Length: %d,"),
    "length too large": (b"Content-Length: 9223372036854775808", b"Content-Length: 1" + b"0" * 30,
                         b"Content-Length: 18446744073709551615"),
    "length 0": (b"Content-Length: 0",),
}.items():  # fmt: skip
    _one_of(f"framing: {_kind}", Draft.by_length, *_lines)


@_mutation("framing: body longer than its length")
def _(draft):
    draft.by_length(length=draft.rng.randrange(len(draft.body) + 1))


@_mutation("framing: junk after the length")
def _(draft):
    draft.by_length()
    assert draft.wire is not None
    draft.wire += draft.rng.choice((b"\r\n", b"junk", b"HTTP/1.1 200 OK\r\n\r\n", b"\0" * 30))


@_mutation("framing: body shorter than its length")
def _(draft):
    draft.by_length(length=len(draft.body) + draft.rng.choice((1, 2, 5, 100, 100_000)))


@_mutation("framing: until the end of the connection")
def _(draft):
    draft.wire = draft.body
    lines = (b"", b"Connection: close", b"Connection: keep-alive", b"Connection: x")
    draft.framing += filter(None, [draft.rng.choice(lines)])


def _with_chunks(draft, template):
    draft.by_length(template)
    draft.by_chunks(field=None)


for _kind, _lines in {
    "chunks and the length": (b"Content-Length: %d\nTransfer-Encoding: chunked",
                              b"Transfer-Encoding: chunked\nContent-Length: %d"),
    "chunks and a wrong length": (b"Content-Length: 5\nTransfer-Encoding: chunked",
                                  b"Transfer-Encoding: chunked\nContent-Length: 100000",
                                  b"Transfer-Encoding: chunked\nContent-Length: 0"),
    "chunks and a bad length": (b"Content-Length: many\nTransfer-Encoding: chunked",
                                b"Transfer-Encoding: chunked\nContent-Length: -1",
                                b"Transfer-Encoding: chunked\nContent-Length:"),
    "chunks and several lengths": (
        b"Content-Length: 1\nTransfer-Encoding: chunked\nContent-Length: 2",
        b"Transfer-Encoding: chunked\nContent-Length: 1, 2",
    ),
    "chunked in other words": (b"Transfer-Encoding: Chunked", b"Transfer-Encoding: CHUNKED",
                               b"Transfer-Encoding:chunked", b"Transfer-Encoding: \tchunked  ",
                               b"transfer-encoding: chunked"),
    "chunked twice": (b"Transfer-Encoding: chunked\nTransfer-Encoding: chunked",
                      b"Transfer-Encoding: chunked, chunked"),
    "chunked in a list": (b"Transfer-Encoding: identity, chunked", b"Transfer-Encoding: ,chunked",
                          b"Transfer-Encoding: identity\nTransfer-Encoding: chunked",
                          b"Transfer-Encoding: chunked,"),
    "chunked first of a list": (b"Transfer-Encoding: chunked, identity",
                                b"Transfer-Encoding: chunked\nTransfer-Encoding: identity"),
    "chunked misspelled": (b"Transfer-Encoding: xchunked", b'Transfer-Encoding: "chunked"',
                           b"Transfer-Encoding: chunked;q=1", b"Transfer-Encoding: chunk",
                           b"Transfer-Encoding: chunked chunked",
                           b"Transfer-Encoding: \x0bchunked"),
    "gzip, chunked, and no gzip": (b"Transfer-Encoding: gzip, chunked",),
}.items():  # fmt: skip
    _one_of(f"framing: {_kind}", _with_chunks, *_lines)
for _kind, _lines in {
    "chunked, and no chunks": (b"Transfer-Encoding: chunked",
                               b"Transfer-Encoding: chunked\nContent-Length: %d"),
    "identity": (b"Transfer-Encoding: identity",
                 b"Transfer-Encoding: identity\nContent-Length: %d"),
    "unknown transfer coding": (b"Transfer-Encoding: foo", b"Transfer-Encoding:",
                                b"Transfer-Encoding: binary", b"Transfer-Encoding: 8bit"),
    "unknown transfer coding and the length": (
        b"Transfer-Encoding: foo\nContent-Length: %d", b"Content-Length: %d\nTransfer-Encoding:",
        b"Transfer-Encoding: binary\nContent-Length: %d",
    ),
}.items():  # fmt: skip
    _one_of(f"framing: {_kind}", Draft.by_length, *_lines)


@_mutation("framing: transfer coding gzip")
def _(draft):
    draft.body = PACK[b"gzip"](draft.body)
    if draft.rng.random() < 0.5:
        draft.by_chunks(field=b"Transfer-Encoding: gzip, chunked")
    else:
        draft.framing.append(b"Transfer-Encoding: gzip")
        draft.wire = draft.body


@_mutation("framing: chunks with HTTP/1.0")
def _(draft):
    draft.status = draft.status.replace(b"1.1", b"1.0")
    draft.by_chunks()


def _sizes(name, *templates):
    """Mutate each size of a chunk by one of *templates*."""
    _mutation(f"framing: {name}")(
        lambda draft: draft.by_chunks(size=draft.rng.choice(templates).__mod__)
    )


_sizes("blanks after a size", b"%x ", b"%x   ")
_sizes("tab after a size", b"%x\t")
_sizes("blank before a size", b" %x", b"\t%x")
_sizes("size with zeros", b"0%x", b"0000%x")
_sizes("size with 20 zeros", b"00000000000000000000%x")
_sizes("size in capitals", b"%X")
_sizes("size with 0x", b"0x%x")
_sizes("size with a sign", b"+%x", b"-%x")
_sizes("size with an extension", b"%x;a", b"%x;a=b", b'%x;a="b c"', b"%x;a=b;c")
_sizes("size with an extension and blanks", b"%x ;a", b'%x ; a = "b"', b"%x; a=b")
_sizes("size with an empty extension", b"%x;", b"%x ;", b"%x;;")
_sizes("size with an odd extension", b"%x;\xe9", b"%x;=b", b'%x;a="b', b"%x;(b)")
_sizes("size with a long extension", b"%x;" + b"e" * 3000)
_sizes("size with a word", b"%x a", b"%xg", b"%x,1", b"%x:")


def _chunks(name, **options):
    _mutation(f"framing: {name}")(lambda draft: draft.by_chunks(**options))  # type: ignore[arg-type]


_chunks("chunks with LF", end=b"\n")
_chunks("chunks with LF after sizes", end=b"\n", after=b"\r\n")
_chunks("chunks with LF after data", after=b"\n")
_chunks("chunks with CR CR LF", end=b"\r\r\n")
_chunks("chunks with CR", end=b"\r")
_chunks("no line end after a chunk", after=b"")
_chunks("two line ends after a chunk", after=b"\r\n\r\n")
_chunks("junk after a chunk", after=b"xx\r\n")
_chunks("no last chunk", last=b"")
_chunks("no end of the last chunk", last=b"0\r\n")
_chunks("half the end of the last chunk", last=b"0\r\n\r")
_chunks("only a zero as last chunk", last=b"0")
_chunks("LF after the last chunk", last=b"0\n\n")
_chunks("trailer", last=b"0\r\nX-Trailer: 1\r\nContent-Length: 5\r\n\r\n")
_chunks("trailer with bad lines", last=b"0\r\njunk\r\nX A: 1\r\n\r\n")
_chunks("trailer that is cut", last=b"0\r\nX-Trailer: 1\r\n")
_chunks("junk after the last chunk", last=b"0\r\n\r\njunk\r\n")
_chunks("second answer after the last chunk", last=b"0\r\n\r\nHTTP/1.1 200 OK\r\n\r\nx")
_chunks("zeros as last chunk", last=b"000\r\n\r\n")
_chunks("bad size after some chunks", last=b"xyz\r\nabc\r\n0\r\n\r\n")
_chunks("huge size after some chunks", last=b"ffffffffffffffffff\r\nabc")
_chunks("size beyond the end after some chunks", last=b"7fffffff\r\nabc")


@_mutation("framing: sizes that are wrong by a few")
def _(draft):
    wrong = draft.rng.choice((-2, -1, 1, 2))
    draft.by_chunks(size=lambda n: b"%x" % max(1, n + wrong) if n else b"0")


@_mutation("framing: chunks of one byte")
def _(draft):
    draft.framing.append(b"Transfer-Encoding: chunked")
    parts = [b"1\r\n%c\r\n" % byte for byte in draft.body]
    draft.wire = b"".join(parts) + b"0\r\n\r\n"


@_mutation("framing: byte of the chunks changed")
def _(draft):
    draft.by_chunks()
    assert draft.wire is not None
    at = draft.rng.choice((0, 1, 2, 3, 4, *range(-8, 0)))
    at %= len(draft.wire)
    draft.wire = draft.wire[:at] + _byte(draft.rng) + draft.wire[at + 1 :]


# --- the ending ------------------------------------------------------------------------------


def _ends(
    name,
    *,
    ending="fin",
    cut=lambda rng, data, head: data,
    framed="",
):
    """An end in the middle, or an odd end. *framed*: the framing, any if empty."""

    def mutate(draft):
        if draft.wire is None and framed == "length":
            draft.by_length()
        elif draft.wire is None and framed == "chunks":
            draft.by_chunks()
        elif draft.wire is None and framed == "close":
            draft.wire = draft.body
        draft.ending = ending
        draft.cut = partial(cut, draft.rng)

    _mutation(f"ending: {name}")(mutate)


def _in_head(rng, data, head):
    return data[: rng.randrange(1, head)]


def _in_body(rng, data, head):
    return data[: rng.randint(head, max(head, len(data) - 1))]


_ends("FIN within the head", cut=_in_head)
_ends("FIN before the empty line", cut=lambda rng, data, head: data[: head - 2])
_ends("FIN after the head", cut=lambda rng, data, head: data[:head])
_ends("FIN within the body, length", cut=_in_body, framed="length")
_ends("FIN within the body, chunks", cut=_in_body, framed="chunks")
_ends("FIN within the body, until close", cut=_in_body, framed="close")
_ends("nothing at all", cut=lambda rng, data, head: b"")
_ends("RST at the end, length", ending="rst", framed="length")
_ends("RST at the end, chunks", ending="rst", framed="chunks")
_ends("RST at the end, until close", ending="rst", framed="close")
_ends("RST within the head", ending="rst", cut=_in_head)
_ends("RST within the body, length", ending="rst", cut=_in_body, framed="length")
_ends("RST within the body, chunks", ending="rst", cut=_in_body, framed="chunks")
_ends("kept open, length", ending="open", framed="length")
_ends("kept open, chunks", ending="open", framed="chunks")
_ends("kept open, until close", ending="open", framed="close")
_ends("kept open within the body, length", ending="open", cut=_in_body, framed="length")
_ends("kept open within the head", ending="open", cut=_in_head)


@_mutation("ending: in many pieces")
def _(draft):
    count = draft.rng.randint(2, 30)

    def split(data):
        places = sorted(draft.rng.randint(0, len(data)) for _ in range(count))
        bounds = zip([0, *places], [*places, len(data)], strict=True)
        return tuple(data[a:b] for a, b in bounds if a < b)

    draft.split = split


@_mutation("ending: the head byte by byte")
def _(draft):
    draft.split = lambda data: (*(data[n : n + 1] for n in range(100)), data[100:])


# --- the coding ------------------------------------------------------------------------------


@_mutation("coding: sound")
def _(draft):
    draft.code(draft.rng.choice((*_NAMED, b"x-gzip")))


@_mutation("coding: sound, in capitals")
def _(draft):
    name = draft.rng.choice(_NAMED)
    draft.code(name, named=draft.rng.choice((name.upper(), name.title())))


@_mutation("coding: sound chain")
def _(draft):
    draft.code(*draft.rng.choices(_NAMED, k=draft.rng.randint(2, 3)))


@_mutation("coding: chain of 5 to 8")
def _(draft):
    draft.code(*draft.rng.choices(_NAMED, k=draft.rng.randint(5, 8)))


@_mutation("coding: raw deflate")
def _(draft):
    draft.code(b"raw deflate", named=b"deflate")


for _name_ in _NAMED:
    _mutation(f"coding: {_name_.decode()} named, not applied")(
        lambda draft, name=_name_: draft.code(named=name)
    )


@_mutation("coding: other than named")
def _(draft):
    named, applied = draft.rng.sample(_NAMED, 2)
    draft.code(applied, named=named)


@_mutation("coding: applied, not named")
def _(draft):
    draft.code(draft.rng.choice(_NAMED))
    draft.codings = draft.rng.choice((None, b"identity", b""))


@_mutation("coding: applied twice, named once")
def _(draft):
    draft.code(name := draft.rng.choice(_NAMED), name, named=name)


@_mutation("coding: named twice, applied once")
def _(draft):
    name = draft.rng.choice(_NAMED)
    draft.code(name, named=name + draft.rng.choice((b", ", b"\r\nContent-Encoding: ")) + name)


def _plain(draft, named):
    draft.code(named=named)


_one_of("coding: no coding", _plain, b"identity", b"none", b"", b"utf-8", b"8bit", b"binary",
        b"UTF-8", b"text", b"iso-8859-1", b"identity, identity")  # fmt: skip
_one_of("coding: unknown", _plain, b"foo", b"compress", b"x-compress", b"base64", b"zip", b"bz2",
        b"pack200-gzip", b"aws-chunked", b"dcb", b"sdch")  # fmt: skip


def _around(draft, template):
    draft.code(name := draft.rng.choice((b"gzip", b"br")), named=template.replace(b"X", name))


_one_of("coding: chain with an unknown one", _around, b"foo, X", b"X, foo", b"aws-chunked, X")
_one_of("coding: chain with none", _around, b"identity, X", b"X, identity", b"none, X",
        b"utf-8, X", b"X,", b",X", b"X, ,")  # fmt: skip
_one_of("coding: name with junk", _around, b"X;q=1", b'"X"', b"X;", b"X.", b"x.X", b"X gzip")


def _stream(name, change, *codings):
    """A stream that is sound but for a *change*."""

    def mutate(draft):
        draft.code(coding := draft.rng.choice(codings))
        draft.body = change(draft.rng, draft.body)
        if coding == b"raw deflate":
            draft.codings = b"deflate"

    _mutation(f"coding: {name}")(mutate)


def _cut(rng, body):
    return body[: rng.randrange(max(2, len(body) - 8))]


def _junk(rng, body):
    return body + rng.choice((b"\0" * 20, b"\n", b"junk junk", b"<!-- x -->", rng.randbytes(30)))


def _corrupt(rng, body):
    at = rng.randrange(2, len(body) - 8)
    return body[:at] + rng.randbytes(3) + body[at + 3 :]


for _name_ in (b"gzip", b"deflate", b"raw deflate", b"br", b"zstd"):
    _stream(f"{_name_.decode()} cut", _cut, _name_)
    _stream(f"{_name_.decode()} and junk", _junk, _name_)
    _stream(f"{_name_.decode()} corrupt", _corrupt, _name_)
_stream("gzip without its trailer", lambda rng, body: body[: -rng.randint(1, 8)], b"gzip")
_stream("gzip, wrong checksum", lambda rng, body: body[:-8] + b"abcd" + body[-4:], b"gzip")
_stream("gzip, wrong size", lambda rng, body: body[:-4] + b"abcd", b"gzip")
_stream("deflate without its checksum", lambda rng, body: body[: -rng.randint(1, 4)], b"deflate")
_stream("deflate, wrong checksum", lambda rng, body: body[:-4] + b"abcd", b"deflate")
_stream("gzip and the beginning of another", lambda rng, body: body + b"\x1f\x8bjunk", b"gzip")
_stream("zstd, skippable frame", lambda rng, body: b"\x50\x2a\x4d\x18\3\0\0\0abc" + body, b"zstd")


@_mutation("coding: gzip of several members")
def _(draft):
    draft.body = b"".join(map(PACK[b"gzip"], draft.pieces()))
    draft.codings = b"gzip"


@_mutation("coding: gzip of several members, the last cut")
def _(draft):
    half = len(draft.body) // 2
    first, second = map(PACK[b"gzip"], (draft.body[:half], draft.body[half:]))
    draft.body = first + second[: draft.rng.randrange(1, len(second))]
    draft.codings = b"gzip"


@_mutation("coding: gzip after an empty member")
def _(draft):
    draft.code(b"gzip")
    draft.body = PACK[b"gzip"](b"") + draft.body


@_mutation("coding: gzip with name and comment")
def _(draft):
    body = PACK[b"gzip"](draft.body)
    flags = draft.rng.choice((b"\x08", b"\x18"))
    names = b"page.html\0" + (b"comment\0" if flags == b"\x18" else b"")
    draft.body = body[:3] + flags + body[4:10] + names + body[10:]
    draft.codings = b"gzip"


@_mutation("coding: zstd of several frames")
def _(draft):
    draft.body = b"".join(map(PACK[b"zstd"], draft.pieces()))
    draft.codings = b"zstd"


@_mutation("coding: empty body")
def _(draft):
    draft.body = b""
    draft.codings = draft.rng.choice((*_NAMED, b"foo"))


@_mutation("coding: stream of an empty document")
def _(draft):
    draft.body = b""
    draft.code(draft.rng.choice(_NAMED))


@_mutation("coding: length of the decoded body")
def _(draft):
    length = len(draft.body)
    draft.code(draft.rng.choice(_NAMED))
    draft.by_length(length=length)


_KINDS: Final = [*MUTATIONS]
