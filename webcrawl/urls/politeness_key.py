"""Politeness key: the host of a URL, or its registered domain.

Called for every entry that is made. A key names one back-end queue and one clock; nothing below
one key is ever contacted twice at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from webcrawl.urls.host import host_of
from webcrawl.urls.registered_domain import registered_domain

if TYPE_CHECKING:
    from collections.abc import Callable


def domain_of(url: str) -> str:
    """The registered domain of a normalized *url* (Nielsen: one request per domain and 70 s)."""
    return registered_domain(host_of(url))


#: Of the values of POLITENESS_KEY, how each gets a URL's key. With "address" hosts have a clock of
#: their own and share another one with all hosts at their address, compared by the preconditions.
KEYS: Final[dict[str, Callable[[str], str]]] = {
    "host": host_of,
    "address": host_of,
    "domain": domain_of,
}
