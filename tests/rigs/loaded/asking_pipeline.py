"""An item pipeline that downloads more for pages whose URLs end in ``/ask``."""

from scrapy import Request


class AskingPipeline:
    """Counts the answers by their status."""

    def __init__(self, crawler):
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler):
        return cls(crawler)

    async def process_item(self, item):
        if item.url.endswith("/ask"):
            for number in range(4):
                request = Request(f"{item.url}/{number}")
                response = await self._crawler.engine.download_async(request)
                self._crawler.stats.inc_value(f"asked/{response.status}")
        return item
