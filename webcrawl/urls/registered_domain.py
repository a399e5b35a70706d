"""The domain that somebody registered, by the public suffix list.

``www.bbc.co.uk`` and ``news.bbc.co.uk`` are both ``bbc.co.uk``. The list is the one that comes in
the ``tldextract`` package: nothing is downloaded and nothing is cached on disk, so the answer
changes only when the pinned package does, never in the middle of a crawl.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tldextract import TLDExtract

CACHED_HOSTS: Final = 1 << 16
"""A look-up costs 4 µs, and links repeat their hosts; 65,536 hosts take about 10 MB."""

_extract: Final = TLDExtract(cache_dir=None, suffix_list_urls=())


@lru_cache(maxsize=CACHED_HOSTS)
def registered_domain(host: str) -> str:
    """The registered domain of *host* (as ``host_of`` gives it).

    *host* itself when it is an address, a single label or a public suffix. The first call reads the
    suffix list and takes about 0.1 s.
    """
    return _extract.extract_str(host).top_domain_under_public_suffix or host
