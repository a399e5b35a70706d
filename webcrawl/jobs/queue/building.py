"""Builder of one queue segment from the pages of stored sources."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import msgspec

from webcrawl.clock import now
from webcrawl.crawl.links.page_intake import PageIntake, PageResult
from webcrawl.crawl.seeds import BadLine, parse_line
from webcrawl.crawl.seeds.seed_line import fits_a_line
from webcrawl.frontier.entry import decode
from webcrawl.hosts.robots.grammar import read
from webcrawl.items import is_success
from webcrawl.jobs.inspect.stopped_job import open_stopped_job
from webcrawl.jobs.replay.sources import UNREADABLE, StoredPages, source_bytes, stored_urls
from webcrawl.seen.fingerprint import fingerprint
from webcrawl.signals import ROBOTS
from webcrawl.urls import SCHEMES, normalize

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from scrapy.crawler import Crawler

    from webcrawl.items import Page
    from webcrawl.jobs.inspect.stopped_job import StoppedJob
    from webcrawl.jobs.queue.queue_directory import QueueDirectory, Segment

_TAKEN_AT_ONCE = 1000
_CHECKPOINT_SECS = 60.0


class Built(msgspec.Struct):
    """Counts of a run.

    sources, pages: new sources and pages that were read.
    links: links on these pages.
    new: those of them that were not seen before.
    refused: links refused by filters.
    remainder: URLs handed back by crawls.
    unsayable: URLs that cannot be written as a line of a seed list, and were left out.
    unreadable: a sentence for each source that could not be read to its end.
    segment: None if there was nothing for it.
    """

    sources: int = 0
    pages: int = 0
    links: int = 0
    refused: int = 0
    new: int = 0
    remainder: int = 0
    unsayable: int = 0
    unreadable: list[str] = []
    segment: Segment | None = None


def build(
    crawler: Crawler,
    sources: Sequence[Path],
    *,
    queue: QueueDirectory,
    seeds: Sequence[str],
    on_progress: Callable[[int, str], None],
) -> Built:
    """Read new pages of *sources* and the seed lists *seeds*, and write *queue*'s next segment.

    The state of the queue is the job of *crawler*'s settings. *on_progress* is called with a number
    and its unit. Raises FatalError with one sentence.
    """
    queue.path.mkdir(parents=True, exist_ok=True)
    with open_stopped_job(crawler) as stopped, closing(queue):
        queue.open(stopped.job.own.saved("queue"))
        stopped.job.own.attach("queue", queue)
        run = _Run(stopped, queue, on_progress)
        spans = run.mark(sources)
        run.take_remainders()
        run.take_seeds(seeds)
        run.read(spans)
        # After this no source is read again, so each URL is in only one segment.
        stopped.publish()
        run.built.segment = queue.write_segment()
    return run.built


class _Run:
    """A single run over sources."""

    def __init__(
        self,
        stopped: StoppedJob,
        queue: QueueDirectory,
        on_progress: Callable[[int, str], None],
    ) -> None:
        self.built = Built()
        self._stopped = stopped
        self._links = stopped.state.links
        self._intake = PageIntake(links=self._links, fail=_fail)
        (self._shard,) = stopped.state.shards
        self._queue = queue
        self._pages = StoredPages.from_settings(stopped.crawler.settings)
        self._on_progress = on_progress
        self._saved_at = now()

    def mark(self, sources: Sequence[Path]) -> dict[Path, tuple[int, int]]:
        """Mark the crawled URLs as seen, and return the range of each source to be read.

        Pages that are added to a source meanwhile are left for the next run, because their URLs are
        not marked.
        """
        spans = {path: (self._start(path), source_bytes(path)) for path in sources}
        marked = 0
        for path, (start, end) in spans.items():
            for url in stored_urls(path, start=start, end=end):
                self._mark(url)
                marked += 1
                self._on_progress(marked, "URLs")
        return spans

    def take_remainders(self) -> None:
        """Put URLs handed back by crawls into the segment.

        They bypass the eliminator, which has already let them through.
        """
        for path in self._queue.remainders():
            with path.open("rb") as file:
                for line in file:
                    try:
                        found = parse_line(line)
                    except BadLine:
                        continue
                    if found is not None:
                        url, rank = found
                        self._mark(url)
                        self._queue.add([(url, rank or 0)])
                        self.built.remainder += 1

    def take_seeds(self, names: Sequence[str]) -> None:
        """Submit the seeds in the lists *names*."""
        if not names:
            return
        with self._stopped.seeds_of(names) as seeds:
            for count in self._stopped.submit(seeds):
                self._on_progress(count, "seeds")
                self._take_new()
            self.built.unreadable += [f"{clause}." for clause in seeds.damaged]
        self._take_all()

    def read(self, spans: dict[Path, tuple[int, int]]) -> None:
        """Submit the links of the pages in *spans*, the ranges that earlier runs did not read."""
        for path, (start, end) in spans.items():
            self._read_source(path, start, end)
            self.built.sources += 1
        self._take_all()
        refused = (self._links.refused, self._shard.intake.refused)
        self.built.refused = sum(counts.total() for counts in refused)

    def _start(self, path: Path) -> int:
        start = self._queue.progress.offsets.get(str(path.absolute()), 0)
        return start if start <= source_bytes(path) else 0  # the file was replaced

    def _read_source(self, path: Path, start: int, end: int) -> None:
        offsets, name = self._queue.progress.offsets, str(path.absolute())
        pages = self._pages.of(path, start=start, robots=True)
        while True:
            try:
                stored = next(pages, None)
            except UNREADABLE as error:
                self.built.unreadable.append(f"{error}")
                return
            if stored is None or stored.offset >= end:
                break
            offsets[name] = stored.offset
            self._submit(stored.page)
            self.built.pages += stored.page.kind != ROBOTS
            self._on_progress(self.built.pages, "pages")
            self._take_new()
            if now() - self._saved_at >= _CHECKPOINT_SECS:
                self._stopped.publish()
                self._saved_at = now()
        if source_bytes(path) == end:  # otherwise it grows, and the last page is read again
            offsets[name] = end

    def _submit(self, page: Page) -> None:
        if page.kind == ROBOTS:
            if is_success(page.status):
                sitemaps = read(page.body, token="").sitemaps
                self._links.submit_sitemaps(sitemaps, via=page.url, depth=0)
            return
        content, result = self._shard.content, PageResult()
        links, _ = self._intake.read(page, lambda _: None, content=content, result=result)
        self._intake.submit(page, links, result=result, chain=b"")
        self.built.links += len(links)
        if result.claim:
            content.commit(result.claim)

    def _mark(self, url: str) -> None:
        """Mark *url*, in any spelling, as crawled or about to be."""
        form = self._links.comparison_form(normalize(url, schemes=SCHEMES) or url)
        self._shard.eliminator.add(fingerprint(form))

    def _take_new(self) -> None:
        """Put URLs known to be new into the segment; wait if too many are undecided."""
        eliminator = self._shard.eliminator
        while eliminator.has_decided or eliminator.is_full:
            if not self._take() and eliminator.is_full:
                self._stopped.decide()

    def _take_all(self) -> None:
        """Wait until all links are decided, and put the new ones into the segment."""
        self._stopped.decide()
        while self._shard.eliminator.waiting:
            self._take()

    def _take(self) -> int:
        """Put some of the new URLs into the segment, and return their number."""
        entries = [decode(payload) for payload in self._shard.eliminator.take(_TAKEN_AT_ONCE)]
        urls = [(one.url, one.rank) for one in entries if fits_a_line(one.url, one.rank)]
        self.built.new += len(urls)
        self.built.unsayable += len(entries) - len(urls)
        self._queue.add(urls)
        return len(entries)


def _fail(error: Exception) -> None:
    raise error
