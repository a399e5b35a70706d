"""Registered domain and site of a host, by the public suffix list.

``www.bbc.co.uk`` and ``news.bbc.co.uk`` are both of the domain ``bbc.co.uk``. The list has two
sections. Domains go by the first, of what registries sell; under a suffix that it does not know,
one label is the suffix (its default rule ``*``). Sites go by the second, too, of what others give
away: ``alice.github.io`` is a site of its own, in the domain ``github.io``. A crawl may be limited
to sites; budgets, reputation and politeness go by domains, or a farm would have a budget for each
name that it gets for nothing.

One list is in use in a process, set when a job is opened (``webcrawl.crawl.suffix_lists``): what is
kept by domain is worth nothing under another list. Until then it is the list of the package
``tldextract``; nothing is downloaded.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from webcrawl.urls.host import host_of
from webcrawl.urls.normalizer import normalize

if TYPE_CHECKING:
    from collections.abc import Callable

CACHED_HOSTS: Final = 1 << 16
"""A look-up costs 2 µs, and links repeat their hosts; 65,536 hosts take about 10 MB."""

_PRIVATE: Final = "// ===BEGIN PRIVATE DOMAINS==="
# Lines of a whole list, in this order: half of one would make other domains without a word.
_LANDMARKS: Final = (
    *("// ===BEGIN ICANN DOMAINS===", "com", "// ===END ICANN DOMAINS==="),
    *(_PRIVATE, "// ===END PRIVATE DOMAINS==="),
)
_VERSION: Final = re.compile(r"^// VERSION: (\S+)", re.MULTILINE)
# The hosts of the simulated internet are domains of their own. Of the top-level domain test no name
# is ever registered (RFC 6761).
_SIMULATED: Final = "sim.test"


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

    @cached_property
    def _rules(self) -> tuple[frozenset[str], frozenset[str]]:
        """The rules of registries, and all rules. Read at their first use: 0.06 s."""
        registries, _, others = self.text.partition(_PRIVATE)
        sold = _rules_in(registries) | {_SIMULATED}
        return sold, sold | _rules_in(others)

    def domain(self, host: str) -> str:
        """See ``registered_domain``."""
        return _below(host, self._rules[0])

    def site(self, host: str) -> str:
        """See ``site_of``."""
        return _below(host, self._rules[1])


def _rules_in(text: str) -> frozenset[str]:
    """The rules among the lines of *text*, as ``host_of`` writes names."""
    words = (word for line in text.splitlines() for word in line.split()[:1])
    rules = [word for word in words if not word.startswith("//")]
    return frozenset(
        rule if rule.isascii() else host_of(normalize(f"http://{rule}/") or rule) for rule in rules
    )


def _below(host: str, rules: frozenset[str]) -> str:
    """What of *host* is registered under the longest suffix that *rules* know, by the algorithm at
    publicsuffix.org: a wildcard stands for one label, and ``!`` takes a name out of it."""
    labels = host.split(".")
    if ":" in host or labels[-1].isdecimal() or not all(labels):
        return host  # an address, or no name
    for at, label in enumerate(labels):
        parent = ".".join(labels[at + 1 :])
        name = f"{label}.{parent}" if parent else label
        if f"!{name}" in rules:
            return name
        if name in rules or (parent and f"*.{parent}" in rules):
            return ".".join(labels[max(at - 1, 0) :])
    return ".".join(labels[-2:])


@lru_cache(maxsize=CACHED_HOSTS)
def registered_domain(host: str) -> str:
    """The registered domain of *host* (as ``host_of`` gives it).

    *host* itself when it is an address, a single label or a public suffix. The first call may read
    the list, which takes about 0.06 s.
    """
    return in_use().domain(host)


@lru_cache(maxsize=CACHED_HOSTS)
def site_of(host: str) -> str:
    """The site of *host*: its registered domain, or a name in one that gives names away."""
    return in_use().site(host)


def bundled() -> SuffixList:
    """The list of the package."""
    return SuffixList(files("tldextract").joinpath(".tld_set_snapshot").read_text("utf-8"))


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


def domain_of(url: str) -> str:
    """The registered domain of a normalized *url*."""
    return registered_domain(host_of(url))


#: Of the values of POLITENESS_KEY, how each gets a URL's key. With "address" hosts have a clock of
#: their own and share another one with all hosts at their address, compared by the preconditions.
POLITENESS_KEYS: Final[dict[str, Callable[[str], str]]] = {
    "host": host_of,
    "address": host_of,
    "domain": domain_of,
}
