"""Change detection: the parts of a document that are compared with those at the last visit.

Bytes are not compared, because a new date or advertisement is not a change. What counts is the
text, the targets of the links (page_intake.py), and whether the page asks not to be indexed. The
text is the main text if a processing module also needs that; otherwise it is all visible words
without digits.
"""

from __future__ import annotations

from collections.abc import Callable

from scrapy.settings import BaseSettings

from webcrawl.configuration.values import component
from webcrawl.items import Page
from webcrawl.seen.fingerprint import document_fingerprint
from webcrawl.urls.extraction.visible_words import words_of

_TEXT = frozenset({"text/html", "application/xhtml+xml", "text/plain", ""})


def text_fingerprint_of(settings: BaseSettings) -> Callable[[Page], int]:
    """Return a function that computes the fingerprint of a page's text.

    If a class in ITEM_PIPELINES has a ``text_reader``, that returns the function which finds the
    main text of a page. That takes 2 ms. Raises FatalError like the ``text_reader``.
    """
    modules = settings.getdict("ITEM_PIPELINES")
    classes = [component("ITEM_PIPELINES", key) for key in modules if modules[key] is not None]
    readers = [cls.text_reader for cls in classes if hasattr(cls, "text_reader")]
    if not readers:
        return lambda page: _fingerprint(page, _words(page))
    read = readers[0](settings)
    return lambda page: _fingerprint(page, read(page).text.encode())


def _words(page: Page) -> bytes:
    """Return the visible words of *page*, or its body if it is not text."""
    return b" ".join(words_of(page.shown[0])) if page.content_type in _TEXT else page.body


def _fingerprint(page: Page, text: bytes) -> int:
    """Return the fingerprint of *text*, and of whether *page* asks not to be indexed."""
    return document_fingerprint(b"noindex " + text if page.robots.noindex else text)
