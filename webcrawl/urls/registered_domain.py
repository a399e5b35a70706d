"""Registered domain and site of a host, by the public suffix list.

``www.bbc.co.uk`` and ``news.bbc.co.uk`` are both of the domain ``bbc.co.uk``. The list has two
sections. Domains go by the first, of what registries sell; under a suffix that it does not know,
one label is the suffix (its default rule ``*``). Sites go by the second, too, of what others give
away: ``alice.github.io`` is a site of its own, in the domain ``github.io``. A crawl may be limited
to sites; budgets, reputation and politeness go by domains, or a farm would have a budget for each
name that it gets for nothing.

One list is in use in a process, set when a job is opened (crawl/job/suffix_lists.py): what is
kept by domain is worth nothing under another list. Until then it is the list of the package
``tldextract``; nothing is downloaded.
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
"""A look-up costs 4 µs, and links repeat their hosts; 65,536 hosts take about 10 MB."""

# Lines of a whole list, in this order: half of one would make other domains without a word.
_LANDMARKS = (
    *("// ===BEGIN ICANN DOMAINS===", "com", "// ===END ICANN DOMAINS==="),
    *("// ===BEGIN PRIVATE DOMAINS===", "// ===END PRIVATE DOMAINS==="),
)
_VERSION = re.compile(r"^// VERSION: (\S+)", re.MULTILINE)
# The hosts of the simulated internet are domains of their own. Of the top-level domain test no name
# is ever registered (RFC 6761).
_SIMULATED = "sim.test"


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
    def _extract(self) -> TLDExtract:
        """Read at its first use: 30 ms."""
        extract = TLDExtract(
            cache_dir=None,
            suffix_list_urls=("text:",),
            fallback_to_snapshot=False,
            extra_suffixes=(_SIMULATED,),
        )
        extract.update(fetch_now=True, session=_Given(self.text))
        return extract

    def knows_suffix_of(self, host: str) -> bool:
        """Whether the list has a rule for the suffix of *host*."""
        return bool(self._extract.extract_str(host).suffix)

    def below(self, host: str, *, private: bool) -> str:
        """See ``registered_domain``, and ``site_of`` for *private*."""
        if ":" in host or host.rpartition(".")[2].isdecimal():
            return host  # an address
        found = self._extract.extract_str(host, include_psl_private_domains=private)
        if found.suffix:
            return found.top_domain_under_public_suffix or host
        # The list's default rule, which the library leaves out.
        return ".".join(host.split(".")[-2:])


class _Given(Session):
    """Source of a list for the library; here *text* is the list."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def get(self, *_: Any, **__: Any) -> Response:
        """The list."""
        answer = Response()
        answer.status_code = 200
        answer.encoding = "utf-8"
        answer.raw = io.BytesIO(self._text.encode("utf-8"))
        return answer


@lru_cache(maxsize=CACHED_HOSTS)
def registered_domain(host: str) -> str:
    """The registered domain of *host* (as ``host_of`` gives it).

    *host* itself when it is an address, a single label or a public suffix. The first call may read
    the list, which takes 30 ms.
    """
    return in_use().below(host, private=False)


@lru_cache(maxsize=CACHED_HOSTS)
def site_of(host: str) -> str:
    """The site of *host*: its registered domain, or a name in one that gives names away."""
    return in_use().below(host, private=True)


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


#: Of the values of POLITENESS_KEY, how each gets the key of a host. With "address" hosts have a
#: clock of their own and share another one with all hosts at their address, compared by the
#: preconditions.
POLITENESS_KEYS: dict[str, Callable[[str], str]] = {
    "host": str,
    "address": str,
    "domain": registered_domain,
}
