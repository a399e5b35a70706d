"""Change: the parts of a document that a visit compares with the visit before.

Bytes are not compared, as a new date or advertisement is not a change. The text and the targets of
its links count (page_intake.py), and whether it asks not to be indexed. The text is the main text
if a processing module needs that, too; otherwise it is all visible words without digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.configuration.values import component
from webcrawl.net.walls import words_of
from webcrawl.pipelines.main_text import reader
from webcrawl.seen.fingerprint import document_fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import BaseSettings

    from webcrawl.items import Page

_TEXT = frozenset({"text/html", "application/xhtml+xml", "text/plain", ""})
# The processing modules that use the main text.
_READERS = frozenset(
    {"webcrawl.pipelines.text.TextDataset", "webcrawl.pipelines.search_index.SearchIndex"}
)


def text_fingerprint_of(settings: BaseSettings) -> Callable[[Page], int]:
    """Return a function that computes the fingerprint of a page's text.

    It uses TEXT_EXTRACTOR, which takes 2 ms, if a module that uses the main text is in
    ITEM_PIPELINES. Raises FatalError like ``main_text.reader``.
    """
    modules = settings.getdict("ITEM_PIPELINES")
    kinds = [component("ITEM_PIPELINES", one) for one in modules if modules[one] is not None]
    if _READERS.isdisjoint(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds):
        return lambda page: _fingerprint(page, _words(page))
    read = reader(settings)
    return lambda page: _fingerprint(page, read(page).text.encode())


def _words(page: Page) -> bytes:
    """Return all words of *page*, or its bytes if it is not text."""
    return b" ".join(words_of(page.body)) if page.content_type in _TEXT else page.body


def _fingerprint(page: Page, text: bytes) -> int:
    return document_fingerprint(b"noindex " + text if page.robots.noindex else text)
