"""Processing modules as users write them: two plain pipelines around one of the base class."""

import json
import os
from pathlib import Path

from itemadapter import ItemAdapter

from webcrawl.pipelines.module import ProcessingModule


class First:
    """A plain Scrapy pipeline with what people use who come from Scrapy."""

    def open_spider(self):
        self.seen = []

    def process_item(self, page):
        self.seen.append(
            {
                "url": ItemAdapter(page)["url"],
                "title": page.selector.css("title::text").get(),
                "heading": page.xpath("//h1/text()").get(),
                "text": "caf\u00e9" in page.text,
                "links": [link.url.rpartition("/")[2] for link in page.links],
            }
        )
        return page

    def close_spider(self):
        Path(os.environ["RECORD"], "first.json").write_text(json.dumps(self.seen))


class Second(ProcessingModule):
    """Makes an item of its own of HTML; other pages pass."""

    content_types = ("text/html",)

    def process(self, page):
        return {"made of": page.url}


class Third:
    """A plain Scrapy pipeline that gets what the others have made of a page."""

    def __init__(self):
        self.got = []

    async def process_item(self, item):
        self.got.append(item.get("made of") if isinstance(item, dict) else item.content_type)
        return item

    def close_spider(self):
        Path(os.environ["RECORD"], "third.json").write_text(json.dumps(self.got))
