"""Table of URL filters: built-in filters and users' own, in the order of URL_FILTERS.

Called with the links of each page, in the process that fetched the page, before URLs are compared.
A user's filter refuses a URL or rewrites it. A rewritten URL passes through the built-in filters
again, so that it stays in scope. URLs that pass the built-in filters are cached (chain.py); a
user's filter is called for each link.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import NamedTuple, Protocol

from webcrawl.urls.filters.chain import Answer, FilterChain
from webcrawl.urls.host import host_of

logger = logging.getLogger(__name__)
_refusal = itemgetter(1)

#: Function that is called with the name of a filter, the number of URLs that it has refused, the
#: last refused URL, its ``via``, and the reason.
Sampled = Callable[[str, int, str, str, str], object]

# The sample contains this many first refusals of each filter, then those whose number is a power of
# two.
_SAMPLED = 20


class RefusedUrlError(Exception):
    """Raised by ``process_url`` to refuse the URL; the message is the reason."""


class UrlProcessor(Protocol):
    """Interface of a user's filter, which is named in URL_FILTERS.

    It may have a class method ``from_crawler(crawler)``, and a ``name`` under which its refusals
    are counted; the default is made from the name of the class. It is called in the event loop, for
    each link and seed.
    """

    def process_url(self, url: str, via: str) -> str:
        """Return *url*, or the absolute URL to use instead; raise ``RefusedUrlError`` to refuse it.

        *url* is normalized, and the result will be normalized. *via* is the URL of the page that
        links to it, empty for a seed. Any other exception refuses the URL, too; the first exception
        of each filter is logged.
        """


class OwnFilter(NamedTuple):
    """A user's filter and its name."""

    name: str
    part: UrlProcessor


class FilterTable:
    """Applies *stages*, each of which is a chain of built-in filters or a user's filter.

    *form* normalizes a rewritten URL; it returns None if the URL is not valid. *sampled* is called
    for a sample of the refusals of each filter. ``refused`` counts all refusals by filter.
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
        # Users' filters of which an exception was logged.
        self._failed: set[str] = set()

    def judge(
        self,
        urls: Sequence[str],
        depth: int,
        via: str,
        *,
        is_hop: Callable[[str], bool] = lambda _url: False,
    ) -> tuple[Sequence[str], list[Answer]]:
        """Return *urls* as rewritten by users' filters, and an answer for each.

        An answer is the host and the name of the filter that refuses the URL, or None if it passes
        all filters. *depth* is the depth of the URLs; *via* is as in ``process_url``. *is_hop*
        tells whether a URL is in the redirect chain that led to *urls*. A URL is not rewritten to
        one of these. Raises OSError if the sample cannot be written.
        """
        reasons: dict[int, str] = {}  # of users' filters, by the index of the URL
        if len(self._stages) == len(self._chains) == 1:  # no filter of a user
            answers = self._chains[0].answers(urls, depth, host_of(via))
        else:
            urls, answers = self._judge_by_stages(urls, depth, via, is_hop, reasons)
        if not any(map(_refusal, answers)):
            return urls, answers
        for index, (_, filter_name) in enumerate(answers):
            if filter_name is not None:
                self.refused[filter_name] += 1
                number = self.refused[filter_name]
                is_power_of_two = number & number - 1 == 0
                if number <= _SAMPLED or is_power_of_two:
                    found = (chain.reason(filter_name, urls[index]) for chain in self._chains)
                    reason = reasons.get(index) or next(filter(None, found), "")
                    self._sampled(filter_name, number, urls[index], via, reason)
        return urls, answers

    def _judge_by_stages(
        self,
        urls: Sequence[str],
        depth: int,
        via: str,
        is_hop: Callable[[str], bool],
        reasons: dict[int, str],
    ) -> tuple[list[str], list[Answer]]:
        """Return the result of ``judge``; add the reasons of users' filters to *reasons*."""
        rewritten = [*urls]
        answers: list[Answer] = [(host_of(url), None) for url in urls]

        def pass_through(
            stages: Sequence[FilterChain | OwnFilter], passing: Sequence[int]
        ) -> Sequence[int]:
            """Apply *stages* to the URLs with the indexes *passing*; return those that passed."""
            for stage in stages:
                if isinstance(stage, FilterChain):
                    stage_answers = stage.answers(
                        [rewritten[i] for i in passing], depth, host_of(via)
                    )
                    for i, answer in zip(passing, stage_answers, strict=True):
                        answers[i] = answer
                else:
                    for i in passing:
                        try:
                            rewritten[i] = self._process(stage, rewritten[i], via)
                            answers[i] = host_of(rewritten[i]), None
                        except RefusedUrlError as error:
                            answers[i] = answers[i][0], stage.name
                            reasons[i] = str(error)
                passing = [i for i in passing if answers[i][1] is None]
            return passing

        passing = pass_through(self._stages, range(len(urls)))
        changed = [i for i in passing if rewritten[i] != urls[i]]
        for i in changed:
            if is_hop(rewritten[i]):  # it would lead back to the URL that redirects
                rewritten[i] = urls[i]
                answers[i] = host_of(urls[i]), None
        # Rewritten URLs pass through the built-in filters again, so that they stay in scope.
        pass_through(self._chains, changed)
        return rewritten, answers

    def _process(self, own: OwnFilter, url: str, via: str) -> str:
        """Return *url* as rewritten by *own*. Raises RefusedUrlError if *own* raises anything."""
        try:
            rewritten = own.part.process_url(url, via)
            normalized = url if rewritten == url else self._form(rewritten)
        except RefusedUrlError:
            raise
        except Exception as error:
            if own.name not in self._failed:
                self._failed.add(own.name)
                logger.exception("The URL filter %s failed for %s; URL refused", own.name, url)
            raise RefusedUrlError(repr(error)) from error
        if normalized is None:
            raise RefusedUrlError(f"rewritten to {rewritten!r}, which is not a URL of this crawl")
        return normalized
