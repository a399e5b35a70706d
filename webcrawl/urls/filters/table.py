"""Table of URL filters: the built-in ones and a user's own, in the order of URL_FILTERS.

Called with the links of each page, in the process of the page, before URLs are compared. A user's
filter refuses a URL or rewrites it. A rewritten URL passes through the built-in filters again, so
that it stays in scope. URLs that pass the built-in filters are cached (chain.py); a user's filter
is called for each link.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from webcrawl.urls.filters.chain import FilterChain
from webcrawl.urls.host import host_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from webcrawl.urls.filters.chain import Answer

logger = logging.getLogger(__name__)

#: Called with the name of a filter, how many URLs it has refused, the last one, its ``via``, the
#: reason.
Sampled: TypeAlias = "Callable[[str, int, str, str, str], object]"

# The sample has this many first refusals of a filter, then those whose number is a power of two.
_SAMPLED = 20


class RefusedUrlError(Exception):
    """Raised by ``process_url`` to refuse the URL; its text is the reason."""


class UrlProcessor(Protocol):
    """Interface of a user's filter, which is named in URL_FILTERS.

    It may have ``from_crawler(crawler)``, and a ``name`` under which its refusals are counted; the
    default name is made from the class name. It is called in the event loop, for each link and
    seed.
    """

    def process_url(self, url: str, via: str) -> str:
        """Return *url*, or the absolute URL to use instead; raise ``RefusedUrlError`` to refuse it.

        *url* is normalized, and the result will be. *via* is the page that links to it, empty for a
        seed. Any other exception refuses the URL, too; the first one of each filter is logged.
        """
        ...


class OwnFilter(NamedTuple):
    """A user's filter, with its name."""

    name: str
    part: UrlProcessor


class FilterTable:
    """The *stages*, each of which is a chain of built-in filters or a user's filter.

    *form* normalizes a rewritten URL; it returns None if that is not valid. *sampled* is called
    with a limited number of refusals of each filter. ``refused`` counts them by filter.
    """

    def __init__(
        self,
        stages: Sequence[FilterChain | OwnFilter],
        *,
        form: Callable[[str], str | None] = lambda url: url,
        sampled: Sampled = lambda *_: None,
    ) -> None:
        self.refused: Counter[str] = Counter()
        self._stages = stages
        self._chains = [stage for stage in stages if isinstance(stage, FilterChain)]
        self._form = form
        self._sampled = sampled
        self._failed: set[str] = set()

    def judge(
        self,
        urls: Sequence[str],
        depth: int,
        via: str,
        *,
        leads_back: Callable[[str], bool] = lambda _url: False,
    ) -> tuple[Sequence[str], list[Answer]]:
        """Return *urls*, rewritten, and an answer for each.

        An answer is the host and the name of the filter that refuses the URL, None if it passes
        all. *depth* is that of the URLs, *via* is as in ``process_url``. A URL is not rewritten to
        one that *leads_back*. Raises OSError if the sample cannot be written.
        """
        reasons: dict[int, str] = {}
        if len(self._stages) == len(self._chains) == 1:
            answers = self._chains[0].answers(urls, depth, host_of(via))
        else:
            urls, answers = self._by_stages(urls, depth, via, leads_back, reasons)
        for i, (_, why) in enumerate(answers):
            if why is not None:
                self.refused[why] += 1
                number = self.refused[why]
                if number <= _SAMPLED or not number & number - 1:
                    given = (chain.reason(why, urls[i]) for chain in self._chains)
                    reason = reasons.get(i) or next(filter(None, given), "")
                    self._sampled(why, number, urls[i], via, reason)
        return urls, answers

    def _by_stages(
        self,
        urls: Sequence[str],
        depth: int,
        via: str,
        leads_back: Callable[[str], bool],
        reasons: dict[int, str],
    ) -> tuple[list[str], list[Answer]]:
        """Return the result of ``judge``; *reasons* gets those of users' filters, by index."""
        found = [*urls]
        answers: list[Answer] = [(host_of(url), None) for url in urls]
        at = [*range(len(urls))]
        # Rewritten URLs go through the built-in filters again.
        for n, stage in enumerate([*self._stages, *self._chains]):
            if n == len(self._stages):
                at = [i for i in at if found[i] != urls[i]]
                for i in at:
                    if leads_back(found[i]):
                        found[i], answers[i] = urls[i], (host_of(urls[i]), None)
            if isinstance(stage, FilterChain):
                judged = stage.answers([found[i] for i in at], depth, host_of(via))
                for i, answer in zip(at, judged, strict=True):
                    answers[i] = answer
            else:
                for i in at:
                    try:
                        found[i] = self._processed(stage, found[i], via)
                        answers[i] = host_of(found[i]), None
                    except RefusedUrlError as error:
                        answers[i], reasons[i] = (answers[i][0], stage.name), str(error)
            at = [i for i in at if answers[i][1] is None]
        return found, answers

    def _processed(self, own: OwnFilter, url: str, via: str) -> str:
        """Return *url* as processed by *own*. Raises RefusedUrlError if that raises anything."""
        try:
            to = own.part.process_url(url, via)
            formed = url if to == url else self._form(to)
        except RefusedUrlError:
            raise
        except Exception as error:
            if own.name not in self._failed:
                self._failed.add(own.name)
                logger.exception("The URL filter %s failed for %s; URL refused", own.name, url)
            raise RefusedUrlError(repr(error)) from error
        if formed is None:
            raise RefusedUrlError(f"rewritten to {to!r}, which is not a URL of this crawl")
        return formed
