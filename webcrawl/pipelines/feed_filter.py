"""Feed filter that accepts only documents, without redirects and errors."""

from __future__ import annotations

from typing import Any

from scrapy.extensions.feedexport import ItemFilter

from webcrawl.items import Page, is_success


class Documents(ItemFilter):
    """Feed filter for Pages with status 200 (``"item_filter"`` of FEEDS).

    Pages whose owner refuses the purpose of the crawl are left out, unless RIGHTS_POLICY is record.
    """

    def accepts(self, item: Any) -> bool:
        """Return whether *item* is a Page with status 200."""
        return isinstance(item, Page) and is_success(item.status) and not item.rights.left_out
