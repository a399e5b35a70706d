"""Scrapy's remote control, imported only if enabled, because aiohttp takes 0.2 s to import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import NotConfigured

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.extensions.remote_control import RemoteControl as ScrapysRemoteControl


class RemoteControl:
    """Placeholder that loads Scrapy's extension of the same name, if it is enabled."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ScrapysRemoteControl:
        """Return Scrapy's extension. Raises NotConfigured without REMOTE_CONTROL_ENABLED."""
        if not crawler.settings.getbool("REMOTE_CONTROL_ENABLED"):
            raise NotConfigured
        from scrapy.extensions.remote_control import RemoteControl  # noqa: PLC0415  # 0.2 s

        return RemoteControl.from_crawler(crawler)
