"""Feed filter: documents alone, without redirects and errors."""

from __future__ import annotations

from typing import Any

from scrapy.extensions.feedexport import ItemFilter

from webcrawl.items import Page, is_success


class Documents(ItemFilter):
    """Lets Pages with status 200 into a feed (``"item_filter"`` of FEEDS)."""

    def accepts(self, item: Any) -> bool:
        """Whether *item* is one."""
        return isinstance(item, Page) and is_success(item.status)
