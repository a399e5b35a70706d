"""Records a URL trace: all links of a crawl, in the file URL_TRACE."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured

from webcrawl.errors import FatalError
from webcrawl.scheduler import process_of
from webcrawl.seen.url_trace import UrlTrace
from webcrawl.signals import checkpoint
from webcrawl.urls import host_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

    from webcrawl.crawl.links.link_intake import LinkBatch, LinkSink


class UrlTraceRecorder:
    """Extension that records in *trace* all links from pages, seed lists and robots.txt."""

    def __init__(self, *, crawler: Crawler, trace: UrlTrace) -> None:
        self._crawler = crawler
        self._trace = trace
        crawler.signals.connect(self._open_trace, signal=signals.spider_opened)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        if not settings["URL_TRACE"]:
            raise NotConfigured
        # Drones share their settings, but each has its own job directory.
        directory = settings["JOBDIR"] if settings["HIVE"] else ""
        return cls(crawler=crawler, trace=UrlTrace(path=Path(directory) / settings["URL_TRACE"]))

    def _open_trace(self) -> None:
        """Open the trace, and record all links that are submitted from now on."""
        process = process_of(self._crawler)
        trace = self._trace
        if process is None:
            return
        try:
            trace.open()
        except FatalError as error:
            process.stop.fail(error)  # Scrapy would only log an exception raised here
            return
        self._crawler.signals.connect(trace.flush, signal=checkpoint)
        self._crawler.signals.connect(trace.close, signal=signals.spider_closed)
        # From now on, links pass through the recorder on their way to the sink they had before. In
        # a hive, links between shards may go to another process; otherwise hosts are compared.
        shards = process.shards
        links = process.parts.state.links
        place_of = shards.number_of if shards.number > 1 else str
        links.sink = _TracedLinks(links.sink, trace, place_of)


class _TracedLinks:
    """Sink that passes links on to *sink* and records them.

    *place_of* returns the shard of a host, or the host itself. A link is recorded as leaving if its
    host and its page's host are in different places.
    """

    def __init__(self, sink: LinkSink, trace: UrlTrace, place_of: Callable[[str], object]) -> None:
        self._sink = sink
        self._trace = trace
        self._place_of = place_of

    def submit(self, batch: LinkBatch) -> None:
        self._sink.submit(batch)
        place_of = self._place_of
        source = batch.source
        source_place = place_of(host_of(source.url))
        is_leaving = [bool(source.url) and place_of(host) != source_place for host in batch.hosts]
        self._trace.add(batch.fingerprints, is_leaving, source.at)
