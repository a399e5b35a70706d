"""Scrapy's parts that are imported only if they are on: each takes 0.1 to 0.2 s of every start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import NotConfigured

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.downloadermiddlewares import cookies
    from scrapy.extensions import remote_control


class RemoteControl:
    """Extension: Scrapy's of that name, which imports aiohttp."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> remote_control.RemoteControl:
        """NotConfigured without REMOTE_CONTROL_ENABLED."""
        if not crawler.settings.getbool("REMOTE_CONTROL_ENABLED"):
            raise NotConfigured
        from scrapy.extensions.remote_control import RemoteControl  # noqa: PLC0415  # see above

        return RemoteControl.from_crawler(crawler)


class CookiesMiddleware:
    """Downloader middleware: Scrapy's of that name, which imports tldextract and requests."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> cookies.CookiesMiddleware:
        """NotConfigured without COOKIES_ENABLED."""
        if not crawler.settings.getbool("COOKIES_ENABLED"):
            raise NotConfigured
        from scrapy.downloadermiddlewares.cookies import CookiesMiddleware  # noqa: PLC0415

        return CookiesMiddleware.from_crawler(crawler)
