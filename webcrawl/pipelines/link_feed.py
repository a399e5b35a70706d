"""Feed format ``links``: the links of Pages as CSV, a row a link (``-O links.csv:links``)."""

from __future__ import annotations

import csv
import io
from typing import Any

from scrapy.exporters import CsvItemExporter

from webcrawl.items import Page

COLUMNS = ("source", "target", "kind", "text", "rel")


class LinksExporter(CsvItemExporter):
    """Writes the links of each Page, also those that are not followed, and nothing else.

    A file that is added to has one header.
    """

    def __init__(self, file: Any, **options: Any) -> None:
        super().__init__(file, errors="replace", **options)  # half a surrogate pair
        self._has_header = file.seekable() and file.tell() > 0

    def start_exporting(self) -> None:
        """Write the names of the columns."""
        if self.include_headers_line and not self._has_header:
            self.csv_writer.writerow(COLUMNS)

    def export_item(self, item: Any) -> None:
        """A row for each link of *item*, if it is a Page. 1 us a row."""
        if isinstance(item, Page):
            rows = io.StringIO(newline="")
            csv.writer(rows).writerows(
                [item.url, link.url, link.kind, link.text, link.rel] for link in item.links
            )
            self.stream.write(rows.getvalue())
