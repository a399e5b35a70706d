"""Checks settings before a crawl, with a one-sentence error where Scrapy shows a traceback.

The type of a setting follows from its default: a class, components with their order, a number, true
or false. What else webcrawl's own settings may be is checked where they are read. A misspelled
setting is an error, too, as it would be ignored silently. That concerns names that look like
webcrawl's and, on the command line, like Scrapy's.
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
from types import ModuleType
from typing import Any

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from webcrawl import settings as own_settings
from webcrawl.configuration.scrapys import OF_OTHER_CRAWLERS, OF_OTHERS, SCRAPYS
from webcrawl.configuration.values import (
    component,
    convert_units,
    dictionary,
    flag,
    number,
    unit_hint,
    whole_number,
)
from webcrawl.errors import FatalError
from webcrawl.wording import COMMAND

logger = logging.getLogger(__name__)

_OWN = {
    name: default
    for name, default in vars(own_settings).items()
    if name.isupper() and name not in SCRAPYS
}
_OWN_NAMES = _OWN.keys()
# Removed settings of earlier versions, with what to use instead.
_REMOVED = {
    name: instead
    for names, instead in {
        "BREAKER_SECS FRONTIER_DOMAIN_SHARE HIVE_CACHE_SIZE NET_KEEPALIVE_SECS NET_MAX_HEADER_BYTES"
        " OUTAGE_PROBE_SECS OUTPUT_STORE_FLUSH_SECS READING_MAX_SECS REDIS_ITEMS_MAX REVISIT_SHARE"
        " ROBOTS_RETRY_SECS SEARCH_HEAP_BYTES SITEMAP_MAX_BYTES TRAP_RETRY_SECS"
        " WARC_MAX_FILE_SECS": "it is fixed to its default of webcrawl 0.2",
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
        "TEXT_EXTRACTOR": "leave it out: the text of pages is extracted by resiliparse",
        "URL_EXTENSIONS": "use URL_RESTRICT_TO, which takes regular expressions",
        "URL_FILTERS_BASE": "use URL_FILTERS, which overrides the built-in ones",
        "URL_REFUSED_PORTS": "use URL_PORTS, the list of allowed ports",
        "URL_REFUSED_SEGMENTS": "use URL_REFUSE, which takes regular expressions",
        "RETRY_POLICY": (
            "FRONTIER_RETRY_TIMES, POLITENESS_BACKOFF_SECS and POLITENESS_MAX_FAILURES scale the "
            f"table of outcomes; {COMMAND} frontier --retry OUTCOME retries URLs later"
        ),
    }.items()
    for name in names.split()
}
# A first word that at least this many settings share belongs to webcrawl; users may use others.
_MIN_SETTINGS = 3
_OWN_PREFIXES = frozenset(
    word
    for word, count in Counter(
        name.partition("_")[0] for name in _OWN_NAMES | _REMOVED.keys()
    ).items()
    if count >= _MIN_SETTINGS and not any(name.startswith(f"{word}_") for name in SCRAPYS)
)
#: The settings of Scrapy and webcrawl that are dictionaries.
DICTIONARIES = [
    name
    for name, default in (vars(own_settings) | SCRAPYS).items()
    if name.isupper() and isinstance(default, dict)
]
# A name that is at least this similar to another one is treated as a misspelling of it.
_SIMILARITY = 0.85
_PATH = re.compile(r"[A-Za-z_]\w*(\.\w+)+", re.ASCII)
# Settings whose default is a class, but which may also be set to a word.
_MAY_BE_WORD = frozenset({"REFERRER_POLICY"})
_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"


def log_level(settings: BaseSettings) -> int | str:
    """Return LOG_LEVEL. Raises FatalError for an invalid value."""
    level: int | str = settings["LOG_LEVEL"]
    levels = logging.getLevelNamesMapping()
    if not (isinstance(level, int) or level in levels):
        raise FatalError(f"LOG_LEVEL must be {' or '.join(levels)}, not {level!r}.")
    return level


def check_process(settings: BaseSettings) -> None:
    """Check the settings that are used before the crawl starts: log, reactor, spiders.

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
            # An import in the module may have failed. That is an error in the user's code.
            if not f"{module}.".startswith(f"{error.name}."):
                raise
            raise FatalError(f"SPIDER_MODULES names {module}: {error}.") from error


def check_crawl(settings: BaseSettings) -> None:
    """Check all other settings, after the spider and add-ons have set theirs. Raises FatalError."""
    for name in DICTIONARIES:
        dictionary(settings, name)
    for name, default in (SCRAPYS | _OWN).items():
        if isinstance(default, dict) and name.endswith("_BASE"):
            _check_components(settings, name.removesuffix("_BASE"), default)
        elif not settings.getpriority(name) or (value := settings.get(name)) in (None, default):
            continue  # reading a deprecated setting would warn
        elif isinstance(default, bool) or name.endswith("_ENABLED"):
            flag(settings, name)
        elif name in _OWN and isinstance(default, (int, float)):
            number(settings, name, at_least=0)
        elif isinstance(default, (int, float)):
            converted = convert_units(name, value)
            _check_number(name, converted, "a whole number" if type(default) is int else "a number")
            if converted is not value:  # Scrapy also reads the setting, and does not know units
                settings.set(name, converted, priority=settings.getpriority(name) or 0)
        elif (
            (value or name in SCRAPYS)  # an empty one switches off a part of webcrawl
            and isinstance(default, str)
            and _PATH.fullmatch(default)
            and name not in _MAY_BE_WORD
        ):
            _check_class(name, value)

    whole_number(settings, "REACTOR_THREADPOOL_MAXSIZE", at_least=1)
    _check_feeds(settings)
    _check_names(settings)


def _check_number(name: str, value: Any, kind: str = "a number") -> None:
    """Raise FatalError unless *value*, of the setting *name*, is a number."""
    try:
        float(value)
    except (TypeError, ValueError):
        hint = unit_hint(name, value)
        raise FatalError(f"{name} must be {kind}, not {value!r}{hint}.") from None


def _check_class(name: str, path: Any) -> None:
    """Raise FatalError unless *path*, a value of the setting *name*, can be loaded or is None."""
    if path is not None:
        component(name, path)


def _check_components(settings: BaseSettings, name: str, base: dict[Any, Any]) -> None:
    """Check the user's entries in the setting *name*, a dictionary of components.

    As in *base*, its defaults, the entries map classes to numbers, or names to classes.
    """
    has_class_keys = all(isinstance(value, (int, float)) for value in base.values())
    for key, value in dictionary(settings, name).items():
        if value is None:
            continue
        _check_class(name, key if has_class_keys else value)
        if has_class_keys:
            _check_number(f"{name}: the position of {key}", value)


def _check_feeds(settings: BaseSettings) -> None:
    """Raise FatalError if an entry of FEEDS has no known format."""
    known_formats = settings.getwithbase("FEED_EXPORTERS").keys()
    for uri, feed in settings.getdict("FEEDS").items():
        if (
            not isinstance(feed, dict)
            or feed.get("format", settings["FEED_FORMAT"]) not in known_formats
        ):
            formats = ", ".join(sorted(known_formats))
            raise FatalError(f"FEEDS must give a format for {uri}, one of {formats}.")


def _check_names(settings: BaseSettings) -> None:
    """Raise FatalError for a setting that looks like webcrawl's but does not exist.

    A setting that the user's own code mentions is accepted. For a setting of another crawler, a
    warning names what to use instead.
    """
    for name in settings:
        if name in _OWN_NAMES or name in OF_OTHERS:
            continue

        # Names that resemble Scrapy's are suspicious only on the command line, because the user's
        # settings.py may have names of its own.
        upper = name.upper()
        known = _OWN_NAMES | OF_OTHERS if _is_on_command_line(name, settings) else _OWN_NAMES
        nearest = difflib.get_close_matches(upper, known, n=1, cutoff=0.0)[0]
        is_misspelled = difflib.SequenceMatcher(None, upper, nearest).ratio() >= _SIMILARITY
        is_own = is_misspelled or name in _REMOVED or name.partition("_")[0] in _OWN_PREFIXES
        replacement = OF_OTHER_CRAWLERS.get(upper)
        if (is_own or replacement) and not is_read_by_user_code(name, settings):
            if name in _REMOVED:
                raise FatalError(f"The setting {name} was removed: {_REMOVED[name]}.")
            if replacement is None:
                raise FatalError(f"There is no setting {name}; the most similar is {nearest}.")
            logger.warning("%s has no effect in this crawl; instead: %s", name, replacement)


def _is_on_command_line(name: str, settings: BaseSettings) -> bool:
    """Return whether *name* is set on the command line but not in the user's settings.py."""
    is_given = settings.getpriority(name) == SETTINGS_PRIORITIES["cmdline"]
    return is_given and not hasattr(_user_settings_module(), name)


def is_read_by_user_code(name: str, settings: BaseSettings) -> bool:
    """Return whether the user's own code mentions the setting *name*.

    Searches the source code of all loaded modules in the packages of the user's spiders and
    components, except settings.py.
    """
    pattern = re.compile(rf"\b{name}\b")
    packages = {module.partition(".")[0] for module in settings.getlist("SPIDER_MODULES")}
    component_settings = [name for name in SCRAPYS if f"{name}_BASE" in SCRAPYS]

    for setting in ("ADDONS", "URL_FILTERS", *component_settings):
        for item in dictionary(settings, setting).items():
            # The items are import paths, or the objects themselves.
            packages |= {str(getattr(part, "__module__", part)).partition(".")[0] for part in item}

    packages -= {"scrapy", "webcrawl"}
    for module_name, module in [*sys.modules.items()]:
        if module_name.partition(".")[0] in packages and module is not _user_settings_module():
            # Under scrapyd the source code is in an egg and may be unavailable.
            with contextlib.suppress(OSError, TypeError):
                if pattern.search(inspect.getsource(module)):
                    return True
    return False


def _user_settings_module() -> ModuleType | None:
    """Return the module of the user's settings.py; None if there is none."""
    return sys.modules.get(os.environ.get("SCRAPY_SETTINGS_MODULE", ""))
