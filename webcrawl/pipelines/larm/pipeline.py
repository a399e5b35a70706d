"""Processing module that stores pages as LARM does: page files, links.log and store.log.

Settings: LARM_DIR (default JOBDIR/larm), and those that determine the form in which URLs are
compared, which is LARM's url-normalized. Pages of every type and status are stored, with decoded
bodies. LARM could chain several storages; here ITEM_PIPELINES does that.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

from webcrawl.configuration.equivalences import equivalence_of
from webcrawl.errors import FatalError
from webcrawl.pipelines.larm.rows import LarmError
from webcrawl.pipelines.larm.writer import LarmWriter
from webcrawl.pipelines.module import ProcessingModule

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

    from webcrawl.items import Page

# Number of cached forms, about 3 MB: the pages of a site have many links in common.
_CACHED_FORMS = 1 << 14


class LarmPipeline(ProcessingModule):
    """Processing module that writes each Page to a LARM directory.

    *form* returns the normalized form of a URL.
    """

    statuses = frozenset()
    off_loop = True
    output = ("LARM_DIR", "larm")
    takes_refused = True
    name = "larm"

    _writer: LarmWriter

    def __init__(self, *, form: Callable[[str], str]) -> None:
        self._form = lru_cache(_CACHED_FORMS)(form)

    @classmethod
    def from_crawler(cls, crawler: Crawler, **_: Any) -> Self:
        return super().from_crawler(crawler, form=equivalence_of(crawler.settings).comparison_form)

    def open(self) -> None:
        self._writer = LarmWriter(directory=self.directory, form=self._form)
        try:
            self._writer.open()
        except LarmError as error:
            raise FatalError(f"LARM_DIR {self.directory} cannot be used: {error}.") from error

    def process(self, page: Page) -> None:
        self._writer.write(page)

    def sync(self) -> None:
        self._writer.sync()

    def close(self) -> None:
        self._writer.close()
