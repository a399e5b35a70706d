"""Builds the URL filters of a crawl from its settings.

Called once, when the scheduler is built. settings.py describes the settings, ``webcrawl.urls`` the
filters, and ``webcrawl.configuration`` how URLs are compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping
from contextlib import suppress
from itertools import groupby
from typing import Any

from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings

from webcrawl.configuration.values import (
    choice,
    dictionary,
    part_of,
    port_numbers,
    whole_number,
    words,
)
from webcrawl.errors import FatalError
from webcrawl.urls.filters.chain import Filter, FilterChain, length_filter, scheme_filter
from webcrawl.urls.filters.path_filters import (
    action_filter,
    calendar_filter,
    extension_filter,
    growing_segments_filter,
    listing_sort_filter,
    parameters_filter,
    repeated_segments_filter,
    segments_filter,
)
from webcrawl.urls.filters.scope import (
    BAD_PORTS,
    MAX_PATTERNS,
    host_labels_filter,
    own_domain_filter,
    pattern_filter,
    patterns_from,
    port_filter,
    restrict_filter,
    whitelist_filter,
)
from webcrawl.urls.filters.table import FilterTable, OwnFilter, Sampled, UrlProcessor
from webcrawl.urls.normalizer import normalize

_EXTENSIONS = "URL_REFUSED_EXTENSIONS"
_EXTENSION = re.compile(r"[^\s./:?#]+")
OPEN = "open"
SEEDS = "seeds"
DOMAIN = "domain"

#: The names of the built-in filters, with their places in the order of URL_FILTERS.
BUILT_IN = {
    "scheme": 100, "port": 200, "host_labels": 300, "length": 400, "segments": 500,
    "repeated_segments": 600, "growing_segments": 700, "parameters": 800, "listing_sort": 900,
    "calendar": 1000, "action": 1100, "extension": 1300,
    "restrict_to": 1400, "pattern": 1500, "depth": 1600, "whitelist": 1700, "own_domain": 1800,
}  # fmt: skip
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Calendar pages are accepted up to this many years ahead, because events are announced so early.
_CALENDAR_YEARS = 5


def scope_of(settings: BaseSettings) -> str:
    """Return URL_SCOPE: OPEN, SEEDS (all sites of seeds) or DOMAIN (only the page's own site)."""
    return choice(settings, "URL_SCOPE", (OPEN, SEEDS, DOMAIN))


def filters_of(
    settings: BaseSettings,
    *,
    schemes: frozenset[str],
    domains: Container[str] | None = None,
    this_year: int,
    for_seeds: bool = False,
    own: Mapping[Any, OwnFilter] | None = None,
    sampled: Sampled = lambda *_: None,
) -> FilterTable:
    """Build the built-in filters and the user's *own*, in the order of URL_FILTERS.

    for_seeds: build the filters for URLs that the owner of the crawl has chosen. They may have any
        port, unless the settings name the allowed ones.
    domains: the seeds' sites, needed if URL_SCOPE is not open; None leaves that check to the shard
        of the target.
    this_year: the current year, for the filter of calendar pages.
    sampled: see ``FilterTable``.

    Raises FatalError with one sentence for an invalid setting.
    """
    own = own or {}
    filters = _built_in_filters(settings, schemes, domains, this_year, for_seeds)
    built_in = {url_filter.name: url_filter for url_filter in filters}
    max_depth = whole_number(settings, "URL_MAX_DEPTH", at_least=0)

    # Consecutive built-in filters form one chain.
    stages: list[FilterChain | OwnFilter] = []
    for is_own, keys in groupby(_keys_in_order(settings), own.__contains__):
        if is_own:
            stages += [own[key] for key in keys]
            continue
        names = [*keys]
        chain = [built_in[name] for name in names if name in built_in]
        stages.append(FilterChain(chain, max_depth=max_depth if "depth" in names else 0))

    return FilterTable(stages, form=lambda url: normalize(url, schemes=schemes), sampled=sampled)


def own_filters(crawler: Crawler) -> dict[Any, OwnFilter]:
    """Build the user's own filters, by their keys in URL_FILTERS.

    Raises FatalError with one sentence for an object that is not a filter.
    """
    own: dict[Any, OwnFilter] = {}
    names = set(BUILT_IN)
    for key in _keys_in_order(crawler.settings):
        if key in BUILT_IN:
            continue
        part = part_of(crawler, "URL_FILTERS", key, like=UrlProcessor)
        name = str(getattr(part, "name", "") or _WORD.sub("_", type(part).__name__).lower())
        if not _NAME.fullmatch(name) or name in names:
            raise FatalError(
                f"URL_FILTERS: {key} needs a unique name of lower-case letters, digits and "
                f"underscores, not {name!r}."
            )
        names.add(name)
        own[key] = OwnFilter(name, part)
    return own


def _keys_in_order(settings: BaseSettings) -> list[Any]:
    """Return the keys of the URL filters that are switched on, sorted by their positions."""
    positions = {**BUILT_IN, **dictionary(settings, "URL_FILTERS")}
    for key, position in positions.items():
        if not (position is None or isinstance(position, (int, float))):
            raise FatalError(
                f"URL_FILTERS: the position of {key} must be a number, not {position!r}."
            )
        # A misspelled built-in name would otherwise be ignored. Classes and paths may be absent.
        if position is None and isinstance(key, str) and key not in BUILT_IN and "." not in key:
            raise FatalError(f"URL_FILTERS switches off {key!r}, which is not a filter.")
    return sorted(
        (key for key in positions if positions[key] is not None), key=positions.__getitem__
    )


def _built_in_filters(
    settings: BaseSettings,
    schemes: frozenset[str],
    domains: Container[str] | None,
    this_year: int,
    for_seeds: bool,
) -> list[Filter]:
    """Build the built-in filters that the settings switch on, see ``filters_of``."""
    scope = scope_of(settings)
    # The order of the filters here does not matter: URL_FILTERS gives it.
    filters = _server_filters(settings, schemes, frozenset() if for_seeds else BAD_PORTS)

    if max_bytes := whole_number(settings, "URL_MAX_LENGTH_BYTES", at_least=0):
        filters.append(length_filter(max_bytes))
    filters += [
        segments_filter(),
        repeated_segments_filter(),
        growing_segments_filter(),
        host_labels_filter(),
        parameters_filter(),
        listing_sort_filter(),
        calendar_filter(this_year + _CALENDAR_YEARS),
        action_filter(),
    ]

    extensions = [word.removeprefix(".").lower() for word in words(settings, _EXTENSIONS)]
    if wrong := [one for one in extensions if not _EXTENSION.fullmatch(one)]:
        raise FatalError(f"{_EXTENSIONS} must be extensions such as jpg, not {wrong[0]!r}.")
    if extensions:
        filters.append(extension_filter(frozenset(extensions)))

    filters += _pattern_filters(settings)
    if scope != OPEN and domains is not None:
        filters.append(whitelist_filter(domains))
    if scope == DOMAIN:
        filters.append(own_domain_filter())
    return filters


def redirect_filters_of(settings: BaseSettings, *, schemes: frozenset[str]) -> FilterChain:
    """Build the filters for redirects whose targets are fetched regardless of the crawl's scope.

    These are redirects of a robots.txt or of a spider's own Request, whose target the site chooses.
    Raises FatalError like ``filters_of``.
    """
    filters = _server_filters(settings, schemes)
    if max_bytes := whole_number(settings, "URL_MAX_LENGTH_BYTES", at_least=0):
        filters.append(length_filter(max_bytes))
    return FilterChain(filters)


def _server_filters(
    settings: BaseSettings, schemes: frozenset[str], bad_ports: frozenset[int] = BAD_PORTS
) -> list[Filter]:
    """Build the filters for schemes and ports."""
    return [scheme_filter(schemes), port_filter(port_numbers(settings, "URL_PORTS"), bad_ports)]


def _pattern_filters(settings: BaseSettings) -> list[Filter]:
    """Build the filters of the regular expressions in URL_RESTRICT_TO and URL_REFUSE."""
    filters: list[Filter] = []
    for setting, make in (("URL_RESTRICT_TO", restrict_filter), ("URL_REFUSE", pattern_filter)):
        # getlist would split a regular expression given with -s at its commas. A list of several
        # expressions is given as JSON.
        value: Any = settings.get(setting) or []
        with suppress(TypeError, ValueError):
            value = decoded if isinstance(decoded := json.loads(value), list) else value
        expressions = [value] if isinstance(value, str) else [str(item) for item in value]

        if expressions:
            is_too_many = setting == "URL_REFUSE" and len(expressions) > MAX_PATTERNS
            hint = "; EXCLUSION_FILE takes 10,000, one /EXPRESSION/ a line" if is_too_many else ""
            try:
                filters.append(make(patterns_from(expressions)))
            except ValueError as error:
                raise FatalError(f"{setting} {error}{hint}.") from error
    return filters
