"""Scrapy's remote control, loaded only if it is on: it imports aiohttp, 0.2 s of each start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import NotConfigured

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.extensions.remote_control import RemoteControl as ScrapysRemoteControl


class RemoteControl:
    """Extension: Scrapy's of that name."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ScrapysRemoteControl:
        """NotConfigured without REMOTE_CONTROL_ENABLED."""
        if not crawler.settings.getbool("REMOTE_CONTROL_ENABLED"):
            raise NotConfigured
        from scrapy.extensions.remote_control import RemoteControl  # noqa: PLC0415  # 0.2 s

        return RemoteControl.from_crawler(crawler)
