"""Registered domain and site of a host, by the public suffix list.

``www.bbc.co.uk`` and ``news.bbc.co.uk`` are both in the domain ``bbc.co.uk``. The list has two
sections. Domains use only the first one, with the suffixes that registries sell. Below a suffix
that is not listed, the last label is the suffix (the default rule ``*``). Sites also use the second
section, with suffixes that others give away: ``alice.github.io`` is a site of its own, in the
domain ``github.io``. A crawl may be limited to sites. Budgets, reputation and politeness are kept
per domain, or a farm would have a budget for each name that it gets for free.

A process uses one list, set when a job is opened (crawl/job/suffix_lists.py), as what is stored per
domain is useless with another list. Before that it is the list in the package ``tldextract``.
Nothing is downloaded.
"""

from __future__ import annotations

import io
import re
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from requests import Response, Session
from tldextract import TLDExtract

if TYPE_CHECKING:
    from collections.abc import Callable

CACHED_HOSTS = 1 << 16
"""A lookup takes 4 µs, and links repeat their hosts; 65,536 hosts take about 10 MB."""

# Lines of a complete list, in this order. An incomplete list would silently give other domains.
_LANDMARKS = (
    *("// ===BEGIN ICANN DOMAINS===", "com", "// ===END ICANN DOMAINS==="),
    *("// ===BEGIN PRIVATE DOMAINS===", "// ===END PRIVATE DOMAINS==="),
)
_VERSION = re.compile(r"^// VERSION: (\S+)", re.MULTILINE)
# Each host of the simulated internet is a domain. No name is ever registered in the top-level
# domain test (RFC 6761).
_SIMULATED = "sim.test"


class SuffixList:
    """A public suffix list, as published by publicsuffix.org.

    *version* is its date, such as 2026-10-22_08-36-41_UTC, or "of unknown date". Raises ValueError
    if *text* is not such a list.
    """

    def __init__(self, text: str) -> None:
        at = 0
        for line in _LANDMARKS:
            at = text.find(f"\n{line}\n", at)
            if at < 0:
                raise ValueError("is not a public suffix list, or is incomplete")
        version = _VERSION.search(text)
        self.text = text
        self.version = version[1] if version else "of unknown date"

    @cached_property
    def _extract(self) -> TLDExtract:
        """The parsed list. Parsing takes 30 ms, at the first use."""
        extract = TLDExtract(
            cache_dir=None,
            suffix_list_urls=("text:",),
            fallback_to_snapshot=False,
            extra_suffixes=(_SIMULATED,),
        )
        extract.update(fetch_now=True, session=_GivenText(self.text))
        return extract

    def knows_suffix_of(self, host: str) -> bool:
        """Return whether the list has a rule for the suffix of *host*."""
        return bool(self._extract.extract_str(host).suffix)

    def below(self, host: str, *, private: bool) -> str:
        """Return what ``registered_domain`` returns, or ``site_of`` if *private*."""
        if ":" in host or host.rpartition(".")[2].isdecimal():
            return host  # an address
        found = self._extract.extract_str(host, include_psl_private_domains=private)
        if found.suffix:
            return found.top_domain_under_public_suffix or host
        # The list's default rule, which the library leaves out.
        return ".".join(host.split(".")[-2:])


class _GivenText(Session):
    """A fake session that hands *text*, the list, to the library."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def get(self, *_: Any, **__: Any) -> Response:
        """Return the list."""
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
    """Return the site of *host*: its registered domain, or a name below a shared one.

    Shared domains are those of the list's second section.
    """
    return current_list().below(host, private=True)


def bundled() -> SuffixList:
    """Return the list of the package."""
    return SuffixList(files("tldextract").joinpath(".tld_set_snapshot").read_text("utf-8"))


_current: list[SuffixList] = []


def current_list() -> SuffixList:
    """Return the list that ``registered_domain`` and ``site_of`` use."""
    if not _current:
        _current.append(bundled())
    return _current[0]


def use_list(suffixes: SuffixList) -> None:
    """Use *suffixes* from now on."""
    if _current and _current[0].text == suffixes.text:
        return
    _current[:] = [suffixes]
    registered_domain.cache_clear()
    site_of.cache_clear()


#: The function that returns the key of a host, for each value of POLITENESS_KEY. With "address" a
#: host has its own clock, and shares another with all hosts at its address, which the preconditions
#: check.
POLITENESS_KEYS: dict[str, Callable[[str], str]] = {
    "host": str,
    "address": str,
    "domain": registered_domain,
}
