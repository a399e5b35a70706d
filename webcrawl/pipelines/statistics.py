"""Statistics about documents: content types and sizes, HTML tags, images (Mercator).

Each is a table of counts with one row per name. It is saved with the crawl, and written as JSON to
JOBDIR/statistics at each checkpoint and at the end. Only new documents are counted: duplicates of a
known document do not reach processing modules. After ``kill -9`` the counts since the last
checkpoint are missing.

Format: ``{"<name>": {"<count>": n, "<histogram>": {"<size>": n}}}``, with the most common name
first. A histogram counts each value at the largest power of two that is not greater than it, or at
0. A hostile server can make up any number of names, so when there are twice MAX_NAMES, the rarer
half is added up as ``REST``.
"""

from __future__ import annotations

import asyncio
import io
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from webcrawl.configuration.decoding import Count, json_decoder
from webcrawl.pipelines.module import ProcessingModule
from webcrawl.storage.atomic import make_directory, write_atomic

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from webcrawl.items import Page

#: Mercator found 3,173 content types in 725 million documents.
MAX_NAMES = 1000
#: Name of the row for all names that are not listed; no real name can be equal to it.
REST = "(rest)"

_DIRECTORY = "statistics"
_MAX_NAME_CHARS = 64
# Number of bins of a histogram, enough for 512 GiB.
_BINS = 40

# Group 1 is the name of a start tag, and empty for a comment. The content of scripts and styles is
# skipped.
_TAGS = re.compile(
    rb"<(?:([a-z][^\s/>]*+)(?:(?:(?<=<script)|(?<=<style))(?:[^<]++|<(?!/s(?:cript|tyle)))*+)?"
    rb"|!--(?:[^-]++|-(?!->))*+)"
)

# The regular expression holds the interpreter lock: up to 34 ms for this many bytes, 0.4 s for 5
# MB.
_MAX_TAGGED_BYTES = 1 << 19

# Image formats of the web that can be recognized by their header.
_IMAGE_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "AVIF", "BMP", "ICO", "TIFF")
_UNREADABLE = "(unreadable)"

_decode = json_decoder(dict[str, list[Count]])


class Statistics(ProcessingModule):
    """Base class of tables of counts by name, with *columns* and with *histograms* of sizes."""

    columns: ClassVar[tuple[str, ...]]
    histograms: ClassVar[tuple[str, ...]] = ()
    takes_refused = True

    def __init__(self) -> None:
        self._rows: dict[str, list[int]] = {}

    def open(self) -> None:
        if self.jobdir is not None:
            make_directory(self.jobdir / _DIRECTORY)

    def add(self, name: str, counts: Iterable[int], sizes: Iterable[int] = ()) -> None:
        """Add *counts* to the columns of the row *name*, and each of *sizes* to its histogram."""
        row = self._row(name[:_MAX_NAME_CHARS])
        for column, count in enumerate(counts):
            row[column] += count
        start = len(self.columns)
        for size in sizes:
            row[start + min(size.bit_length(), _BINS - 1)] += 1
            start += _BINS

    def state(self) -> bytes:
        return msgspec.json.encode(self._rows)

    def restore(self, saved: bytes) -> None:
        self._rows = _decode(saved)

    def sync(self) -> Coroutine[Any, Any, None] | None:
        """Write the file again, in another thread, with the present counts."""
        if self.jobdir is None:
            return None
        rows = sorted(self._rows.items(), key=lambda item: (-item[1][0], item[0]))
        data = msgspec.json.encode({name: self._as_dict(row) for name, row in rows})
        path = self.jobdir / _DIRECTORY / f"{self.name}.json"
        return asyncio.to_thread(write_atomic, path, msgspec.json.format(data, indent=1))

    def close(self) -> Coroutine[Any, Any, None] | None:
        return self.sync()

    def _row(self, name: str) -> list[int]:
        """Return the row *name*, making it if necessary."""
        row = self._rows.get(name)
        if row is None:
            # Twice as many names as are kept, because merging sorts all rows.
            if len(self._rows) >= 2 * MAX_NAMES:
                self._merge_rare_rows()
            width = len(self.columns) + _BINS * len(self.histograms)
            row = [0] * width
            self._rows[name] = row
        return row

    def _merge_rare_rows(self) -> None:
        """Keep the MAX_NAMES most common names, and add up the other rows as ``REST``."""
        rows = [item for item in self._rows.items() if item[0] != REST]
        rows.sort(key=lambda item: -item[1][0])
        rare = [row for _, row in rows[MAX_NAMES:]] + [self._rows.get(REST, [])]
        self._rows = dict(rows[:MAX_NAMES])
        self._rows[REST] = [sum(column) for column in zip(*filter(None, rare), strict=True)]

    def _as_dict(self, row: list[int]) -> dict[str, Any]:
        """Return *row* as it is written to the file."""
        start = len(self.columns)
        fields: dict[str, Any] = dict(zip(self.columns, row, strict=False))
        for histogram in self.histograms:
            bins = enumerate(row[start : start + _BINS])
            fields[histogram] = {str(1 << bits >> 1): count for bits, count in bins if count}
            start += _BINS
        return fields


class ContentTypes(Statistics):
    """Documents and bytes by content type, with histograms of sizes (Mercator, figures 7 and 8).

    ``bytes`` is the size of the decoded documents, ``wire_bytes`` their size as received. ``cut``
    counts documents that are not complete. Takes 5 us per page.
    """

    name = "content_types"
    columns = ("documents", "bytes", "wire_bytes", "cut")
    histograms = ("sizes",)

    def process(self, page: Page) -> None:
        size = len(page.body)
        is_cut = bool(page.truncated or page.body_cut)
        counts = (1, size, len(page.wire_body), is_cut)
        self.add(page.content_type or "(none)", counts, (size,))


class TagCounter(Statistics):
    """HTML start tags by name: how many there are, and on how many pages.

    This is one of the examples in Mercator, section 3. A regular expression finds the tags in the
    first 512 KiB, in 0.2 us per tag. Tags in comments, scripts and styles are not counted, nor are
    tags that a browser would add.
    """

    content_types = ("text/html", "application/xhtml+xml")
    off_loop = True
    name = "tags"
    columns = ("pages", "tags")

    def process(self, page: Page) -> None:
        for name, count in Counter(_TAGS.findall(page.body[:_MAX_TAGGED_BYTES].lower())).items():
            if name:
                self.add(name[:_MAX_NAME_CHARS].decode(errors="replace"), (1, count))


class ImageStatistics(Statistics):
    """Images by format: how many, their bytes, how many are animated, and histograms of sizes.

    Pillow reads only the header. An image with more pixels than its limit, twice
    ``Image.MAX_IMAGE_PIXELS``, counts as unreadable.
    """

    content_types = ("image/*",)
    off_loop = True
    packages = ("PIL",)
    name = "images"
    columns = ("images", "bytes", "animated")
    histograms = ("sizes", "widths", "heights")

    def process(self, page: Page) -> None:
        """Add the image *page*, with values in the order of ``columns`` and ``histograms``."""
        from PIL import Image  # noqa: PLC0415  # a plain crawl does not need it

        size = len(page.body)
        try:
            with Image.open(io.BytesIO(page.body), formats=_IMAGE_FORMATS) as image:
                is_animated = bool(getattr(image, "is_animated", False))
                self.add(image.format or "", (1, size, is_animated), (size, *image.size))
        except Exception:  # noqa: BLE001  # Pillow raises many kinds of exceptions for broken images
            self.add(_UNREADABLE, (1, size, 0), (size,))
