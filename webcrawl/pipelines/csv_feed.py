"""Feed format ``csv``: Scrapy's, except for files that have a header already."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from itemadapter import ItemAdapter
from scrapy.exporters import CsvItemExporter

from webcrawl.errors import FatalError


class CsvExporter(CsvItemExporter):
    """Exporter of items as CSV, which does not repeat the header of a file that it appends to.

    The header must have the chosen fields, or if none are chosen at least one field of the first
    item. Otherwise a new header is written, as Scrapy does.
    """

    def check_columns(self, path: Path) -> None:
        """Raise FatalError if the file *path* has other columns than the chosen fields."""
        columns = self._columns()
        if self.include_headers_line and columns and columns != self._header(path):
            raise FatalError(
                f"The feed {path} has the columns {self._header(path)}, not {columns}: choose its "
                "columns, or name another file."
            )

    def _write_headers_and_set_fields_to_export(self, item: Any) -> None:
        """Write the header, unless the file already has one that fits.

        Scrapy calls this for the first item, before anything is written.
        """
        file: Any = self.stream.buffer
        path = Path(str(getattr(file, "name", "")))
        if self.include_headers_line and path.is_file() and file.tell():  # it appends to a file
            header = self._header(path)
            columns = self._columns()
            if not columns and {*ItemAdapter(item).field_names()} & {*header}:
                self.fields_to_export = header
                self._autodetected_fields = True  # Scrapy warns of items with other fields
                return
            if columns == header:
                return
        super()._write_headers_and_set_fields_to_export(item)

    def _columns(self) -> list[str]:
        """Return the names of the chosen fields; empty if none are chosen."""
        fields: Any = self.fields_to_export or []
        return [*(fields.values() if isinstance(fields, dict) else fields)]

    def _header(self, path: Path) -> list[str]:
        with path.open(encoding=self.encoding, errors="replace", newline="") as file:
            return next(csv.reader(file, **self._kwargs))
