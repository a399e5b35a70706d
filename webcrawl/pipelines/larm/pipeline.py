"""LARM pipeline: pages in page files of 50 MB with links.log and store.log, as LARM kept them.

Settings: LARM_DIR (default JOBDIR/larm), and those of the form by which URLs are compared, which is
LARM's url-normalized. Pages of every type and status are stored, decoded; what LARM's storage chain
was for, several storages one after the other, is ITEM_PIPELINES.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from webcrawl.configuration.equivalences import equivalence_of
from webcrawl.errors import FatalError
from webcrawl.pipelines.larm.rows import LarmError
from webcrawl.pipelines.larm.writer import LarmWriter
from webcrawl.pipelines.module import ProcessingModule
from webcrawl.storage.lock import LockedError

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from webcrawl.items import Page

# The pages of a site have many links in common. About 3 MB.
_CACHED_FORMS: Final = 1 << 14


class LarmPipeline(ProcessingModule):
    """Writes each Page with *writer*, in a thread of its own."""

    statuses: ClassVar[frozenset[int]] = frozenset()
    off_loop: ClassVar[bool] = True
    name: ClassVar[str] = "larm"

    def __init__(self, *, writer: LarmWriter) -> None:
        self._writer = writer

    @classmethod
    def from_crawler(cls, crawler: Crawler, **_: Any) -> Self:
        settings = crawler.settings
        directory = settings["LARM_DIR"] or (
            settings["JOBDIR"] and str(Path(settings["JOBDIR"]) / "larm")
        )
        if not directory:
            raise FatalError("LARM_DIR is not set, nor JOBDIR, beneath which it would be.")
        form = lru_cache(_CACHED_FORMS)(equivalence_of(settings).comparison_form)
        return super().from_crawler(
            crawler, writer=LarmWriter(directory=Path(directory), form=form)
        )

    def open(self) -> None:
        """Recover the files of an earlier run."""
        try:
            self._writer.open()
        except LarmError as error:
            raise FatalError(f"LARM_DIR has a store.log of something else: {error}.") from error
        except LockedError as error:
            raise FatalError(f"LARM_DIR is in use: {error}; choose another one.") from error

    def process(self, page: Page) -> None:
        """Store *page*. StoreError if it could not be written."""
        self._writer.write(page)

    def sync(self) -> None:
        """fsync all pages written so far."""
        self._writer.sync()

    def close(self) -> None:
        """fsync and close the files."""
        self._writer.close()
