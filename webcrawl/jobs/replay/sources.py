"""Reads stored pages from WARC files and LARM directories, and finds the links of each page."""

from __future__ import annotations

import zlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

import xxhash

from webcrawl.crawl.links.link_extractor import SITEMAP_MAX_BYTES, PageLinks
from webcrawl.errors import FatalError
from webcrawl.items import Page, is_success
from webcrawl.jobs.replay.larm_reader import larm_pages
from webcrawl.jobs.replay.warc_reader import DamagedWarcError, Stored, stored_pages, target_urls
from webcrawl.net.guard import followed_schemes
from webcrawl.net.limits import page_max_bytes
from webcrawl.net.outcomes import PERMANENT, REDIRECTS
from webcrawl.pipelines.larm.reader import stored_files
from webcrawl.pipelines.larm.rows import LarmError
from webcrawl.pipelines.larm.writer import STORE
from webcrawl.storage.line_log import complete_lines_size
from webcrawl.urls import SCHEMES, Link, normalize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy.settings import BaseSettings


#: The exceptions of a source that cannot be read to its end.
UNREADABLE = (DamagedWarcError, LarmError, OSError)

_HTTP = ("http:", "https:")
# In a directory of files, a job and a hive.
_WARC_FILES = ("*.warc", "*.warc.gz", "warc/*.warc.gz", "drones/*/warc/*.warc.gz")
_LARM_DIRECTORIES = ("larm", "drones/*/larm")


def sources_of(names: Iterable[str | Path]) -> list[Path]:
    """Return the paths of the sources that *names* name, each once.

    A directory stands for the WARC files in it; that of a job or of a hive for all of its stored
    pages. Raises FatalError for any other path.
    """
    return [*dict.fromkeys(source for name in names for source in _sources_in(Path(name)))]


def _sources_in(path: Path) -> list[Path]:
    """Return *path* if it is a file or a LARM directory, or else the finished sources in it."""
    if (path.is_file() and path.stat().st_size) or (path / STORE).is_file():
        return [path]
    # If a crawl wrote both, they contain the same pages.
    for patterns in (_WARC_FILES, _LARM_DIRECTORIES):
        sources = [source for pattern in patterns for source in sorted(path.glob(pattern))]
        if sources:
            return sources
    if not path.exists():
        raise FatalError(f"There is no file {path}: give a job, WARC files or LARM directories.")
    raise FatalError(
        f"There are no stored pages in {path}. A WARC file is finished when it is full, the last "
        "one when the crawl ends."
    )


def source_bytes(path: Path) -> int:
    """Return the size of the source *path* in which offsets are counted.

    That is the size of the WARC file, or of store.log without a torn last line.
    """
    return complete_lines_size(path / STORE) if path.is_dir() else path.stat().st_size


def stored_urls(path: Path, *, start: int, end: int) -> Iterator[str]:
    """Yield the URLs of the readable pages in *path*, from the offset *start* up to *end*."""
    with suppress(*UNREADABLE, ValueError, EOFError, zlib.error):
        urls_in = _larm_urls if path.is_dir() else target_urls
        for url, offset in urls_in(path, start=start):
            if offset >= end:
                break
            yield url


def _larm_urls(path: Path, *, start: int) -> Iterator[tuple[str, int]]:
    """Yield the URLs in the LARM directory *path* from offset *start* on, with offsets."""
    for stored, offset in stored_files(path, start=start):
        yield stored.url, offset


class StoredPages:
    """Reads stored pages and finds their links as a crawl does. It keeps no state.

    *schemes* are those of followed URLs. Bodies longer than *max_bytes* are cut.
    """

    def __init__(self, *, links: PageLinks, schemes: frozenset[str], max_bytes: int) -> None:
        self._links = links
        self._schemes = schemes
        self._max_bytes = max_bytes

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Create a reader. Raises the same exceptions as ``PageLinks``."""
        return cls(
            links=PageLinks(settings),
            schemes=followed_schemes(settings),
            max_bytes=max(page_max_bytes(settings), SITEMAP_MAX_BYTES),
        )

    def of(self, path: Path, *, start: int = 0, robots: bool = False) -> Iterator[Stored]:
        """Yield the pages in the source *path*, from the offset *start* on.

        With *robots*, the robots.txt files in WARC files are also yielded. Raises one of
        UNREADABLE.
        """
        if path.is_dir():
            stored_items = larm_pages(path, start=start, max_bytes=self._max_bytes)
        else:
            stored_items = stored_pages(path, start=start, max_bytes=self._max_bytes, robots=robots)
        for stored in stored_items:
            page = stored.page
            # Another crawler may have stored the URL in another spelling.
            page.url = normalize(page.url, schemes=SCHEMES) or page.url
            self._find_links(page)
            yield stored

    def _find_links(self, page: Page) -> None:
        """Find the links of *page* with the current extractor and settings.

        Links that were stored with the page are replaced, because these may be the reason for the
        replay.
        """
        if page.status in REDIRECTS and not page.redirect_target:  # stored by another crawler
            location = (page.header("Location") or "").strip()
            target = normalize(location, page.url, schemes=self._schemes) if location else None
            if target is not None:
                page.redirect_target = target
                page.redirect_permanent = page.status in PERMANENT
                page.links = [Link(url=target, kind="redirect")]

        if not is_success(page.status):
            return
        if page.body:
            # 0 would mean that there is no fingerprint.
            page.content_fingerprint = xxhash.xxh3_64_intdigest(page.body) or 1
        # FTP directories and Gopher menus keep the links that were stored with them.
        if page.url.startswith(_HTTP):
            page.links = []
            further_links = self._links.fill_in_links(page)
            if further_links is not None:
                # None in between only means that a crawl could pause here.
                page.links += [link for link in further_links if link is not None]
