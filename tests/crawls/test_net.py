"""Handler, resolver and decoding wired into a real Scrapy process, by settings alone."""

import asyncio
import gzip
import json
import sys

import warm
from crawling import ROOT
from loopback import name_server, raw_server, untrusted, zone
from text_tables import each

CRAWL = """
import json, sys
import scrapy
from scrapy.crawler import CrawlerProcess
from webcrawl.net.outcomes import outcome_of

class Spider(scrapy.Spider):
    name = "net"
    found = []

    async def start(self):
        for url in sys.argv[3:]:
            yield scrapy.Request(url, callback=self.parse, errback=self.failed)

    def parse(self, response):
        wire = len(response.meta.get("wire_body", b""))
        self.found.append([response.url, outcome_of(response), type(response).__name__,
                           response.text, wire, str(response.ip_address)])

    def failed(self, failure):
        self.found.append([failure.request.url, outcome_of(failure)])

process = CrawlerProcess({
    "DOWNLOAD_HANDLERS": {
        "http": "webcrawl.net.http.HttpDownloadHandler",
        "https": "webcrawl.net.http.HttpDownloadHandler",
    },
    "DOWNLOADER_MIDDLEWARES": {
        "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": None,
        "webcrawl.net.http.decoding.ContentDecodingMiddleware": 590,
    },
    "DNS_SERVERS": [sys.argv[1]],
    "ALLOW_PRIVATE_ADDRESSES": True,
    "ASYNCIO_EVENT_LOOP": sys.argv[2] or None,
    "RETRY_ENABLED": False,
    "HTTPERROR_ALLOW_ALL": True,
    "LOG_LEVEL": "WARNING",
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
})
crawler = process.create_crawler(Spider)
process.crawl(crawler)
process.start()
stats = {k: v for k, v in crawler.stats.get_stats().items() if k.startswith("dns/")}
print(json.dumps([Spider.found, stats]))
"""


@each("loop", "", "uvloop.Loop")
async def test_the_download_handler_works_in_stock_scrapy(loop):
    page = "<html>caf\u00e9</html>".encode()
    packed = gzip.compress(page)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-"
    says = head + b"Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed
    tls = untrusted("a.test")
    async with (
        name_server(zone({"a.test": ["300 A 127.0.0.1"]})) as names,
        raw_server(says) as plain,
        raw_server(says, tls=tls) as secure,
    ):
        urls = [
            f"http://a.test:{plain.port}/",
            f"https://a.test:{secure.port}/",
            "http://b.test/",
            "https://a.test:1/",
        ]
        arguments = [sys.executable, "-W", "error", "-c", CRAWL, f"127.0.0.1:{names.port}"]
        done = await asyncio.to_thread(warm.run, [*arguments, loop, *urls])
    # Scrapy leaves the loop itself unclosed; nothing of ours may be.
    assert done.returncode == 0, done.stderr
    assert "webcrawl" not in done.stderr.replace(str(ROOT), "")
    assert "Unclosed" not in done.stderr
    found, stats = json.loads(done.stdout)
    text = page.decode()
    assert sorted(found) == sorted([
        [urls[0], "http_200", "HtmlResponse", text, len(packed), "127.0.0.1"],
        [urls[1], "http_200", "HtmlResponse", text, len(packed), "127.0.0.1"],
        [urls[2], "dns_not_found"],
        [urls[3], "connect_refused"],
    ])  # fmt: skip
    assert stats["dns/queries"] == 2
    assert b"Accept-Encoding: gzip, deflate, br, zstd\r\n" in plain.heads[0]
