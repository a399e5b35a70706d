"""Subresources of hosts that other processes of a hive contact.

The process of a page sends a ``Wanted`` to the shard of the subresource. The process that holds
this shard keeps the page as a guest (store.py) and requests the subresource in the turn of its
host. The answer goes to the shard of the page as a ``Given``.

Messages may arrive twice, and a process that loses a shard loses its guests. So a page asks again
when a shard has moved (``Passes.resume``). A request that is pending is not made twice, a guest
that asks again gets the stored answer, and an answer for which no page waits is ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from webcrawl.configuration.decoding import Epoch, msgpack_decoder
from webcrawl.render.engine import Answer, Subresource
from webcrawl.render.store import RenderStore
from webcrawl.urls import normalize

# Larger answers are not sent: their pages are rendered without them.
_MAX_BYTES = 5_000_000
_TOO_LARGE = "body_lost"


class Wanted(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Request for *subresource* by *page*, which was fetched from *place* at the time *since*."""

    page: str
    since: Epoch
    place: str
    subresource: Subresource


class Given(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Reply to a ``Wanted``: the *outcome* of its request, and the *answer*.

    at: when the answer came.
    is_for_all: whether it serves pages of any origin.
    was_sent: whether the host was contacted in the turn of this page.
    """

    page: str
    subresource: Subresource
    outcome: str
    at: Epoch
    is_for_all: bool
    was_sent: bool
    answer: Answer | None


Content: TypeAlias = Wanted | Given
#: Sends a message from the shard of the first URL to that of the second one.
Tell: TypeAlias = Callable[[str, str, bytes], None]

#: Decodes a message. Raises UndecodableError.
decode: Callable[[bytes], Content] = msgpack_decoder(Wanted | Given)  # type: ignore[arg-type]  # a union


class RemoteSubresources:
    """Exchange of subresources with other processes: for the pages of this one, and for theirs.

    *submit* and *audience_of* as in ``Passes``.
    """

    def __init__(
        self,
        *,
        store: RenderStore,
        submit: Callable[[str, int, str], str],
        audience_of: Callable[[str, str], str],
        tell: Tell,
    ) -> None:
        self._store = store
        self._submit = submit
        self._audience_of = audience_of
        self._tell = tell

    def ask(self, number: int, page_url: str) -> None:
        """Ask for the pending request *number*, which *page_url* waits for."""
        sent = self._store.pending_request(number)
        page = self._store.page(page_url)
        if sent is not None and page.key:  # guests cannot ask
            place = self._store.place_of(page_url)
            wanted = Wanted(page_url, page.since, place, sent)
            self._tell(page_url, sent.url, msgspec.msgpack.encode(wanted))

    def serve(self, wanted: Wanted) -> None:
        """Request the subresource that a page of another process has asked for."""
        page = wanted.page
        url = normalize(wanted.subresource.url)
        if url is None:
            return
        self._store.add_guest(page, wanted.since, wanted.place)
        need = self._store.need(page, wanted.subresource, self._audience_of(url, page))
        if not need.must_wait:
            self.give(need.number, page)
        elif refusal := self._submit(url, need.number, page):
            self.give(self._store.refuse(need.number, refusal, page), page)

    def give(self, number: int, page_url: str, *, was_sent: bool = False) -> None:
        """Send the guest *page_url* how the request *number* has ended."""
        ended = self._store.ended(number)
        answer = ended.answer
        outcome = f"http_{answer.status}" if answer else ended.refused
        if answer and len(answer.body) > _MAX_BYTES:
            answer = None
            outcome = _TOO_LARGE
        given = Given(page_url, ended.sent, outcome, ended.at, ended.is_for_all, was_sent, answer)
        self._tell(ended.sent.url, page_url, msgspec.msgpack.encode(given))
        self._store.note_sent(page_url, number)

    def ended_by(self, given: Given) -> set[int]:
        """Return the pending requests that *given* ends."""
        audience = self._audience_of(given.subresource.url, given.page)
        return self._store.pending_like(given.subresource, audience, any_origin=given.is_for_all)
