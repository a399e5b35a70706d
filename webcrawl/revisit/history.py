"""Download history of a URL: what is known about its document when it is fetched again.

It is stored in the URL's entry, and not used by the frontier. An entry with a history is a *visit*:
a fetch of a URL that was finished before (Mercator, section 3.1). Histories can also be built from
the log of finished URLs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec.structs import replace
from scrapy.http import Headers

from webcrawl.configuration.decoding import Count, Epoch, UndecodableError, msgpack_decoder
from webcrawl.frontier import Entry
from webcrawl.net.outcomes import is_document
from webcrawl.seen.fingerprint import document_fingerprint
from webcrawl.urls import Link

#: Results of a visit besides UNCHANGED: another document, a redirect, no document any more, and no
#: useful response.
CHANGED = "changed"
MOVED = "moved"
GONE = "gone"
FAILED = "failed"

_GONE = frozenset({"http_404", "http_410"})
# The fields of a history that describe the last copy of the document.
_DOCUMENT_FIELDS = (
    "stored_at", "content", "is_duplicate", "etag", "modified", "links", "text",
)  # fmt: skip
_DAY = 86_400
# Maximum length of both validators together; longer ones are ignored.
_MAX_VALIDATORS = 128
# At most 64 bits, the limit of msgpack.
_Fingerprint = Annotated[int, msgspec.Meta(ge=0)]


class History(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Download history of the document of a URL.

    It takes at most 67 bytes plus the validators. Times are epoch seconds.

    stored_at: when the last copy was fetched; 0 if there is none.
    content: fingerprint of that copy; 0 if unknown.
    is_duplicate: whether another URL's document had the same bytes.
    etag, modified: validators of that copy, as they were sent.
    links, text: fingerprints of the document's links and text; 0 if unknown.
    at: when the last visit with a useful response was made.
    interval: seconds from that visit to the next one.
    visits, changes: number of visits, and of visits that found a change.
    changed_secs, same_secs: total time before visits that found a change, and before other visits.
    failures: number of consecutive visits without a useful response.
    denied_at: since when robots.txt has denied the URL; 0 if it does not.
    hinted_at: when another source reported a change. Only set for a visit for that reason, whose
        URL also has a regular visit; 0 for other visits.
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
        """Return the header fields that make a request conditional (RFC 9110, section 13.1).

        There are none if the document is unknown, for example because a processing module failed on
        it.
        """
        fields = {"If-None-Match": self.etag, "If-Modified-Since": self.modified}
        usable = fields if self.holds_document else {}
        return {name: value for name, value in usable.items() if value and _is_plain(value)}

    @property
    def holds_document(self) -> bool:
        """Return whether the URL had a document at its last visit whose fingerprint is known."""
        return bool(self.content and self.stored_at)

    def is_denied(self, now: float) -> bool:
        """Return whether robots.txt has denied the URL for a day or longer at the time *now*."""
        return 0 < self.denied_at <= now - _DAY

    @property
    def is_lost(self) -> bool:
        """Return whether the URL had a document, but robots.txt has denied it for a day."""
        return bool(self.denied_at and self.content and not self.stored_at)

    def with_document(self, copy: History) -> History:
        """Return this history, with the document in *copy* as the last one."""
        return replace(self, **{name: getattr(copy, name) for name in _DOCUMENT_FIELDS})

    def without_document(self) -> History:
        """Return this history without its document, after a visit that found it moved or gone.

        If the document comes back, that counts as a change, even if it is the same.
        """
        return replace(self, stored_at=0.0, etag="", modified="", links=0, text=0)


_encode = msgspec.msgpack.Encoder().encode
#: Decode the result of ``encode_history``. Raises UndecodableError for other bytes.
decode_history = msgpack_decoder(History)


def encode_history(history: History) -> bytes:
    """Encode *history* for ``Entry.history``."""
    return _encode(history)


def history_of(entry: Entry) -> History | None:
    """Return the history of *entry*; None if it has none, or if it cannot be decoded."""
    try:
        return decode_history(entry.history) if entry.history else None
    except UndecodableError:
        return None


def links_fingerprint(links: Sequence[Link]) -> int:
    """Return the fingerprint of the targets of *links* in any order. 20 us for 50."""
    return document_fingerprint(" ".join(sorted({link.url for link in links})).encode())


def visit_result(outcome: str) -> str:
    """Return the result of a visit that ended with *outcome*; "" if it found a document."""
    if is_document(outcome):
        return ""
    if outcome in _GONE:
        return GONE
    return MOVED if outcome.startswith("http_3") else FAILED


def validators(headers: Headers) -> dict[str, str]:
    """Return the fields ``etag`` and ``modified`` of a response with *headers*, as they were sent.

    Empty if they have more than 128 bytes together. A field that cannot be sent back is left out.
    """
    texts = {}
    for name, field in (("etag", b"Etag"), ("modified", b"Last-Modified")):
        # The methods of Headers would normalize the name again, so they are bypassed.
        for value in dict.get(headers, field, ()):
            texts[name] = value.decode("latin-1")
    if sum(map(len, texts.values())) > _MAX_VALIDATORS:
        return {}
    return {name: text for name, text in texts.items() if _is_plain(text)}


def _is_plain(value: str) -> bool:
    """Return whether *value* is printable ASCII, so that it can be sent in a header field."""
    return value.isascii() and value.isprintable()
