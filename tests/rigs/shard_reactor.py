"""One process of the shard model at work: what the reactor does with the parts of a job.

Each method of ``Reactor`` is one turn of the event loop, as the scheduler, the dispatcher, the web
spider and the checkpointer make it; publishing a checkpoint is the work of a thread, during which
other turns go by. The judge is told of everything that the outside can notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.http import Response
from seen_rig import HeldExecutor
from shard_process import MAX_CRAWL_DELAY, POLICY, RETRY_TIMES, Flight

from webcrawl.crawl.lease.fetch import PageState
from webcrawl.frontier.delay_policy import cut_off
from webcrawl.hosts.budgets.depths import Depths
from webcrawl.items import Page
from webcrawl.net.outcomes import ConnectionLostError
from webcrawl.urls import Link

if TYPE_CHECKING:
    import random
    from collections import Counter

    from shard_judge import Judge
    from shard_process import Process
    from shard_world import World

EPOCH = 1_700_000_000.0
LEASE_SECS = 500.0


class Clock:
    """Epoch time, and how often the machine was started."""

    def __init__(self) -> None:
        self.now = EPOCH
        self.boots = 0

    def __call__(self) -> float:
        return self.now

    def reboot(self, *, takes: float) -> None:
        self.now += takes
        self.boots += 1


class Reactor:
    """Drives *process*; *events* counts what happened."""

    def __init__(
        self,
        process: Process,
        *,
        judge: Judge,
        world: World,
        clock: Clock,
        rng: random.Random,
        events: Counter[str],
    ) -> None:
        self.process = process
        self.judge = judge
        self.world = world
        self.clock = clock
        self.rng = rng
        self.events = events
        # While a checkpoint is published the reactor goes on, unless the crawl is being closed.
        self._goes_on = False
        self.is_stopping = False

    # --- what a crawl does, each in one turn of the reactor

    def read_seeds(self, limit: int) -> None:
        """``WebSpider.start``."""
        seeds = self.process.seeds
        if not seeds.exhausted and not self.process.eliminator.is_full:
            self.process.links.submit_seeds(seeds.read(limit))

    def next_request(self) -> bool:
        """``MercatorScheduler.next_request``, one lease; False when none is to be had now."""
        process = self.process
        lease = process.frontier.acquire()
        if lease is None:
            return False
        entry = lease.entry
        leased = sum(flight.has_lease and flight.entry == entry for flight in process.flights)
        self.judge.handed_out(entry, leased=leased, now=self.clock.now)
        self.judge.begin_finish(entry, None, process.frontier)
        finished = process.frontier.stats()["frontier/finished"]
        request = process.dispatcher.dispatch(lease)
        # Otherwise it may have to wait: its host was perhaps contacted before the power was cut.
        is_over = process.frontier.stats()["frontier/finished"] > finished
        self.judge.end_finish(happened=is_over)
        if request is None and not is_over:
            return True
        if request is None:
            self.events["URLs given up"] += 1
            return True
        process.flights.append(Flight(request, request.meta["fetch"], self.clock.now))
        self.judge.contacted(entry.host, now=self.clock.now)
        self.events["contacts"] += 1
        return True

    def proceed(self, pick: int, took: float) -> None:
        """One request goes one stage further: downloaded, given to the spider, done."""
        flights = self.process.flights
        if flights:
            flight = flights[pick % len(flights)]
            if flight.stage == "download":
                self._download(flight, took)
            elif flight.stage == "parse":
                self._parse(flight)
            else:
                self._done(flight)

    def _download(self, flight: Flight, took: float) -> None:
        """``MercatorDownloader.fetch``."""
        fetch, host = flight.fetch, flight.entry.host
        flight.stage = "done"
        pause, result = 0.0, None
        is_expired = fetch.page.state is PageState.EXPIRED
        is_broken_off = fetch.page.state is PageState.PUT_BACK
        if not is_broken_off:
            self.clock.now += took
            fetch.sent_at, fetch.took = 0.0, took
            result, pause = self._answer(flight)
            if isinstance(result, Response):
                flight.stage = "parse"
        if not is_expired:
            # Even if the process dies while it writes this down.
            rest = 0.0 if is_broken_off else cut_off(POLICY, took)
            self.judge.left(host, until=self.clock.now + rest)
        fetch.end_download(result)
        if not is_expired and not self.process.stop.has_begun:
            self.judge.truth.rest(host, self.clock.now + min(pause, MAX_CRAWL_DELAY))

    def _answer(self, flight: Flight) -> tuple[Response | Exception, float]:
        """What the web says, and how long the host asks us to stay away."""
        fetch, request = flight.fetch, flight.request
        host = self.world.host_of(request.url)
        if fetch.robots_url:
            host.robots_tries += 1
            if host.is_dead or host.robots_tries <= host.robots_fails:
                return ConnectionLostError(), 0.0
            return Response(request.url, body=host.robots, request=request), host.crawl_delay
        assert self.world.is_allowed(request.url), f"{request.url} must not be fetched"
        document = self.world.documents[request.url]
        if flight.entry.attempts < document.fails:
            return ConnectionLostError(), host.crawl_delay
        response = Response(
            request.url, status=document.status, body=document.body, request=request
        )
        if document.status == 503:
            response.headers["Retry-After"] = "50"
        return response, max(host.crawl_delay, 50 if document.status == 503 else 0)

    def _parse(self, flight: Flight) -> None:
        """``WebSpider.parse``."""
        flight.stage = "done"
        fetch, url = flight.fetch, flight.request.url
        if fetch.robots_url:
            return
        document = self.world.documents[url]
        page = Page(
            url=url,
            status=document.status,
            headers=[],
            body=document.body,
            wire_body=document.body,
            fetched_at=self.clock(),
            depth=flight.entry.depth,
            rank=flight.entry.rank,
            redirect_target=document.target or "",
        )

        def find(page: Page) -> None:
            page.links = [Link(url=link) for link in dict.fromkeys(document.links)]

        intake, result = self.process.intake, fetch.page
        links, _ = intake.read(page, find, content=self.process.content, result=result)
        if result.document and result.state <= PageState.DUPLICATE:
            if not self.process.stop.has_begun:  # else nothing is finished any more
                self.judge.tested(flight, result.document, is_seen=result.is_duplicate)
            self.events["duplicates"] += result.is_duplicate
        depths = Depths.of_entry(flight.entry)
        chain = flight.entry.chain
        if not intake.submit(page, links, result=result, chain=chain, depths=depths):
            return
        if result.is_duplicate:
            return
        # A processing module may raise.
        if self.rng.random() < 0.02:
            fetch.page.becomes(PageState.FAILED)

    def _done(self, flight: Flight) -> None:
        """The engine is through with the request."""
        fetch, entry, stop = flight.fetch, flight.entry, self.process.stop
        state = fetch.page.state
        finishes = flight.has_lease and state is not PageState.PUT_BACK and not stop.has_begun
        if finishes:
            failed = fetch.response is None or fetch.response.status == 503
            if failed and entry.attempts < RETRY_TIMES:
                self.judge.will_be_tried_again(entry)
            content = None if state is PageState.FAILED else fetch.page.claim or None
            self.judge.begin_finish(entry, content, self.process.frontier)
        self.process.flights.remove(flight)
        self.process.completion.done(flight.request)
        if stop.has_begun:
            self.judge.settle_finish()
        else:
            self.judge.end_finish(happened=True)
            self.events["URLs finished"] += finishes
        self.judge.discarded(flight)

    # --- what goes on between requests

    def work(self, limit: int) -> None:
        """``MercatorScheduler._work``."""
        process, now = self.process, self.clock.now
        process.frontier.push(process.eliminator.take(limit))
        expiring = [
            flight
            for flight in process.flights
            if (flight.stage == "download" or not flight.fetch.robots_url)
            and flight.fetch.page.state is not PageState.EXPIRED
            and now - flight.sent_at > LEASE_SECS
        ]
        for flight in expiring:
            self.events["leases expired"] += 1
            self.judge.discarded(flight)
            if flight.stage == "download":
                rest = cut_off(POLICY, now - flight.sent_at)
                self.judge.left(flight.entry.host, until=now + rest)
        process.completion.expire(LEASE_SECS, spares_pages=False)
        assert all(flight.fetch.page.state is PageState.EXPIRED for flight in expiring)

    def merge(self) -> None:
        self.process.eliminator.merge()

    def let_worker_work(self) -> None:
        """One piece of what waits for the worker."""
        if isinstance(self.process.executor, HeldExecutor):
            self.process.executor.step()

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.clock.now += seconds

    def wait_for_host(self) -> None:
        """Sleep until the frontier says that a host is ready."""
        ready_at = self.process.frontier.ready_at()
        if ready_at is not None:
            self.clock.now = max(self.clock.now, ready_at)

    # --- checkpoints: ``Checkpointer.make`` in its steps

    def prepare(self) -> None:
        process = self.process
        if process.prepared is None:
            promised = {"checkpoint": self.judge.promise(), "seed": process.job.seed}
            process.job.shard("00").facts = promised
            process.prepared = process.job.prepare({})

    def publish(self) -> None:
        process = self.process
        if process.prepared is None or process.is_published:
            return
        self._goes_on = not self.is_stopping
        try:
            for _ in process.prepared.gather():
                self.go_on()
            process.job.publish(process.prepared)
        finally:
            self._goes_on = False
        process.is_published = True
        names = [path.name for path in process.job.path.iterdir() if path.is_file()]
        assert len(names) == 4, f"left over beside LOCK and CURRENT: {names}"
        names = [one.name for one in process.job.shard("00").path.iterdir() if one.is_file()]
        assert len(names) == 3, f"left over beside CURRENT of the shard: {names}"

    def go_on(self) -> None:
        """A checkpoint is being published in a thread, and the reactor goes on beside it."""
        if not self._goes_on or self.rng.random() < 0.8:
            return
        self._goes_on = False
        try:
            self.crawl_on()
        except OSError as error:
            self.process.stop.fail(error)
        finally:
            self._goes_on = True

    def forget(self) -> None:
        process = self.process
        if process.is_published:
            process.job.forget()
            job = process.job
            assert not any(state._unsynced for state in (job.own, job.shard("00")))
            process.prepared, process.is_published = None, False
            self.events["checkpoints"] += 1

    def give_up_checkpoint(self) -> None:
        """A processing module could not store its pages."""
        if not self.process.is_published:
            self.process.prepared = None

    def checkpoint(self) -> None:
        self.prepare()
        self.publish()
        self.forget()

    def land(self) -> None:
        """The crawl is being closed: no new requests, those under way come to their ends."""
        self.is_stopping = True
        process = self.process
        while process.flights:
            flight = process.flights[-1]
            if flight.stage == "download" and self.rng.random() < 0.5:
                flight.fetch.page.becomes(PageState.PUT_BACK)
            try:
                self.proceed(len(process.flights) - 1, 0.1)
            except OSError as error:
                process.stop.fail(error)

    # --- at random

    def crawl_on(self) -> None:
        """One thing that a crawl does, at random."""
        rng = self.rng
        what = rng.random()
        if what < 0.35:
            self.proceed(rng.randrange(99), rng.choice((0.0, 0.05, 0.5, 5.0)))
        elif what < 0.6:
            if not self.next_request() and rng.random() < 0.5:
                self.wait_for_host()
        elif what < 0.8:
            self.work(rng.choice((1, 3, 256)))
        elif what < 0.86:
            self.merge()
        elif what < 0.93:
            self.let_worker_work()
        elif what < 0.97:
            self.read_seeds(rng.randrange(1, 5))
        elif what < 0.998:
            self.wait(rng.choice((0.01, 1.0, 10.0)))
        else:
            self.wait(LEASE_SECS + 1)
