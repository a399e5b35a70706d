"""A user's own spider with what users of Scrapy bring along; test_addons.py runs it."""

import asyncio

from scrapy import Request, Spider
from scrapy.extensions.telnet import TelnetConsole
from spidermon import MonitorSuite
from spidermon.contrib.scrapy.monitors import (
    DownloaderExceptionMonitor,
    ErrorCountMonitor,
    FinishReasonMonitor,
    ItemCountMonitor,
    SuccessfulRequestsMonitor,
    TotalRequestsMonitor,
    UnwantedHTTPCodesMonitor,
)


class Shop(Spider):
    """A page of links to products, each of which has a file and an image."""

    name = "shop"

    def __init__(self, start=None):
        super().__init__()
        self.start_urls = [start]

    def parse(self, response):
        yield from response.follow_all(css="a", callback=self.parse_product)

    def parse_product(self, response):
        return {
            "url": response.url,
            "name": response.css("title::text").get(),
            "file_urls": [response.urljoin("/file.txt")],
            "image_urls": [response.urljoin("/image.png")],
        }


class ShopByTelnet(Shop):
    """The same, and looks at itself by way of the telnet console."""

    name = "telnet"

    async def parse(self, response):
        console = self.crawler.get_extension(TelnetConsole)
        reader, writer = await asyncio.open_connection("127.0.0.1", console.port.getHost().port)
        for prompt, answer in (
            (b"Username: ", console.username.encode() + b"\r\n"),
            (b"\xff\xfb\x01", b"\xff\xfd\x01"),  # WILL ECHO, DO ECHO
            (b"Password: ", console.password.encode() + b"\r\n"),
            (b"\xff\xfc\x01", b"\xff\xfe\x01"),  # WON'T ECHO, DON'T ECHO
            (b">>> ", b"est()\r\n"),
        ):
            await reader.readuntil(prompt)
            writer.write(answer)
        said = await reader.readuntil(b">>> ")
        writer.close()
        return {"url": response.url, "name": said.decode()}


class ShopInBrowser(Shop):
    """The same, with the pages as a browser has them when their scripts have run."""

    name = "browser"

    async def start(self):
        for url in self.start_urls:
            yield Request(f"{url}scripted", meta={"playwright": True})

    def parse(self, response):
        for request in response.follow_all(css="a", callback=self.parse_product):
            yield request.replace(meta={"playwright": True})


class Rendered:
    """A downloader middleware that has a browser fetch every page."""

    def process_request(self, request):
        request.meta["playwright"] = True


class Suite(MonitorSuite):
    """Spidermon's own, which judge by Scrapy's stats."""

    monitors = (
        *(ItemCountMonitor, ErrorCountMonitor, FinishReasonMonitor, UnwantedHTTPCodesMonitor),
        *(DownloaderExceptionMonitor, SuccessfulRequestsMonitor, TotalRequestsMonitor),
    )
