"""Serves metrics and health of a crawl over HTTP on METRICS_PORT; metrics_site.py has the pages.

If METRICS_PORT is in use, another port is used, because a crawl must not fail because of its
metrics. The actual port is in ``JOBDIR/ports.json`` while the crawl runs.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured
from twisted.internet.error import CannotListenError

from webcrawl.configuration.values import port_number
from webcrawl.crawl.job.ports import note_port
from webcrawl.scheduler import process_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from twisted.web.server import Site

logger = logging.getLogger(__name__)


class Metrics:
    """Extension that serves metrics while the crawl runs."""

    def __init__(self, *, crawler: Crawler, host: str, port: int) -> None:
        self._crawler = crawler
        self._host = host
        self._port = port
        self._jobdir = crawler.settings["JOBDIR"]
        self._listening: Any = None  # Zope's interfaces are not types

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        port = port_number(settings, "METRICS_PORT")
        if not port:
            raise NotConfigured
        metrics = cls(crawler=crawler, host=str(settings["METRICS_HOST"]), port=port)
        crawler.signals.connect(metrics.spider_opened, signal=signals.spider_opened)
        return metrics

    def spider_opened(self) -> None:
        """Start to listen, and log the address."""
        process = process_of(self._crawler)
        if process is None:
            return
        from webcrawl.extensions.metrics_site import site_of  # noqa: PLC0415  # it takes 0.15 s

        self._listening = self._listen(site_of(process))
        if self._listening is None:
            return

        self._crawler.signals.connect(self.engine_stopped, signal=signals.engine_stopped)
        port = self._listening.getHost().port
        host = f"[{self._host}]" if ":" in self._host else self._host
        level = logging.INFO
        why = ""
        if port != self._port:
            level = logging.WARNING
            why = f", because METRICS_PORT {self._port} is not available"
        logger.log(level, "Metrics are at http://%s:%d/metrics%s", host, port, why)
        self._crawler.stats.set_value("metrics/address", f"{host}:{port}")
        if self._jobdir:  # a free port is not in the settings, where other commands could find it
            note_port(Path(self._jobdir), "metrics", port)

    def _listen(self, site: Site) -> Any:
        """Listen on METRICS_PORT or else on any free port (0); return None if that fails too."""
        from twisted.internet import reactor  # noqa: PLC0415  # a crawl has installed it by now

        listen: Any = reactor.listenTCP
        for port in (self._port, 0):
            try:
                return listen(port, site, interface=self._host)
            except (CannotListenError, OverflowError) as error:
                reason = error
        logger.warning("Metrics are not served, because METRICS_HOST cannot be used: %s", reason)
        return None

    def engine_stopped(self) -> None:
        self._listening.stopListening()
        if self._jobdir:
            note_port(Path(self._jobdir), "metrics", 0)
