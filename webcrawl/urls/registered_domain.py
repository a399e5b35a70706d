"""Registered domain and site of a host, by the public suffix list.

``www.bbc.co.uk`` and ``news.bbc.co.uk`` are both of the domain ``bbc.co.uk``. The list has two
sections. Domains go by the first, of what registries sell; under a suffix that it does not know,
one label is the suffix (its default rule ``*``). Sites go by the second, too, of what others give
away: ``alice.github.io`` is a site of its own, in the domain ``github.io``. A crawl may be limited
to sites; budgets, reputation and politeness go by domains, or a farm would have a budget for each
name that it gets for nothing.

One list is in use in a process, set when a job is opened (``webcrawl.suffix_lists``): what is kept
by domain is worth nothing under another list. Until then it is the list of the package
``publicsuffixlist``; nothing is downloaded.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final

from publicsuffixlist import PSLFILE, PublicSuffixList

CACHED_HOSTS: Final = 1 << 16
"""A look-up costs 4 µs, and links repeat their hosts; 65,536 hosts take about 10 MB."""

# Lines of a whole list, in this order: half of one would make other domains without a word.
_LANDMARKS: Final = (
    *("// ===BEGIN ICANN DOMAINS===", "com", "// ===END ICANN DOMAINS==="),
    *("// ===BEGIN PRIVATE DOMAINS===", "// ===END PRIVATE DOMAINS==="),
)
_VERSION: Final = re.compile(r"^// VERSION: (\S+)", re.MULTILINE)
# The hosts of the simulated internet are domains of their own. Of the top-level domain test no name
# is ever registered (RFC 6761).
_SIMULATED: Final = "\n// ===BEGIN ICANN DOMAINS===\nsim.test\n// ===END ICANN DOMAINS===\n"


class SuffixList:
    """A public suffix list, as publicsuffix.org publishes it. ValueError if *text* is none.

    *version* is its date, as 2026-10-22_08-36-41_UTC, or "of unknown date".
    """

    def __init__(self, text: str) -> None:
        at = 0
        for line in _LANDMARKS:
            at = text.find(f"\n{line}\n", at)
            if at < 0:
                raise ValueError("is no public suffix list, or not a whole one")
        version = _VERSION.search(text)
        self.text = text
        self.version = version[1] if version else "of unknown date"

    # Read when they are asked for the first time: 0.04 s each.
    @cached_property
    def _registries(self) -> PublicSuffixList:
        return PublicSuffixList(self.text + _SIMULATED, only_icann=True)

    @cached_property
    def _all(self) -> PublicSuffixList:
        return PublicSuffixList(self.text + _SIMULATED)

    def domain(self, host: str) -> str:
        """See ``registered_domain``."""
        return _below(self._registries, host)

    def site(self, host: str) -> str:
        """See ``site_of``."""
        return _below(self._all, host)


def _below(suffixes: PublicSuffixList, host: str) -> str:
    if ":" in host or host.rpartition(".")[2].isdecimal():
        return host  # an address
    return suffixes.privatesuffix(host) or host


@lru_cache(maxsize=CACHED_HOSTS)
def registered_domain(host: str) -> str:
    """The registered domain of *host* (as ``host_of`` gives it).

    *host* itself when it is an address, a single label or a public suffix. The first call may read
    the list, which takes about 0.1 s.
    """
    return in_use().domain(host)


@lru_cache(maxsize=CACHED_HOSTS)
def site_of(host: str) -> str:
    """The site of *host*: its registered domain, or a name in one that gives names away."""
    return in_use().site(host)


def bundled() -> SuffixList:
    """The list of the package."""
    return SuffixList(Path(PSLFILE).read_text(encoding="utf-8"))


_in_use: list[SuffixList] = []


def in_use() -> SuffixList:
    """The list that ``registered_domain`` and ``site_of`` go by."""
    if not _in_use:
        _in_use.append(bundled())
    return _in_use[0]


def use(suffixes: SuffixList) -> None:
    """Go by *suffixes* from now on."""
    if _in_use and _in_use[0].text == suffixes.text:
        return
    _in_use[:] = [suffixes]
    registered_domain.cache_clear()
    site_of.cache_clear()
