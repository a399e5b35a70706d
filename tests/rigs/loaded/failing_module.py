"""Processing modules that fail on every page while the file is there that BUG names, and write down
the pages that they processed in the file that RECORD names."""

import os
from pathlib import Path

from webcrawl.pipelines.module import ProcessingModule


def process(page):
    """Fail, or write *page* down."""
    if Path(os.environ["BUG"]).exists():
        raise ConnectionRefusedError("a bug in a module")
    with Path(os.environ["RECORD"]).open("a") as file:
        file.write(f"{page.url}\n")


class FailingModule(ProcessingModule):
    """In a thread, of pages of HTML only, whatever their status."""

    statuses = frozenset()
    off_loop = True
    content_types = ("text/html",)

    def process(self, page):
        process(page)


class FailingPipeline:
    """An item pipeline as Scrapy has them."""

    def process_item(self, item):
        process(item)
        return item
