"""The purpose of a crawl: CRAWL_PURPOSE."""

from __future__ import annotations

import re

from scrapy.settings import BaseSettings

from webcrawl.errors import FatalError

#: The purposes that a crawl can have.
PURPOSES = ("search", "agent", "train", "archive", "research")


def purpose_of(settings: BaseSettings) -> str:
    """Return CRAWL_PURPOSE, or "" if it is not set.

    Raises FatalError unless it is one of PURPOSES. Sites treat a crawler with several purposes by
    the strictest of them, so a crawl has only one.
    """
    purpose = str(settings.get("CRAWL_PURPOSE") or "").strip()
    if not purpose or purpose in PURPOSES:
        return purpose

    words = re.findall(r"\w+", purpose)
    if len(words) > 1 and set(words) <= set(PURPOSES):
        raise FatalError(
            f"CRAWL_PURPOSE is {purpose!r}, but a crawl has one purpose: sites treat a crawler "
            "with several by the strictest rule of all. Run one crawl for each purpose."
        )
    raise FatalError(f"CRAWL_PURPOSE must be one of {', '.join(PURPOSES)}, not {purpose!r}.")
