"""The schemes that a crawl follows: those for which its settings name a protocol module.

Called by whoever builds the filters, once. Mercator, section 3: protocol modules are chosen by the
scheme of a URL, and named in the configuration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.urls import SCHEMES

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


def followed_schemes(settings: BaseSettings) -> frozenset[str]:
    """The schemes among http, https, ftp and gopher that DOWNLOAD_HANDLERS has a handler for.

    DOWNLOAD_HANDLERS comes on top of DOWNLOAD_HANDLERS_BASE; None takes a handler away.
    """
    handlers = settings.getwithbase("DOWNLOAD_HANDLERS")
    return frozenset(scheme for scheme in SCHEMES if handlers.get(scheme) is not None)
