"""A crawl by stock Scrapy that records what it made of each URL. Run by readers.py."""

import base64
import json
import sys
from pathlib import Path

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess


class StockReader(Spider):
    """Asks for each of *urls* once and writes a line about it to *record*."""

    name = "reader"

    async def start(self):
        for number, url in self.urls.items():
            yield Request(url, self.read, errback=self.failed, meta={"number": number})

    def read(self, response):
        self.note(response.meta["number"], response.status, response.body, "")

    def failed(self, failure):
        error = f"{type(failure.value).__name__}: {failure.value}"
        self.note(failure.request.meta["number"], 0, b"", error)

    def note(self, number, status, body, failure):
        line = [int(number), status, base64.b64encode(body).decode(), failure]
        self.record.write(json.dumps(line) + "\n")


def main(asked, record, timeout):
    settings = {
        "CONCURRENT_REQUESTS": 40,
        "COOKIES_ENABLED": False,
        "DOWNLOAD_DELAY": 0,
        "DOWNLOAD_TIMEOUT": float(timeout),
        "HTTPERROR_ALLOW_ALL": True,
        "LOG_ENABLED": False,
        "METAREFRESH_ENABLED": False,
        "REDIRECT_ENABLED": False,
        "RETRY_ENABLED": False,
        "ROBOTSTXT_OBEY": False,
        "TELNETCONSOLE_ENABLED": False,
    }
    with Path(record).open("w") as file:
        process = CrawlerProcess(settings)
        process.crawl(StockReader, urls=json.loads(Path(asked).read_text()), record=file)
        process.start()


if __name__ == "__main__":
    main(*sys.argv[1:])
