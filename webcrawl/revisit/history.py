"""Download history of a URL: what is known of its document when it is fetched again.

In the URL's entry, opaque to the frontier, whose entries with one are *visits*: fetches of a URL
that was finished before (Mercator, section 3.1). Made of the log of finished URLs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec
from msgspec.structs import replace

from webcrawl.configuration.decoding import Count, Epoch, UndecodableError, msgpack_decoder
from webcrawl.net.outcomes import is_document
from webcrawl.seen.fingerprint import document_fingerprint, hexadecimal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.http import Headers

    from webcrawl.frontier import Entry
    from webcrawl.urls import Link

#: What a visit has found, if not UNCHANGED: another document, a redirect, none any more, no answer
#: that says anything of it.
CHANGED, MOVED, GONE, FAILED = "changed", "moved", "gone", "failed"

_GONE = frozenset({"http_404", "http_410"})
# The fields of a history that tell of the last copy of the document.
_OF_DOCUMENT = (
    "stored_at", "content", "is_duplicate", "etag", "modified", "links", "text",
)  # fmt: skip
_DAY = 86_400
# Of both validators together; others are taken for none.
_MOST_VALIDATORS = 128
# Of 64 bits: msgpack has no more.
_Fingerprint: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class History(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Download history of the document of a URL.

    At most 67 bytes and the validators. Times are epoch seconds.

    stored_at: when its last copy was fetched; 0 if there is none.
    content: fingerprint of that; 0 if it is not known.
    is_duplicate: another URL's document had the same bytes.
    etag, modified: its validators as they were sent.
    links, text: fingerprints of its links and its text; 0 if they are not known.
    at, interval: the last visit that said something, and seconds from that to the next one.
    visits, changes: how many there were, and how many found a change.
    changed_secs, same_secs: the time before those that found one, and before the others.
    failures: visits in a row that said nothing.
    denied_at: since when robots.txt denies it; 0 if it does not.
    hinted_at: when another source has said that the document has changed, of a visit for that
        reason, whose URL is due besides; 0 of other ones.
    """

    stored_at: Epoch = 0.0
    content: _Fingerprint = 0
    is_duplicate: bool = False
    etag: str = ""
    modified: str = ""
    links: _Fingerprint = 0
    text: _Fingerprint = 0
    at: Count = 0
    interval: Count = 0
    visits: Count = 0
    changes: Count = 0
    changed_secs: Count = 0
    same_secs: Count = 0
    failures: Count = 0
    denied_at: Count = 0
    hinted_at: Count = 0

    def headers(self) -> dict[str, str]:
        """The fields by which a request becomes conditional (RFC 9110, section 13.1); none if the
        document is not known, as when a processing module failed on it."""
        fields = {"If-None-Match": self.etag, "If-Modified-Since": self.modified}
        given = fields if self.holds_document else {}
        return {name: value for name, value in given.items() if value and _is_plain(value)}

    @property
    def holds_document(self) -> bool:
        """Whether the URL had a document at its last visit, whose bytes are known."""
        return bool(self.content and self.stored_at)

    def is_denied(self, now: float) -> bool:
        """Whether robots.txt has denied it for a day, *now* in epoch seconds."""
        return 0 < self.denied_at <= now - _DAY

    @property
    def is_lost(self) -> bool:
        """Whether it had a document until robots.txt denied it for a day."""
        return bool(self.denied_at and self.content and not self.stored_at)

    def with_document(self, copy: History) -> History:
        """With the document of *copy* as the last one."""
        return replace(self, **{name: getattr(copy, name) for name in _OF_DOCUMENT})

    def without_document(self) -> History:
        """After a visit that found it moved or gone: a document that comes back is a change, also
        if it is the same."""
        return replace(self, stored_at=0.0, etag="", modified="", links=0, text=0)

    def facts(self) -> dict[str, Any]:
        """Its fields in the log of finished URLs."""
        return {
            "stored": self.stored_at,
            "content": hexadecimal(self.content) if self.content else "",
            "duplicate": self.is_duplicate,
            "etag": self.etag,
            "modified": self.modified,
            "links": hexadecimal(self.links) if self.links else "",
            "text": hexadecimal(self.text) if self.text else "",
        }


_encode = msgspec.msgpack.Encoder().encode
#: The history of ``encode_history``. UndecodableError for other bytes.
decode_history = msgpack_decoder(History)


def encode_history(history: History) -> bytes:
    """*history* for ``Entry.history``."""
    return _encode(history)


def history_of(entry: Entry) -> History | None:
    """The history of *entry*; None if its URL was never finished, or it cannot be read."""
    try:
        return decode_history(entry.history) if entry.history else None
    except UndecodableError:
        return None


def links_fingerprint(links: Sequence[Link]) -> int:
    """The fingerprint of where *links* lead, in whatever order they are. 20 us for 50."""
    return document_fingerprint(" ".join(sorted({link.url for link in links})).encode())


def visited(outcome: str) -> str:
    """What a visit that ended with *outcome* has found; "" for a document."""
    if is_document(outcome):
        return ""
    if outcome in _GONE:
        return GONE
    return MOVED if outcome.startswith("http_3") else FAILED


def validators(headers: Headers) -> dict[str, str]:
    """The fields ``etag`` and ``modified`` of an answer with *headers*, as they were sent; none
    that are longer than 128 bytes together, or cannot be sent."""
    # Not by the methods of Headers, which would bring the name into its form again.
    found = [
        (name, values[-1])
        for name, field in (("etag", b"Etag"), ("modified", b"Last-Modified"))
        if (values := dict.get(headers, field))
    ]
    if not found or sum(len(value) for _, value in found) > _MOST_VALIDATORS:
        return {}
    texts = [(name, value.decode("latin-1")) for name, value in found]
    return {name: text for name, text in texts if _is_plain(text)}


def _is_plain(value: str) -> bool:
    return value.isascii() and value.isprintable()
