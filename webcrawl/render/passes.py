"""Rendering in passes: which pages wait, what they wait for, and when the next pass is due.

The life of a page::

    keep     it was fetched; its exchange is stored, and its URL is parked as "rendering"
    pass     an engine renders it with the stored subresources, and names those that are missing
    wait     these are fetched in their hosts' turns, like any URL, or refused
    ...      at most four passes that got nothing new, 16, and RENDER_WAIT_SECS in all
    ready    the gate releases the URL; its next lease is answered from the store
    forget   the URL is finished

Each step is on disk before the next begins. If the store has lost a page, its URL is simply fetched
again. No page is held in an engine while hosts rest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue

import msgspec

from webcrawl.clock import TimeSource, now
from webcrawl.configuration.decoding import UndecodableError
from webcrawl.frontier import Entry, Supply, key
from webcrawl.frontier.admission import Gate
from webcrawl.net.guard import PRIVATE_ADDRESS
from webcrawl.render.answers import answer_of
from webcrawl.render.candidates import SAMPLES, Verdicts, outline_of
from webcrawl.render.engine import Answer, Pass, Rendering, Subresource
from webcrawl.render.remote import RemoteSubresources, Tell, Wanted, decode
from webcrawl.render.store import RenderStore, SavedPage
from webcrawl.render.worker import RenderWorker
from webcrawl.urls import host_of
from webcrawl.urls.registered_domain import domain_of

#: Reason for which URLs are parked.
RENDERING = "rendering"
_PASSES = 16
# Maximum number of passes that got no more answers than an earlier one.
_PASSES_IN_VAIN = 4
# After this number of failures, no more passes are made over a page.
_FAILURES = 2
# Outcomes of subresources without which other pages of the site show no more, either.
_DENIALS = frozenset({"robots_denied", "http_401", "http_403"})
# Maximum number of waiting pages.
_PAGES = 10_000
# Maximum number of subresources that one page may request since the last restart, and of requests
# to other registered domains for it.
_NEEDS = 256
_FOREIGN_NEEDS = 64
# By how much the clocks of two machines may differ.
_SKEW_SECS = 60.0
# Seconds between two passes over the parked URLs.
_GATE_SECS = 0.25


class _Waiting(msgspec.Struct, gc=False):
    """A page in the store. ``pending`` has the numbers of the requests that it waits for.

    ``asked`` is the number of subresources that it may have, and ``foreign`` that of the requests
    to other registered domains that were sent for it.
    ``shape`` is that of a candidate, 0 for a page that is rendered in any case.
    ``answers`` is the most that a pass got. ``was_tall`` says whether something was requested
    that the page only shows in a tall window.
    """

    key: int
    since: float
    shape: int = 0
    passes: int = 0
    in_vain: int = 0
    failures: int = 0
    asked: int = 0
    foreign: int = 0
    pending: set[int] = msgspec.field(default_factory=set)
    is_running: bool = False
    is_ready: bool = False
    is_denied: bool = False
    answers: int = 0
    was_tall: bool = False


class Passes:
    """Renders the pages of *store* with *workers*. All methods run in the event loop's thread.

    *answer_of* returns the stored response in an exchange. *submit* is called with the URL of a
    missing subresource, the number of its request and the URL of the page: it requests the
    subresource, or returns why that is impossible. *on_end* is called with the number of a request
    that is over, and "", or with the number and a page if only the entry for the domain of this
    page is gone; and with ``was_sent``. *audience_of* is called with both URLs; pages for which it
    returns the same get the same answer. *verdicts* say which candidates gain. *wait_secs* bounds
    how long a page waits; *clock* returns epoch seconds. *count* counts a stat. *shard_of* returns
    the number of the shard of a URL; *tell* sends messages to other processes (remote.py).
    """

    def __init__(
        self,
        *,
        store: RenderStore,
        workers: Sequence[RenderWorker],
        answer_of: Callable[[bytes], Answer],
        submit: Callable[[str, int, str], str],
        on_end: Callable[..., object],
        audience_of: Callable[[str, str], str],
        verdicts: Verdicts,
        wait_secs: float,
        clock: TimeSource,
        count: Callable[[str], None],
        shard_of: Callable[[str], int] = lambda _: 0,
        tell: Tell = lambda *_: None,
    ) -> None:
        self.store = store
        # Used only to start and stop them; passes take an idle one from ``_idle``.
        self._workers = workers
        self._answer_of = answer_of
        self._submit = submit
        self.on_end = on_end
        self._audience_of = audience_of
        self._verdicts = verdicts
        self._wait_secs = wait_secs
        self._clock = clock
        self._count = count
        self._shard_of = shard_of
        self._remote = RemoteSubresources(
            store=store, submit=submit, audience_of=audience_of, tell=tell
        )
        #: Asks the process that holds a host for a request: see ``RemoteSubresources.ask``.
        self.ask = self._remote.ask
        # All pages in the store, by URL, and how many of them are ready.
        self._pages: dict[str, _Waiting] = {}
        self._ready = 0
        # URLs of the pages whose next pass should begin, in order.
        self._due: dict[str, None] = {}
        # By host and shape: the sample that is being rendered, and the pages that wait for it.
        self._samples: dict[tuple[str, int], str] = {}
        self._held: dict[tuple[str, int], list[str]] = {}
        # Pages with the times at which they stop waiting, in order.
        self._deadlines: deque[tuple[float, str]] = deque()
        self._idle: SimpleQueue[RenderWorker] = SimpleQueue()
        for worker in workers:
            self._idle.put(worker)
        # Passes that are under way, with their pages.
        self._running: dict[Future[Rendering], tuple[str, _Waiting]] = {}
        # One thread for each worker; None unless the store is open.
        self._threads: ThreadPoolExecutor | None = None

    def open(self, *, forgets: bool, take_up: Callable[[str, int], bool]) -> str:
        """Open the store and start an engine; return a warning for the user, or "". Blocks.

        *forgets* as in ``RenderStore.open``. *take_up* is called for each page with its URL and the
        key of its entry. It returns False if that was finished: such a page is still there if the
        crawl then crashed. Raises FatalError if the engine does not work, and OSError.
        """
        self.store.open(forgets=forgets)
        warning = self._workers[0].start()
        # Pages with the result of their last pass are ready; the others get further passes.
        for saved in self.store.pages():
            page_key = int.from_bytes(saved.key, "big")
            if not take_up(saved.url, page_key):
                self.store.forget(saved.url)
                continue
            page = self._add(saved.url, page_key, saved.since, saved.shape)
            page.passes = saved.passes
            page.failures = saved.failures
            if saved.html is None:
                # The stat counts pages kept by an earlier process, too. Otherwise this one could
                # render more pages than it counts.
                self._count("render/pages")
                page.pending = self.store.pending_of(saved.url)
                self._check(saved.url, page)
            else:
                self._make_ready(page)
        self._threads = ThreadPoolExecutor(len(self._workers), thread_name_prefix="rendering")
        return warning

    def resume(self, shards: Container[int] | None = None) -> None:
        """Submit what pages wait for again: all of it, or what *shards* have, which have moved."""
        if self._threads is None:  # it was closed
            return
        again = [
            (number, url, page_url)
            for number, url, page_url in self.store.pending()
            if shards is None or self._shard_of(url) in shards
        ]
        if shards is not None:  # what was submitted is gone
            for number, _, _ in again:
                self.on_end(number, "")
        for request in again:
            self._submit_again(*request)

    def ask_again(self, page_url: str) -> None:
        """Ask other processes again for what *page_url* waits for, because an answer was lost."""
        if self._threads is not None:
            for number in self.store.pending_of(page_url):
                self.ask(number, page_url)

    def forget_shard(self, number: int) -> None:
        """Delete the pages of shard *number*, which has left, and what guests need of its hosts."""
        if self._threads is None:
            return
        for url in [url for url in self._pages if self._shard_of(url) == number]:
            for request in self.store.pending_of(url):
                self.on_end(request, url)
            self._delete(url)
        for request, url, page_url in self.store.pending():
            if self._shard_of(url) == number and page_url not in self._pages:
                self.on_end(request, page_url)
                self.store.forget_need(page_url, request)

    def close(self) -> None:
        """End the engines and close the store. Passes that are under way are made again."""
        for worker in self._workers:
            worker.stop()
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
            self._threads = None
        for worker in self._workers:  # a pass that was just beginning has started it again
            worker.stop()
        self.store.close()

    @property
    def is_full(self) -> bool:
        """Return whether no more pages may wait."""
        return len(self._pages) >= _PAGES

    # --- pages

    def keep(self, entry: Entry, exchange: bytes, shape: int = 0, place: str = "") -> None:
        """Store the *exchange* of the page of *entry*, to be rendered. It came from *place*.

        A candidate with a *shape* is only rendered if pages of this shape gain by it.
        """
        now = self._clock()
        self._delete(entry.url)  # that of an earlier visit, if it is still there
        self.store.keep(entry.url, key(entry).to_bytes(8, "big"), now, shape, exchange, place=place)
        self._check(entry.url, self._add(entry.url, key(entry), now, shape))
        self._count("render/pages")

    def _add(self, url: str, page_key: int, since: float, shape: int) -> _Waiting:
        page = _Waiting(page_key, since, shape)
        self._pages[url] = page
        self._deadlines.append((since + self._wait_secs, url))
        return page

    def has(self, entry: Entry) -> bool:
        """Return whether the page of *entry* is in the store."""
        return self._find(entry) is not None

    def _find(self, entry: Entry) -> _Waiting | None:
        page = self._pages.get(entry.url)
        return page if page is not None and page.key == key(entry) else None

    def is_waiting(self, entry: Entry) -> bool:
        """Return whether *entry* has to wait for passes."""
        page = self._find(entry)
        return page is not None and not page.is_ready

    def may_pass(self, gate: str, entry: Entry) -> bool:
        """Return whether *entry* passes the gate with this name, as its page was fetched."""
        return gate != RENDERING and self.has(entry)

    def gate(self) -> RenderGate:
        """Return a gate for a shard, which holds the URLs of pages that wait."""
        return RenderGate(self, clock=now)

    def rendered_page(self, entry: Entry) -> SavedPage | None:
        """Return the page of *entry* if its last pass is over; None otherwise."""
        page = self._find(entry)
        return self.store.page(entry.url) if page is not None and page.is_ready else None

    def forget(self, entry: Entry) -> None:
        """Delete the page of *entry*, which is finished, if it is there.

        Other entries of the same URL, such as subresources, leave the page where it is.
        """
        if self.has(entry):
            self._delete(entry.url)

    def _delete(self, url: str) -> None:
        page = self._pages.pop(url, None)
        if page is not None:
            self._ready -= page.is_ready
            self._due.pop(url, None)
            self.store.forget(url)
            self._end_sample(url, page.shape)

    # --- subresources

    #: Makes the answer for ``end_subresource`` of a Response.
    answer_of = staticmethod(answer_of)

    def end_subresource(
        self,
        number: int,
        page_url: str,
        outcome: str,
        answer: Answer | None,
        *,
        was_sent: bool = False,
        at: float = 0.0,
    ) -> None:
        """Store the *answer* to the request *number*, or *outcome* as why there is none.

        *page_url* is the page in whose turn it was sent or refused. The answer came now, or to
        another process at the time *at*. If only this page may have the
        answer, or only this page is refused, the others wait for another one.
        """
        sent = self.store.pending_request(number)
        if sent is None:  # no page waits for it any more
            self.on_end(number, page_url, was_sent=was_sent)
            return
        if answer is None:
            # Other outcomes would be the same in the turns of other pages.
            owner = page_url if outcome == PRIVATE_ADDRESS else ""
            ended = self.store.refuse(number, outcome, owner)
        else:
            ended = self.store.answer(number, answer, page_url, at)
        # Pages that have got this answer.
        for needing in self.store.pages_needing(ended, answered=True):
            page = self._pages.get(needing)
            if page is None:  # a guest
                self._remote.give(ended, needing, was_sent=was_sent and needing == page_url)
            elif not page.is_ready:
                page.pending &= self.store.pending_of(needing)
                page.is_denied |= outcome in _DENIALS
                self._check(needing, page)
        # Pages that have not: the request is submitted again in their turn.
        waiting = self.store.pages_needing(number, answered=False)
        self.on_end(number, page_url if waiting else "", was_sent=was_sent)
        for one in waiting:
            self._submit_again(number, sent.url, one)

    def _submit_again(self, number: int, url: str, page_url: str) -> None:
        """Submit the request *number* for *url* and the page *page_url*, which waits for it."""
        refusal = self._submit(url, number, page_url)
        if refusal:
            ended = self.store.refuse(number, refusal, page_url)
            page = self._pages.get(page_url)
            if page is None:  # a guest
                self._remote.give(ended, page_url)
                return
            page.pending.discard(number)
            self._check(page_url, page)

    def receive(self, content: bytes) -> None:
        """Process *content* from another process."""
        if self._threads is None:
            return
        try:
            message = decode(content)
        except UndecodableError:
            self._count("render/unreadable")
            return
        if isinstance(message, Wanted):
            # A page of this process asks by itself.
            if message.page not in self._pages:
                self._remote.serve(message)
                self._deadlines.append((self._clock() + self._wait_secs, message.page))
            return
        for number in self._remote.ended_by(message):
            self.end_subresource(
                number,
                message.page,
                message.outcome,
                message.answer,
                was_sent=message.was_sent,
                at=message.at,
            )

    def _need(self, page_url: str, page: _Waiting, subresources: list[Subresource]) -> None:
        """Request those of *subresources* that are not stored yet; *page* waits for them."""
        for subresource in subresources:
            audience = self._audience_of(subresource.url, page_url)
            need = self.store.need(page_url, subresource, audience)
            # Requests that other pages have sent before do not count.
            is_foreign = need.is_new and domain_of(subresource.url) != domain_of(page_url)
            page.foreign += is_foreign
            # Whether the page has requested as much as it may.
            is_over = page.asked >= _NEEDS or (is_foreign and page.foreign > _FOREIGN_NEEDS)
            refusal = ""
            if need.is_new and is_over:
                refusal = "over_page_limit"
                self._count("render/outcome/over_page_limit")
            elif need.must_wait:
                refusal = self._submit(subresource.url, need.number, page_url)
            if refusal:
                self.store.refuse(need.number, refusal, page_url)
                continue
            page.asked += 1
            if need.must_wait:
                page.pending.add(need.number)

    # --- passes

    def _check(self, url: str, page: _Waiting) -> None:
        """Make the next pass over *page* due if it waits for nothing."""
        if page.pending or page.is_running or page.is_ready:
            return
        if page.shape:
            self._decide(url, page)
        else:
            self._due[url] = None

    def _decide(self, url: str, page: _Waiting) -> None:
        """Make *page*, a candidate, due if pages like it gain by being rendered; or skip it."""
        tried, gained = self._verdicts.find(url, page.shape)
        if gained:
            self._due[url] = None
        elif tried >= SAMPLES:
            self._skip(url, page)
        else:
            self._render_or_hold(url, page)

    def _skip(self, url: str, page: _Waiting) -> None:
        """Make *page* ready as it was received."""
        self.store.end_pass(url, page.passes, 0, "", [])
        self._make_ready(page)
        self._count("render/spared")

    def _render_or_hold(self, url: str, page: _Waiting) -> None:
        """Make *page* due if it is the sample of pages like it; otherwise hold it meanwhile."""
        group = (host_of(url), page.shape)
        if self._samples.setdefault(group, url) == url:
            self._due[url] = None
        else:
            self._held.setdefault(group, []).append(url)

    def _note_sample(self, url: str, page: _Waiting, html: str) -> None:
        """Note whether *page*, if it is a sample, has gained by being rendered as *html*."""
        if self._samples.get((host_of(url), page.shape)) == url:
            before = outline_of(self._answer_of(self.store.page(url).exchange).body)
            gained = bool(html) and before.is_gain(outline_of(html.encode("utf-8", "replace")))
            # A second sample would be denied the same scripts and data.
            samples = SAMPLES if page.is_denied and not gained else 1
            self._verdicts.note(url, page.shape, gained=gained, samples=samples)
            self._end_sample(url, page.shape)

    def _end_sample(self, url: str, shape: int) -> None:
        """Check the pages that wait for *url*, if it is a sample; their RENDER_WAIT_SECS begin now.

        The first of them becomes the next sample, unless the verdict is known now.
        """
        group = (host_of(url), shape)
        now = self._clock()
        if self._samples.get(group) != url:
            return
        del self._samples[group]
        for held_url in self._held.pop(group, []):
            held = self._pages.get(held_url)
            if held is not None and held.shape == shape:
                held.since = now
                self._deadlines.append((now + self._wait_secs, held_url))
                self._check(held_url, held)

    def work(self) -> None:
        """Collect the results of passes, and begin those that are due. Raises OSError."""
        for future in [one for one in self._running if one.done()]:
            self._end_pass(*self._running.pop(future), future.result())

        now = self._clock()
        while self._deadlines and self._deadlines[0][0] <= now:
            _, url = self._deadlines.popleft()
            page = self._pages.get(url)
            if page is None:
                self.store.forget_guest(url, now - self._wait_secs + _SKEW_SECS)
            # The deadline may be that of an earlier page with this URL, or was moved by a sample.
            elif now >= page.since + self._wait_secs:
                page.pending.clear()
                self._check(url, page)

        # Two passes for each worker, so that none is idle until the next call.
        while self._due and len(self._running) < 2 * len(self._workers):
            url = next(iter(self._due))
            del self._due[url]
            self._begin_pass(url)

    def _begin_pass(self, url: str) -> None:
        """Start a pass over the page *url* in a thread."""
        assert self._threads is not None
        page = self._pages[url]
        page.is_running = True
        saved = self.store.page(url)
        order = Pass(url, self._answer_of(saved.exchange), fetched_at=saved.since)
        self._running[self._threads.submit(self._render, order)] = url, page

    def _render(self, order: Pass) -> Rendering:
        """Render with an idle worker; there are as many as threads. Blocks."""
        worker = self._idle.get()
        try:
            return worker.render(order)
        finally:
            self._idle.put(worker)

    def _end_pass(self, url: str, page: _Waiting, rendering: Rendering) -> None:
        """Decide whether *page*, with *url*, is ready, or what it must wait for."""
        self._count("render/passes")
        self._count(f"render/ended/{rendering.ended}")
        if self._pages.get(url) is not page:
            return  # it was finished in the meantime, perhaps fetched again
        page.is_running = False
        page.passes += 1
        failed = rendering.ended != "settled"
        page.failures += failed
        page.in_vain += not rendering.answers > page.answers
        page.answers = max(page.answers, rendering.answers)

        missing = rendering.missing
        bound = self._bound(page, rendering) if missing or failed else ""
        # Nothing is missing: another pass would give the same.
        is_last = bool(bound) or not (missing or failed)
        if is_last:
            rendering.refused += [(one.url, bound) for one in missing]
        else:
            page.was_tall |= rendering.late > 0
            self._need(url, page, missing)
        if bound:
            self._count(f"render/bound/{bound}")
        self.store.end_pass(
            url,
            page.passes,
            page.failures,
            rendering.html if is_last else None,
            rendering.refused,
        )
        if is_last:
            self._make_ready(page)
            self._note_sample(url, page, rendering.html)
            self._count("render/rendered" if rendering.html else "render/failed")
        else:
            self._check(url, page)

    def _bound(self, page: _Waiting, rendering: Rendering) -> str:
        """Return the bound that *page* has reached with its last pass, *rendering*; "" if none."""
        if page.failures >= _FAILURES:
            return "failures"
        if page.passes >= _PASSES or page.in_vain >= _PASSES_IN_VAIN:
            return "passes"
        if self._clock() >= page.since + self._wait_secs:
            return "wait"
        # A list that grows as it is scrolled has no end.
        is_late = 0 < rendering.late == len(rendering.missing)
        return "window" if page.was_tall and is_late else ""

    def _make_ready(self, page: _Waiting) -> None:
        page.is_ready = True
        self._ready += 1

    @property
    def has_pages(self) -> bool:
        """Return whether any page is in the store."""
        return bool(self._pages)

    @property
    def has_ready(self) -> bool:
        """Return whether a page waits to be handed out."""
        return self._ready > 0


class RenderGate(Gate):
    """Gate that holds the URLs of pages that are being rendered. *clock* returns seconds."""

    name = RENDERING
    spares_visits = False
    may_outlive_crawl = False

    def __init__(self, passes: Passes, *, clock: TimeSource) -> None:
        self._passes = passes
        self._clock = clock
        self._next_pass = 0.0

    def tells_apart(self, entry: Entry) -> bool:  # noqa: ARG002  # part of the interface
        """Return whether pages wait: ``Passes.may_pass`` also looks at the single URL then."""
        return self._passes.has_pages

    def must_wait(self, entry: Entry) -> bool:
        """Return whether the page of *entry* is being rendered."""
        return self._passes.is_waiting(entry)

    def advance(self, supply: Supply) -> bool:  # noqa: ARG002  # part of the interface
        """Return whether some pages are ready."""
        if not self._passes.has_ready or self._clock() < self._next_pass:
            return False
        self._next_pass = self._clock() + _GATE_SECS
        return True
