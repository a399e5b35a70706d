"""The exceptions that end a crawl."""

from __future__ import annotations


class FatalError(ValueError):
    """The crawl cannot start or go on, and the user can mend it.

    The text is one sentence that says what is wrong and what to do next. ``scrapy crawl`` prints
    it and exits with 2. It is a ValueError so that a bad setting found by any component, which
    raises plain ValueError as Scrapy's own do, is shown the same way.
    """


class StoreError(OSError):
    """Pages cannot be stored any more. Raised by a processing module, it ends the crawl: the
    page's URL goes back to the frontier, and the same command goes on when the disk is mended."""


class DiskError(FatalError):
    """As FatalError, but nothing is wrong with the input: the disk is full or broken to begin with.
    ``scrapy crawl`` exits with 3."""
