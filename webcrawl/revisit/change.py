"""Change: what of a document counts when a visit compares it with that of the visit before.

Not its bytes, as a date or an advertisement is no change, but its text and where its links lead
(page_intake.py), and whether it asks not to be indexed. The text is the main one where a processing
module needs that, too, and else all words for readers but those with digits.
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
# The modules that read the main text.
_READERS = frozenset(
    {"webcrawl.pipelines.text.TextDataset", "webcrawl.pipelines.search_index.SearchIndex"}
)


def text_fingerprint_of(settings: BaseSettings) -> Callable[[Page], int]:
    """What gives the fingerprint of the text of a page: by TEXT_EXTRACTOR if a module that reads
    the main text is in ITEM_PIPELINES, 2 ms. FatalError as ``main_text.reader``."""
    modules = settings.getdict("ITEM_PIPELINES")
    kinds = [component("ITEM_PIPELINES", one) for one in modules if modules[one] is not None]
    if _READERS.isdisjoint(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds):
        return lambda page: _fingerprint(page, _words(page))
    read = reader(settings)
    return lambda page: _fingerprint(page, read(page).text.encode())


def _words(page: Page) -> bytes:
    """All of its words; of what is no text its bytes."""
    return b" ".join(words_of(page.body)) if page.content_type in _TEXT else page.body


def _fingerprint(page: Page, text: bytes) -> int:
    return document_fingerprint(b"noindex " + text if page.robots.noindex else text)
