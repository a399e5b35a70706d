"""Registered domain and site of a host, according to the public suffix list.

``www.bbc.co.uk`` and ``news.bbc.co.uk`` are both in the domain ``bbc.co.uk``. The list has two
sections. Domains use only the first section: suffixes under which registries sell names. If a
host's suffix is not listed, its last label counts as the suffix (the default rule ``*``). Sites
also use the second section: suffixes under which others give names away. So ``alice.github.io`` is
a site of its own, in the domain ``github.io``. A crawl may be limited to sites. Budgets, reputation
and politeness apply to domains. Otherwise a spam farm would have a budget for each name that it
gets for free.

A process uses a single list, which is set when a job is opened (crawl/job/suffix_lists.py), because
data stored per domain is useless with another list. Before that, it is the list in the package
``tldextract``. Nothing is downloaded.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Any

from requests import Response, Session
from tldextract import TLDExtract

from webcrawl.urls.host import host_of

#: Number of hosts whose domains are cached, in about 10 MB. A look-up takes 4 µs, and links repeat
#: hosts.
CACHED_HOSTS = 1 << 16

# Lines that a complete list contains, in this order. An incomplete list would silently lead to
# other domains.
_LANDMARKS = (
    *("// ===BEGIN ICANN DOMAINS===", "com", "// ===END ICANN DOMAINS==="),
    *("// ===BEGIN PRIVATE DOMAINS===", "// ===END PRIVATE DOMAINS==="),
)
_VERSION = re.compile(r"^// VERSION: (\S+)", re.MULTILINE)
# An additional suffix, so that each host of the simulated web is a domain. No name is ever
# registered in the top-level domain test (RFC 6761).
_SIMULATED = "sim.test"


class SuffixList:
    """A public suffix list, as published by publicsuffix.org.

    *version* is its date, such as 2026-10-22_08-36-41_UTC, or "of unknown date". Raises ValueError
    if *text* is not such a list.
    """

    def __init__(self, text: str) -> None:
        position = 0
        for line in _LANDMARKS:
            position = text.find(f"\n{line}\n", position)
            if position < 0:
                raise ValueError("is not a public suffix list, or is incomplete")
        version = _VERSION.search(text)
        self.text = text
        self.version = version[1] if version else "of unknown date"

    @cached_property
    def _extract(self) -> TLDExtract:
        """The parsed list. It is parsed at the first use, which takes 30 ms."""
        extract = TLDExtract(
            cache_dir=None,
            suffix_list_urls=("text:",),
            fallback_to_snapshot=False,
            extra_suffixes=(_SIMULATED,),
        )
        # Instead of fetching a URL, the session returns the text.
        extract.update(fetch_now=True, session=_GivenText(self.text))
        return extract

    def has_suffix_rule(self, host: str) -> bool:
        """Return whether the list has a rule for the suffix of *host*."""
        return bool(self._extract.extract_str(host).suffix)

    def below(self, host: str, *, private: bool) -> str:
        """Return the registered domain of *host*, or its site if *private*.

        *private* means that the second section of the list is used, too.
        """
        if ":" in host or host.rpartition(".")[2].isdecimal():
            return host  # an address
        parts = self._extract.extract_str(host, include_psl_private_domains=private)
        if parts.suffix:
            return parts.top_domain_under_public_suffix or host
        # The default rule of the list, which the library does not apply.
        return ".".join(host.split(".")[-2:])


class _GivenText(Session):
    """A fake HTTP session that passes *text*, the list, to the library."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def get(self, *_: Any, **__: Any) -> Response:
        """Return a response with the list."""
        answer = Response()
        answer.status_code = 200
        answer.encoding = "utf-8"
        answer.raw = io.BytesIO(self._text.encode("utf-8"))
        return answer


@lru_cache(maxsize=CACHED_HOSTS)
def registered_domain(host: str) -> str:
    """Return the registered domain of *host*, a result of ``host_of``.

    It is *host* itself for an address, a single label or a public suffix. The first call may parse
    the list, which takes 30 ms.
    """
    return current_list().below(host, private=False)


@lru_cache(maxsize=CACHED_HOSTS)
def site_of(host: str) -> str:
    """Return the site of *host*: its registered domain, or a name below a shared domain.

    Shared domains are those in the second section of the list.
    """
    return current_list().below(host, private=True)


def domain_of(url: str) -> str:
    """Return the registered domain of the normalized URL *url*."""
    return registered_domain(host_of(url))


def is_same_site(url: str, other: str) -> bool:
    """Return whether the normalized URLs *url* and *other* have the same scheme and site."""
    is_same_scheme = url.partition(":")[0] == other.partition(":")[0]
    return is_same_scheme and site_of(host_of(url)) == site_of(host_of(other))


def bundled_list() -> SuffixList:
    """Return the list in the package ``tldextract``."""
    return SuffixList(files("tldextract").joinpath(".tld_set_snapshot").read_text("utf-8"))


_current: list[SuffixList] = []


def current_list() -> SuffixList:
    """Return the list that ``registered_domain`` and ``site_of`` use."""
    if not _current:
        _current.append(bundled_list())
    return _current[0]


def use_list(suffixes: SuffixList) -> None:
    """Use the list *suffixes* from now on."""
    if _current and _current[0].text == suffixes.text:
        return
    _current[:] = [suffixes]
    registered_domain.cache_clear()
    site_of.cache_clear()


#: For each value of POLITENESS_KEY, the function that returns the key of a host. With "address", a
#: host has its own pauses and shares others with all hosts at its address; the preconditions check
#: these.
POLITENESS_KEYS: dict[str, Callable[[str], str]] = {
    "host": str,
    "address": str,
    "domain": registered_domain,
}
