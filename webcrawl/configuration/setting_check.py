"""Check of settings before a crawl: one sentence where Scrapy would show a traceback.

The type of a setting of Scrapy's follows from its default in Scrapy: a class, components by their
order, a number, yes or no. The values of webcrawl's are checked where they are read. Here only
their names are: a setting that looks like one of webcrawl's, or one on the command line that looks
like Scrapy's, would be ignored without a message.
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
# Settings of earlier versions, with what to do without them.
_FORMER = {
    name: instead
    for names, instead in {
        "BREAKER_SECS FRONTIER_DOMAIN_SHARE HIVE_CACHE_SIZE NET_KEEPALIVE_SECS NET_MAX_HEADER_BYTES"
        " OUTAGE_PROBE_SECS OUTPUT_STORE_FLUSH_SECS READING_MAX_SECS REDIS_ITEMS_MAX REVISIT_SHARE"
        " ROBOTS_RETRY_SECS SEARCH_HEAP_BYTES SITEMAP_MAX_BYTES TRAP_RETRY_SECS"
        " WARC_MAX_FILE_SECS": ("its value of webcrawl 0.2 holds, as no crawl needs another one"),
        "DNS_CACHE_SIZE FRONTIER_BACK_QUEUES_MAX HOSTS_CACHE_SIZE ROBOTS_CACHE_SIZE": (
            "it is a share of MEMORY_BUDGET"
        ),
        "URL_KNOWN_PATHS URL_MAX_REPEATED_SEGMENTS URL_MAX_SEGMENTS": (
            "URL_FILTERS switches filters off by their names"
        ),
        "BUDGET_HOST_DEPTH BUDGET_DOMAIN_DEPTH": (
            "URL_MAX_DEPTH bounds depth, and BUDGET_HOST_PAGES and BUDGET_DOMAIN_PAGES sites"
        ),
        "DNS_TRIES": "DNS_QUERY_TIMEOUT_SECS is the time of the first of three questions",
        "HIVE_KEY_FILE": (
            "a hive sends no pickles; put plain data into meta and cb_kwargs of Requests"
        ),
        "LINK_EXTRACTORS_BASE": "LINK_EXTRACTORS goes before what is built in",
        "URL_EXTENSIONS": "URL_RESTRICT_TO takes expressions",
        "URL_FILTERS_BASE": "URL_FILTERS goes before what is built in",
        "URL_REFUSED_PORTS": "URL_PORTS names those that are allowed",
    }.items()
    for name in names.split()
}
# A first word that this many settings share is webcrawl's own; a rarer one may be a user's.
_FEWEST = 3
_WORDS = frozenset(
    word
    for word, count in Counter(name.partition("_")[0] for name in _OURS | _FORMER.keys()).items()
    if count >= _FEWEST and not any(name.startswith(f"{word}_") for name in SCRAPYS)
)
#: Those of Scrapy and webcrawl that are dictionaries.
DICTIONARIES = [
    name
    for name, default in (vars(own_settings) | SCRAPYS).items()
    if name.isupper() and isinstance(default, dict)
]
# How alike two names are if one is a slip of the other.
_SLIP = 0.85
_PATH = re.compile(r"[A-Za-z_]\w*(\.\w+)+", re.ASCII)
# May be a word, too.
_NO_CLASSES = frozenset({"REFERRER_POLICY"})
_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"


def log_level(settings: BaseSettings) -> int | str:
    """LOG_LEVEL. FatalError for a value that is none."""
    level: int | str = settings["LOG_LEVEL"]
    levels = logging.getLevelNamesMapping()
    if not (isinstance(level, int) or level in levels):
        raise FatalError(f"LOG_LEVEL must be {' or '.join(levels)}, not {level!r}.")
    return level


def check_process(settings: BaseSettings) -> None:
    """Check the settings for the time before there is a crawl: log, reactor, spiders.
    FatalError."""
    log_level(settings)
    flag(settings, "LOG_ENABLED")
    flag(settings, "LOG_JSON")
    try:
        codecs.lookup(settings["LOG_ENCODING"])
        logging.Formatter(settings["LOG_FORMAT"])
    except (LookupError, ValueError) as error:
        raise FatalError(f"LOG_ENCODING or LOG_FORMAT cannot be: {error}.") from error
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
    """Check all others, as the spider and add-ons have set them. FatalError."""
    for name in DICTIONARIES:
        dictionary(settings, name)
    for name, default in SCRAPYS.items():
        if isinstance(default, dict) and name.endswith("_BASE"):
            _check_components(settings, name.removesuffix("_BASE"), default)
        elif not settings.getpriority(name) or (value := settings.get(name)) is None:
            continue  # to read a deprecated one is a warning
        elif isinstance(default, bool) or name.endswith("_ENABLED"):
            flag(settings, name)
        elif isinstance(default, (int, float)):
            number = measured(name, value)
            _check_number(name, number, "a whole number" if type(default) is int else "a number")
            if number is not value:  # Scrapy reads it, too
                settings.set(name, number, priority=settings.getpriority(name) or 0)
        elif isinstance(default, str) and _PATH.fullmatch(default) and name not in _NO_CLASSES:
            _check_class(name, value)
    whole(settings, "REACTOR_THREADPOOL_MAXSIZE", at_least=1)
    flag(settings, "FAST_PATH_ENABLED")  # is read when all is open
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
    """Check the user's entries of the dictionary *name*: classes with numbers, as in *base*, or
    names with classes."""
    are_keys = all(isinstance(value, (int, float)) for value in base.values())
    for key, value in dictionary(settings, name).items():
        if value is None:
            continue
        _check_class(name, key if are_keys else value)
        if are_keys:
            _check_number(f"{name}, the place of {key},", value)


def _check_feeds(settings: BaseSettings) -> None:
    known = settings.getwithbase("FEED_EXPORTERS").keys()
    for uri, feed in settings.getdict("FEEDS").items():
        if not isinstance(feed, dict) or feed.get("format", settings["FEED_FORMAT"]) not in known:
            formats = ", ".join(sorted(known))
            raise FatalError(f"FEEDS must say the format of {uri}, one of {formats}.")


def _check_names(settings: BaseSettings) -> None:
    """FatalError for a setting that looks like one of webcrawl's and is none, unless a component of
    the user's reads it."""
    for name in settings:
        if name in _OURS or name in OF_OTHERS:
            continue
        upper = name.upper()
        known = _OURS | OF_OTHERS if _is_typed(name, settings) else _OURS
        nearest = difflib.get_close_matches(upper, known, n=1, cutoff=0.0)[0]
        is_slip = difflib.SequenceMatcher(None, upper, nearest).ratio() >= _SLIP
        is_meant = is_slip or name in _FORMER or name.partition("_")[0] in _WORDS
        here = OF_OTHER_CRAWLERS.get(upper)
        if (is_meant or here) and not _is_read(name, settings):
            if name in _FORMER:
                raise FatalError(f"There is no setting {name} any more: {_FORMER[name]}.")
            if here is None:
                raise FatalError(f"There is no setting {name}; the nearest is {nearest}.")
            logger.warning("%s has no effect in this crawl; here: %s", name, here)


def _is_typed(name: str, settings: BaseSettings) -> bool:
    """Whether *name* comes from the command line and the user's settings.py has none of it."""
    is_given = settings.getpriority(name) == SETTINGS_PRIORITIES["cmdline"]
    return is_given and not hasattr(_project(), name)


def _is_read(name: str, settings: BaseSettings) -> bool:
    """Whether a module of the packages of the user's components has the setting's name in its text,
    but for settings.py."""
    pattern = re.compile(rf"\b{name}\b")
    roots = {one.partition(".")[0] for one in settings.getlist("SPIDER_MODULES")}
    tables = [name for name in SCRAPYS if f"{name}_BASE" in SCRAPYS]
    for setting in ("ADDONS", "URL_FILTERS", *tables):
        for item in dictionary(settings, setting).items():
            # Paths, or the objects themselves.
            roots |= {str(getattr(part, "__module__", part)).partition(".")[0] for part in item}
    roots -= {"scrapy", "webcrawl"}
    for module_name, module in [*sys.modules.items()]:
        if module_name.partition(".")[0] in roots and module is not _project():
            # Under scrapyd they are in an egg.
            with contextlib.suppress(OSError, TypeError):
                if pattern.search(inspect.getsource(module)):
                    return True
    return False


def _project() -> ModuleType | None:
    """The settings.py of the user."""
    return sys.modules.get(os.environ.get("SCRAPY_SETTINGS_MODULE", ""))
