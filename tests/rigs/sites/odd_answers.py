"""Answers of servers that are slightly or badly wrong, made from numbers.

One number makes one `Case`, always the same. A case has one mutation, sometimes two, of a sound
answer. The name of a mutation begins with its family: head, framing, ending or coding.
"""

import gzip
import itertools
import random
import re
import zlib
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import brotli
from odd_server import Answer
from wire_text import table, wire

from webcrawl.net.http.decoding import zstd

FAMILIES = ("head", "framing", "ending", "coding")
#: The share of cases with a second mutation, of another family.
_TWO = 0.15


class Case(NamedTuple):
    """One answer, and how it was made.

    kinds: the names of its mutations. document: the page that the answer is about.
    """

    number: int
    kinds: tuple
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

    rng: object
    document: bytes
    body: bytes
    status: bytes = b"HTTP/1.1 200 OK"
    before: bytes = b""
    lines: list = field(default_factory=lambda: [b"Content-Type: text/html"])
    framing: list = field(default_factory=list)
    codings: object = None
    wire: object = None
    line_ends: tuple = (b"\r\n",)
    head_end: object = None
    ending: str = "fin"
    change_head: object = bytes
    cut: object = lambda data, _: data
    split: object = lambda data: (data,)

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
        parts = [b"%b%b%b%b" % (size(len(p)), end, p, after) for p in _pieces(self.rng, self.body)]
        self.wire = b"".join(parts) + (size(0) + end + end if last is None else last)

    def code(self, *names, named=None):
        """Apply the codings *names* and say so, or say *named*."""
        for name in names:
            self.body = PACK[name](self.body)
        self.codings = b", ".join(names) if named is None else named

    def answer(self):
        """Put all parts together."""
        if self.wire is None:
            _frame(self)
        coding = [] if self.codings is None else [b"Content-Encoding: " + self.codings]
        lines = [self.status, *_shuffled(self.rng, self.lines, [*self.framing, *coding])]
        head = b"".join(line + self.rng.choice(self.line_ends) for line in lines)
        head += self.rng.choice(self.line_ends) if self.head_end is None else self.head_end
        head = self.change_head(self.before + head)
        return Answer(self.split(self.cut(head + self.wire, len(head))), self.ending)


def _pieces(rng, data):
    """Cut *data* into one to four pieces that are not empty."""
    count = min(rng.randint(1, 4), len(data))
    places = sorted(rng.sample(range(1, max(2, len(data))), max(0, count - 1)))
    pieces = [data[a:b] for a, b in itertools.pairwise([0, *places, len(data)])]
    return [piece for piece in pieces if piece]


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
            _coded(draft)
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


def _frame(draft, way=""):
    """Frame the body in a sound way, any if *way* is empty."""
    way = way or draft.rng.choice(("length", "length", "chunks", "close"))
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


PACK = {
    b"gzip": partial(gzip.compress, mtime=0),
    b"x-gzip": partial(gzip.compress, mtime=0),
    b"deflate": zlib.compress,
    b"raw deflate": raw_deflate,
    b"br": partial(brotli.compress, quality=5),
    b"zstd": zstd.compress,
}
_NAMED = ("gzip", "deflate", "br", "zstd")


MUTATIONS = {}
_TABLE = table("odd_answers")


def _mutation(name):
    def add(mutate):
        assert name not in MUTATIONS
        MUTATIONS[name] = mutate
        return mutate

    return add


def _texts(family, section, mutate):
    """Mutations of a section of the table, each by one of its texts."""
    for name, texts in _TABLE[family][section].items():
        choices = [*map(wire, texts)]
        _mutation(f"{family}: {name}")(
            lambda draft, choices=choices: mutate(draft, draft.rng.choice(choices))
        )


def _options(family, section, mutate):
    """Mutations of a section of the table, each by its options."""
    for name, options in _TABLE[family][section].items():
        _mutation(f"{family}: {name}")(partial(mutate, **options))


# --- the head: its lines ---------------------------------------------------------------------


_texts("head", "lines", Draft.add)
_texts("head", "status_ends", lambda draft, end: setattr(draft, "status", draft.status + end))


@_mutation("head: long line")
def _(draft):
    draft.add(b"X-Long: " + b"a" * draft.rng.randint(4000, 60_000))


_texts("head", "long_lines", Draft.add)


def _fields(draft, fewest, most):
    draft.add(*(b"X-%d: 1" % n for n in range(draft.rng.randint(fewest, most))))


_options("head", "fields", _fields)


def _colon(draft, colon):
    """Change what follows the names of the fields of the framing, whose values count."""
    if draft.wire is None:
        draft.rng.choice((draft.by_length, draft.by_chunks))()
    draft.framing = [line.replace(b":", colon, 1) for line in draft.framing]


_texts("head", "colons", _colon)


@_mutation("head: names in another case")
def _(draft):
    change = draft.rng.choice((bytes.lower, bytes.upper, bytes.swapcase))
    draft.change_head = partial(re.sub, rb"\r\n[^:\r]+:", lambda name: change(name[0]))


def _line_ends(draft, ends, head_end=None):
    draft.line_ends = [*map(wire, ends)]
    draft.head_end = head_end and wire(head_end)


_options("head", "line_ends", _line_ends)

# --- the head: its status line, and what comes before ----------------------------------------

_texts("head", "status", lambda draft, status: setattr(draft, "status", status))
_texts("head", "before", lambda draft, data: setattr(draft, "before", data))

# --- the head: noise -------------------------------------------------------------------------


def _byte(rng):
    return rng.choice([b"\r", b"\n", b":", b" ", b"\t", b"\0", b";", b",", b'"', rng.randbytes(1)])


def _noise(draft, becomes):
    def change_head(head):
        for _ in range(draft.rng.randint(1, 2)):
            at = draft.rng.randrange(len(head))
            head = eval(becomes, {"rng": draft.rng, "byte": _byte, "head": head, "at": at})
        return head

    draft.change_head = change_head


_options("head", "noise", _noise)

# --- the framing -----------------------------------------------------------------------------


_texts("framing", "lengths", Draft.by_length)


@_mutation("framing: body longer than its length")
def _(draft):
    draft.by_length(length=draft.rng.randrange(len(draft.body) + 1))


@_mutation("framing: junk after the length")
def _(draft):
    draft.by_length()
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


_texts("framing", "chunked", _with_chunks)
_texts("framing", "unchunked", Draft.by_length)


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


_texts("framing", "sizes", lambda draft, size: draft.by_chunks(size=size.__mod__))


def _chunks(draft, **options):
    draft.by_chunks(**{name: wire(text) for name, text in options.items()})


_options("framing", "chunks", _chunks)


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
    at = draft.rng.choice((0, 1, 2, 3, 4, *range(-8, 0)))
    at %= len(draft.wire)
    draft.wire = draft.wire[:at] + _byte(draft.rng) + draft.wire[at + 1 :]


# --- the ending ------------------------------------------------------------------------------


def _ends(draft, ending="fin", cut="len(data)", framed=""):
    """End in the middle, or in an odd way; *framed* is how, if that was not said before."""
    if draft.wire is None and framed:
        _frame(draft, framed)
    draft.ending = ending
    names = {"rng": draft.rng}
    draft.cut = lambda data, head: data[: eval(cut, names | {"data": data, "head": head})]


_options("ending", "ends", _ends)


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


def _coded(draft, number=(1, 1), of=_NAMED, named=("X",)):
    """Apply a *number* of codings *of* these, and name them by what X stands for in *named*."""
    names = draft.rng.choices([*map(wire, of)], k=draft.rng.randint(*number))
    text = wire(draft.rng.choice(named))
    draft.code(*names, named=text.replace(b"X", b", ".join(names)))


_options("coding", "coded", _coded)


@_mutation("coding: other than named")
def _(draft):
    named, applied = map(wire, draft.rng.sample(_NAMED, 2))
    draft.code(applied, named=named)


@_mutation("coding: applied, not named")
def _(draft):
    _coded(draft)
    draft.codings = draft.rng.choice((None, b"identity", b""))


@_mutation("coding: applied twice, named once")
def _(draft):
    name = wire(draft.rng.choice(_NAMED))
    draft.code(name, name, named=name)


def _stream(draft, coding, becomes):
    """Change a sound stream."""
    plain, pack = draft.body, PACK[wire(coding)]
    draft.code(wire(coding), named=wire(coding.removeprefix("raw ")))
    names = {"rng": draft.rng, "body": draft.body, "plain": plain, "pack": pack}
    draft.body = eval(becomes, names | {"pieces": _pieces(draft.rng, plain)})


_options("coding", "streams", _stream)


@_mutation("coding: stream of an empty document")
def _(draft):
    draft.body = b""
    _coded(draft)


@_mutation("coding: length of the decoded body")
def _(draft):
    length = len(draft.body)
    _coded(draft)
    draft.by_length(length=length)


_KINDS = [*MUTATIONS]
