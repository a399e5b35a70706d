"""Check of settings before a crawl: one sentence where Scrapy would show a traceback.

The type of a Scrapy setting follows from its default in Scrapy: a class, components with their
order, a number, true or false. The values of webcrawl's own settings are checked where they are
read. Here only their names are checked: a misspelled setting would otherwise be ignored silently,
both one that looks like webcrawl's and one on the command line that looks like Scrapy's.
"""

from __future__ import annotations

import codecs
import contextlib
import difflib
import importlib
import inspect
import logging
import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.settings import SETTINGS_PRIORITIES

from webcrawl import settings as own_settings
from webcrawl.configuration.scrapys import OF_OTHER_CRAWLERS, OF_OTHERS, SCRAPYS
from webcrawl.configuration.values import component, dictionary, flag, measured, unit_hint, whole
from webcrawl.errors import FatalError

if TYPE_CHECKING:
    from types import ModuleType

    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

_OURS = frozenset(name for name in dir(own_settings) if name.isupper()) - SCRAPYS.keys()
# Settings of earlier versions, with what to use instead.
_FORMER = {
    name: instead
    for names, instead in {
        "BREAKER_SECS FRONTIER_DOMAIN_SHARE HIVE_CACHE_SIZE NET_KEEPALIVE_SECS NET_MAX_HEADER_BYTES"
        " OUTAGE_PROBE_SECS OUTPUT_STORE_FLUSH_SECS READING_MAX_SECS REDIS_ITEMS_MAX REVISIT_SHARE"
        " ROBOTS_RETRY_SECS SEARCH_HEAP_BYTES SITEMAP_MAX_BYTES TRAP_RETRY_SECS"
        " WARC_MAX_FILE_SECS": ("it is fixed to its default of webcrawl 0.2"),
        "DNS_CACHE_SIZE FRONTIER_BACK_QUEUES_MAX HOSTS_CACHE_SIZE ROBOTS_CACHE_SIZE": (
            "it is now a share of MEMORY_BUDGET"
        ),
        "URL_KNOWN_PATHS URL_MAX_REPEATED_SEGMENTS URL_MAX_SEGMENTS": (
            "use URL_FILTERS to switch filters off by name"
        ),
        "BUDGET_HOST_DEPTH BUDGET_DOMAIN_DEPTH": (
            "use URL_MAX_DEPTH, BUDGET_HOST_PAGES and BUDGET_DOMAIN_PAGES"
        ),
        "DNS_TRIES": "use DNS_QUERY_TIMEOUT_SECS, the timeout of the first of three queries",
        "HIVE_KEY_FILE": (
            "a hive sends no pickles; put plain data into meta and cb_kwargs of Requests"
        ),
        "LINK_EXTRACTORS_BASE": "use LINK_EXTRACTORS, which overrides the built-in ones",
        "URL_EXTENSIONS": "use URL_RESTRICT_TO, which takes regular expressions",
        "URL_FILTERS_BASE": "use URL_FILTERS, which overrides the built-in ones",
        "URL_REFUSED_PORTS": "use URL_PORTS, the list of allowed ports",
    }.items()
    for name in names.split()
}
# A first word that at least this many settings share is webcrawl's; a rarer one may be a user's.
_MIN_SETTINGS = 3
_WORDS = frozenset(
    word
    for word, count in Counter(name.partition("_")[0] for name in _OURS | _FORMER.keys()).items()
    if count >= _MIN_SETTINGS and not any(name.startswith(f"{word}_") for name in SCRAPYS)
)
#: The settings of Scrapy and webcrawl that are dictionaries.
DICTIONARIES = [
    name
    for name, default in (vars(own_settings) | SCRAPYS).items()
    if name.isupper() and isinstance(default, dict)
]
# Two names at least this similar are taken for a misspelling.
_MISSPELLING = 0.85
_PATH = re.compile(r"[A-Za-z_]\w*(\.\w+)+", re.ASCII)
# Its default is a class, but it may also be a word.
_NO_CLASSES = frozenset({"REFERRER_POLICY"})
_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"


def log_level(settings: BaseSettings) -> int | str:
    """Return LOG_LEVEL. Raises FatalError for an invalid value."""
    level: int | str = settings["LOG_LEVEL"]
    levels = logging.getLevelNamesMapping()
    if not (isinstance(level, int) or level in levels):
        raise FatalError(f"LOG_LEVEL must be {' or '.join(levels)}, not {level!r}.")
    return level


def check_process(settings: BaseSettings) -> None:
    """Check the settings that are used before the crawl: log, reactor, spiders.

    Raises FatalError.
    """
    log_level(settings)
    flag(settings, "LOG_ENABLED")
    flag(settings, "LOG_JSON")
    try:
        codecs.lookup(settings["LOG_ENCODING"])
        logging.Formatter(settings["LOG_FORMAT"])
    except (LookupError, ValueError) as error:
        raise FatalError(f"LOG_ENCODING or LOG_FORMAT is not valid: {error}.") from error
    if settings["LOG_FILE"]:
        try:
            Path(settings["LOG_FILE"]).open("ab").close()
        except OSError as error:
            raise FatalError(
                f"LOG_FILE {settings['LOG_FILE']} cannot be written: {error.strerror}."
            ) from error
    if settings["TWISTED_REACTOR"] != _REACTOR:
        raise FatalError(f"TWISTED_REACTOR must be {_REACTOR}, not {settings['TWISTED_REACTOR']}.")
    for name in ("ASYNCIO_EVENT_LOOP", "SPIDER_LOADER_CLASS"):
        _check_class(name, settings[name])
    _check_components(settings, "ADDONS", {})
    for module in settings.getlist("SPIDER_MODULES"):
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if not f"{module}.".startswith(f"{error.name}."):
                raise
            raise FatalError(f"SPIDER_MODULES names {module}: {error}.") from error


def check_crawl(settings: BaseSettings) -> None:
    """Check all other settings, as the spider and add-ons have set them. Raises FatalError."""
    for name in DICTIONARIES:
        dictionary(settings, name)
    for name, default in SCRAPYS.items():
        if isinstance(default, dict) and name.endswith("_BASE"):
            _check_components(settings, name.removesuffix("_BASE"), default)
        elif not settings.getpriority(name) or (value := settings.get(name)) is None:
            continue  # reading a deprecated setting would warn
        elif isinstance(default, bool) or name.endswith("_ENABLED"):
            flag(settings, name)
        elif isinstance(default, (int, float)):
            number = measured(name, value)
            _check_number(name, number, "a whole number" if type(default) is int else "a number")
            if number is not value:  # Scrapy reads it, too, and knows no units
                settings.set(name, number, priority=settings.getpriority(name) or 0)
        elif isinstance(default, str) and _PATH.fullmatch(default) and name not in _NO_CLASSES:
            _check_class(name, value)
    whole(settings, "REACTOR_THREADPOOL_MAXSIZE", at_least=1)
    flag(settings, "FAST_PATH_ENABLED")  # it is read only when everything is open
    _check_feeds(settings)
    _check_names(settings)


def _check_number(name: str, value: Any, kind: str = "a number") -> None:
    try:
        float(value)
    except (TypeError, ValueError):
        hint = unit_hint(name, value)
        raise FatalError(f"{name} must be {kind}, not {value!r}{hint}.") from None


def _check_class(name: str, path: Any) -> None:
    if path is not None:
        component(name, path)


def _check_components(settings: BaseSettings, name: str, base: dict[Any, Any]) -> None:
    """Check the user's entries in the dictionary *name*.

    As in *base*, they are classes with numbers, or names with classes.
    """
    has_class_keys = all(isinstance(value, (int, float)) for value in base.values())
    for key, value in dictionary(settings, name).items():
        if value is None:
            continue
        _check_class(name, key if has_class_keys else value)
        if has_class_keys:
            _check_number(f"{name}: the place of {key}", value)


def _check_feeds(settings: BaseSettings) -> None:
    known = settings.getwithbase("FEED_EXPORTERS").keys()
    for uri, feed in settings.getdict("FEEDS").items():
        if not isinstance(feed, dict) or feed.get("format", settings["FEED_FORMAT"]) not in known:
            formats = ", ".join(sorted(known))
            raise FatalError(f"FEEDS must give a format for {uri}, one of {formats}.")


def _check_names(settings: BaseSettings) -> None:
    """Raise FatalError for a setting that looks like webcrawl's but does not exist.

    A setting that a component of the user reads is accepted.
    """
    for name in settings:
        if name in _OURS or name in OF_OTHERS:
            continue
        upper = name.upper()
        known = _OURS | OF_OTHERS if _is_typed(name, settings) else _OURS
        nearest = difflib.get_close_matches(upper, known, n=1, cutoff=0.0)[0]
        is_misspelled = difflib.SequenceMatcher(None, upper, nearest).ratio() >= _MISSPELLING
        is_meant = is_misspelled or name in _FORMER or name.partition("_")[0] in _WORDS
        replacement = OF_OTHER_CRAWLERS.get(upper)
        if (is_meant or replacement) and not _is_read(name, settings):
            if name in _FORMER:
                raise FatalError(f"The setting {name} was removed: {_FORMER[name]}.")
            if replacement is None:
                raise FatalError(f"There is no setting {name}; the most similar is {nearest}.")
            logger.warning("%s has no effect in this crawl; instead: %s", name, replacement)


def _is_typed(name: str, settings: BaseSettings) -> bool:
    """Return whether *name* is given on the command line only, not in the user's settings.py."""
    is_given = settings.getpriority(name) == SETTINGS_PRIORITIES["cmdline"]
    return is_given and not hasattr(_project(), name)


def _is_read(name: str, settings: BaseSettings) -> bool:
    """Return whether the user's own code mentions the setting *name*.

    Searches the source of all loaded modules in the packages of the user's components, except
    settings.py.
    """
    pattern = re.compile(rf"\b{name}\b")
    roots = {module.partition(".")[0] for module in settings.getlist("SPIDER_MODULES")}
    tables = [name for name in SCRAPYS if f"{name}_BASE" in SCRAPYS]
    for setting in ("ADDONS", "URL_FILTERS", *tables):
        for item in dictionary(settings, setting).items():
            # Paths, or the objects themselves.
            roots |= {str(getattr(part, "__module__", part)).partition(".")[0] for part in item}
    roots -= {"scrapy", "webcrawl"}
    for module_name, module in [*sys.modules.items()]:
        if module_name.partition(".")[0] in roots and module is not _project():
            # Under scrapyd the source is in an egg.
            with contextlib.suppress(OSError, TypeError):
                if pattern.search(inspect.getsource(module)):
                    return True
    return False


def _project() -> ModuleType | None:
    """Return the user's settings.py as a module, if there is one."""
    return sys.modules.get(os.environ.get("SCRAPY_SETTINGS_MODULE", ""))
