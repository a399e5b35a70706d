"""Builds one queue segment from the pages of stored sources."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import msgspec

from webcrawl.clock import now
from webcrawl.crawl.links.page_intake import PageIntake, PageResult
from webcrawl.crawl.seeds import BadLine, parse_line
from webcrawl.crawl.seeds.seed_line import can_be_written
from webcrawl.frontier.entry import decode
from webcrawl.hosts.robots.grammar import read
from webcrawl.items import Page, is_success
from webcrawl.jobs.inspect.stopped_job import StoppedJob, open_stopped_job
from webcrawl.jobs.replay.sources import UNREADABLE, StoredPages, source_bytes, stored_urls
from webcrawl.seen.fingerprint import fingerprint
from webcrawl.signals import ROBOTS
from webcrawl.urls import SCHEMES, normalize

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from scrapy.crawler import Crawler

    from webcrawl.jobs.queue.queue_directory import QueueDirectory, Segment

_MAX_TAKEN = 1000
_CHECKPOINT_SECS = 60.0


class Built(msgspec.Struct):
    """Result of building a segment.

    sources: the number of sources that were read.
    pages: the number of new pages in them.
    links: the number of links on these pages.
    new: how many links and seeds were not seen before.
    refused: how many links were refused by filters.
    remainder: the number of URLs that were handed back by crawls.
    unsayable: how many URLs were left out because they do not fit a line of a seed list.
    unreadable: a sentence for each source that could not be read to its end.
    segment: the new segment, or None if there are no URLs for it.
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
    """Read new pages of *sources* and the seed lists *seeds*; write the next segment of *queue*.

    The state of the queue is the job in the settings of *crawler*. *on_progress* is called with a
    number and its unit. Raises FatalError with one sentence.
    """
    queue.path.mkdir(parents=True, exist_ok=True)
    with open_stopped_job(crawler) as stopped, closing(queue):
        queue.open(stopped.job.own.saved_snapshot("queue"))
        stopped.job.own.attach("queue", queue)
        run = _Run(stopped, queue, on_progress)
        # First, so that links to crawled pages are not new.
        ranges = run.mark_crawled(sources)
        run.take_remainders()
        run.take_seeds(seeds)
        run.read(ranges)
        # After this, no page is read again, so each URL is in only one segment.
        stopped.publish()
        run.built.segment = queue.write_segment()
    return run.built


class _Run:
    """A single run of the queue builder. *queue* is open, and part of the job *stopped*."""

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
        (self._shard,) = stopped.state.shards  # the job of a queue has one shard
        self._shard.intake.tells_foreign = False  # a segment names each URL once
        self._queue = queue
        self._pages = StoredPages.from_settings(stopped.crawler.settings)
        self._on_progress = on_progress
        self._saved_at = now()  # when the last checkpoint was published

    def mark_crawled(self, sources: Sequence[Path]) -> dict[Path, tuple[int, int]]:
        """Mark the URLs of the pages in *sources* as seen, and return what is to be read.

        That is the range of offsets in each source that earlier runs have not read. Pages that are
        added to a source meanwhile are left for the next run, because their URLs are not marked.
        """
        ranges = {path: (self._unread_offset(path), source_bytes(path)) for path in sources}
        marked = 0
        for path, (start, end) in ranges.items():
            for url in stored_urls(path, start=start, end=end):
                self._mark_seen(url)
                marked += 1
                self._on_progress(marked, "URLs")
        return ranges

    def take_remainders(self) -> None:
        """Add the URLs that crawls have handed back to the segment.

        They bypass the eliminator, which has let them through before.
        """
        for path in self._queue.remainders():
            with path.open("rb") as file:
                for line in file:
                    try:
                        parsed = parse_line(line)
                    except BadLine:  # the line is damaged; the others are not
                        continue
                    if parsed is not None:  # None for an empty line or a comment
                        url, rank = parsed
                        self._mark_seen(url)
                        self._queue.add([(url, rank or 0)])
                        self.built.remainder += 1

    def take_seeds(self, names: Sequence[str]) -> None:
        """Submit the seeds in the seed lists *names*, and add the new ones to the segment."""
        if not names:
            return
        for seeds in self._stopped.submit_seeds(names):
            self._on_progress(seeds.seeds_read, "seeds")
            self._add_new()
        self.built.unreadable += [f"{clause}." for clause in seeds.damaged]
        self._add_all()

    def read(self, ranges: dict[Path, tuple[int, int]]) -> None:
        """Submit the links of the pages in *ranges*, and add the new ones to the segment.

        *ranges* is the result of ``mark_crawled``.
        """
        for path, (start, end) in ranges.items():
            self._read_source(path, start, end)
            self.built.sources += 1
        self._add_all()

        # Links are refused before they are assigned to a shard, or by the shard.
        refused_counts = (self._links.refused, self._shard.intake.refused)
        self.built.refused = sum(counts.total() for counts in refused_counts)

    def _unread_offset(self, path: Path) -> int:
        """Return the offset in the source *path* up to which earlier runs have read it."""
        start = self._queue.progress.offsets.get(str(path.absolute()), 0)
        # A file that is shorter now was replaced by another one.
        return start if start <= source_bytes(path) else 0

    def _read_source(self, path: Path, start: int, end: int) -> None:
        """Submit the links of the pages in the source *path* from offset *start* to *end*."""
        offsets = self._queue.progress.offsets
        name = str(path.absolute())
        pages = self._pages.of(path, start=start, robots=True)
        while True:
            try:
                stored = next(pages, None)
            except UNREADABLE as error:
                self.built.unreadable.append(f"{error}")
                return
            if stored is None or stored.offset >= end:
                break

            # A checkpoint now would have the offset of this page, not of the next one, which is not
            # known yet. Then the page is read twice, and its links are found to be seen.
            offsets[name] = stored.offset
            self._submit(stored.page)
            self.built.pages += stored.page.kind != ROBOTS
            self._on_progress(self.built.pages, "pages")
            self._add_new()

            if now() - self._saved_at >= _CHECKPOINT_SECS:
                self._stopped.publish()
                self._saved_at = now()
        # If the source has grown meanwhile, the next run begins with the last page again.
        if source_bytes(path) == end:
            offsets[name] = end

    def _submit(self, page: Page) -> None:
        """Submit the links of *page*, or the sitemaps that it names if it is a robots.txt file."""
        if page.kind == ROBOTS:
            if is_success(page.status):
                sitemaps = read(page.body, tokens=()).sitemaps
                self._links.submit_sitemaps(sitemaps, via=page.url, depth=0)
            return

        content = self._shard.content
        result = PageResult()
        # The links were found already, when the page was read.
        links, _ = self._intake.read(page, lambda _: None, content=content, result=result)
        self._intake.submit(page, links, result=result, chain=b"")
        self.built.links += len(links)
        if result.claim:  # the document is new; later copies of it are duplicates
            content.commit(result.claim)

    def _mark_seen(self, url: str) -> None:
        """Mark *url* as seen, however it is spelled."""
        form = self._links.comparison_form(normalize(url, schemes=SCHEMES) or url)
        self._shard.eliminator.add(fingerprint(form))

    def _add_new(self) -> None:
        """Add the URLs that are known to be new to the segment; wait if too many are undecided."""
        eliminator = self._shard.eliminator
        while eliminator.has_decided or eliminator.is_full:
            # If it is full, but no URL can be taken, it must first decide which ones are new.
            if not self._add_some() and eliminator.is_full:
                self._stopped.decide()

    def _add_all(self) -> None:
        """Wait until all links are known to be new or not, and add the new ones to the segment."""
        self._stopped.decide()
        while self._shard.eliminator.waiting:
            self._add_some()

    def _add_some(self) -> int:
        """Add some of the new URLs to the segment, and return how many were taken."""
        entries = [decode(payload) for payload in self._shard.eliminator.take(_MAX_TAKEN)]
        urls = [
            (entry.url, entry.rank) for entry in entries if can_be_written(entry.url, entry.rank)
        ]
        self.built.new += len(urls)
        self.built.unsayable += len(entries) - len(urls)
        self._queue.add(urls)
        return len(entries)


def _fail(error: Exception) -> None:
    """Raise *error*, because a run ends at its first error."""
    raise error
