"""Feed format ``csv``: Scrapy's, except for files that have a header already."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from itemadapter import ItemAdapter
from scrapy.exporters import CsvItemExporter


class CsvExporter(CsvItemExporter):
    """Exporter of items as CSV, which does not repeat the header of a file that it appends to.

    The header must have the chosen fields, or if none are chosen those of the first item.
    Otherwise a new header is written, as Scrapy does.
    """

    def _write_headers_and_set_fields_to_export(self, item: Any) -> None:
        """Called for the first item, before anything is written."""
        file: Any = self.stream.buffer
        path = Path(str(getattr(file, "name", "")))
        if self.include_headers_line and path.is_file() and file.tell():
            with path.open(encoding=self.encoding, errors="replace", newline="") as existing:
                header = next(csv.reader(existing, **self._kwargs))
            fields: Any = self.fields_to_export
            if not fields and {*ItemAdapter(item).field_names()} <= {*header}:
                self.fields_to_export = header
                self._autodetected_fields = True  # Scrapy warns of items with other fields
                return
            if fields and [*(fields.values() if isinstance(fields, dict) else fields)] == header:
                return
        super()._write_headers_and_set_fields_to_export(item)
