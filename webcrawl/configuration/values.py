"""Typed readers for settings, which raise FatalError with one sentence for invalid values.

Every ``from_crawler`` and ``from_settings`` uses them. If a setting does not exist, because a
project uses only one part of webcrawl, its default in webcrawl/settings.py is used.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable
from json import JSONDecodeError
from typing import Any

from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from webcrawl import settings as defaults
from webcrawl.configuration.secrets import mask
from webcrawl.errors import FatalError

# Errors whose text says why a class cannot be loaded.
_LOADING_ERRORS = (ImportError, NameError, SyntaxError, ValueError, TypeError)
_FLAGS = frozenset({"0", "1", "False", "True", "false", "true"})
_SIZES = {
    f"{letter}{ending}": float(base**power)
    for ending, base, letters in (("B", 1000, "kMGT"), ("iB", 1024, "KMGT"))
    for power, letter in enumerate(letters, 1)
}
_TIMES = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_MEASURE = re.compile(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([a-z]{1,3})\s*", re.ASCII | re.IGNORECASE)
_SIZE_NAMES = re.compile(r"MEMORY_BUDGET|DOWNLOAD_(MAX|WARN)SIZE|\w+_BYTES")
_DAY = 86_400.0
_LAST_PORT = 65_535
#: Larger numbers are mistakes: 300 years, and more bytes than all disks have.
MOST_SECS = 1e10
_MOST = 1e21
_TIME_NAMES = re.compile(r"\w+_(SECS|TIMEOUT|DELAY)")


def port_number(settings: BaseSettings, name: str) -> int:
    """Return the setting *name* as a port number or 0. Raises FatalError if it is neither."""
    port = whole_number(settings, name, at_least=0)
    if port > _LAST_PORT:
        raise _invalid_setting(settings, name, f"port from 1 to {_LAST_PORT}, or 0")
    return port


def whole_number(settings: BaseSettings, name: str, *, at_least: int) -> int:
    """Return the setting *name* as an integer of at least *at_least*, or raise FatalError."""
    try:
        value = int(convert_units(name, settings.get(name, _default(settings, name))))
    except (TypeError, ValueError, OverflowError):
        value = at_least - 1
    if value < at_least:
        raise _invalid_setting(settings, name, f"whole number of at least {at_least}")
    return int(_bounded(settings, name, value))


def number(settings: BaseSettings, name: str, *, at_least: float) -> float:
    """Return the setting *name* as a finite number of at least *at_least*, or raise FatalError."""
    expected = f"number of at least {at_least:g}"
    return _checked_number(settings, name, lambda value: value >= at_least, expected)


def positive_number(settings: BaseSettings, name: str) -> float:
    """Return the setting *name* as a finite number above 0, or raise FatalError."""
    return _checked_number(settings, name, lambda value: value > 0, "positive number")


def share(settings: BaseSettings, name: str) -> float:
    """Return the setting *name* as a number between 0 and 1, exclusive, or raise FatalError."""
    return _checked_number(settings, name, lambda value: 0 < value < 1, "number between 0 and 1")


def log_file_secs(settings: BaseSettings) -> float:
    """Return how many seconds a log file stays open: a day with KEEP_DAYS, otherwise infinity.

    Raises FatalError for an invalid KEEP_DAYS.
    """
    return _DAY if number(settings, "KEEP_DAYS", at_least=0) else math.inf


def flag(settings: BaseSettings, name: str) -> bool:
    """Return the setting *name* as a boolean. Raises FatalError if it is neither true nor false.

    Scrapy's own ``getbool`` does not name the setting in its error, and treats any number except 0
    as true.
    """
    if str(settings.get(name, _default(settings, name))) not in _FLAGS:
        raise FatalError(f"{name} must be true or false, not {settings[name]!r}.")
    return settings.getbool(name, _default(settings, name))


def choice(settings: BaseSettings, name: str, allowed: Iterable[str], *, default: str = "") -> str:
    """Return the setting *name*, or *default* if it is empty; raise FatalError unless *allowed*."""
    value = settings.get(name, _default(settings, name)) or default
    *first, last = allowed
    if value not in (*first, last):
        raise FatalError(f"{name} must be {', '.join(first)} or {last}, not {value!r}.")
    return str(value)


def _checked_number(
    settings: BaseSettings, name: str, is_allowed: Callable[[float], bool], expected: str
) -> float:
    """Return the setting *name* as a finite number for which *is_allowed* is true.

    Otherwise raises FatalError, which says that the setting must be a *expected*.
    """
    try:
        value = float(convert_units(name, settings.get(name, _default(settings, name))))
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not (math.isfinite(value) and is_allowed(value)):
        raise _invalid_setting(settings, name, expected)
    return _bounded(settings, name, value)


def _bounded(settings: BaseSettings, name: str, value: float) -> float:
    """Return *value*, that of the setting *name*. Raises FatalError if no crawl can need it."""
    most = MOST_SECS if _TIME_NAMES.fullmatch(name) else _MOST
    if value > most:
        raise FatalError(f"{name} must be at most {most:,.0f}, not {settings[name]!r}.")
    return value


def plain_value(value: Any) -> Any:
    """Return *value*, or a dictionary again if Scrapy has turned one into BaseSettings."""
    return value.copy_to_dict() if isinstance(value, BaseSettings) else value


def convert_units(name: str, value: Any) -> Any:
    """Convert *value* of the setting *name* to bytes or seconds, if it ends with a known unit.

    Any other value is returned unchanged.

    >>> convert_units("MEMORY_BUDGET", "2GB"), convert_units("DOWNLOAD_TIMEOUT", "1.5 min")
    (2000000000, 90)
    >>> convert_units("PAGE_MAX_BYTES", "5MiB"), convert_units("PAGE_MAX_LINKS", "5k")
    (5242880, '5k')
    """
    match = _MEASURE.fullmatch(value) if isinstance(value, str) else None
    units = {unit.lower(): factor for unit, factor in _units(name).items()}
    factor = units.get(match[2].lower()) if match else None
    if match is None or factor is None:
        return value
    number = float(match[1]) * factor
    # Scrapy reads some settings as whole numbers.
    return round(number) if factor >= 1 and number == round(number) else number


def _units(name: str) -> dict[str, float]:
    """Return the units of the setting *name* with their factors; none if it is just a number."""
    if _SIZE_NAMES.fullmatch(name):
        return _SIZES
    return _TIMES if _TIME_NAMES.fullmatch(name) else {}


def _invalid_setting(settings: BaseSettings, name: str, expected: str) -> FatalError:
    """Return a FatalError that says that the setting *name* must be a value as *expected*."""
    value = settings[name]
    return FatalError(f"{name} must be a {expected}, not {value!r}{unit_hint(name, value)}.")


def unit_hint(name: str, value: Any) -> str:
    """Return a clause that lists the units of the setting *name* if *value* contains letters."""
    units = _units(name)
    has_letters = isinstance(value, str) and any(character.isalpha() for character in value)
    return f"; its units are {', '.join(units)}" if units and has_letters else ""


def words(settings: BaseSettings, name: str) -> list[str]:
    """Return the setting *name* as a list of non-empty words."""
    items = settings.getlist(name, _default(settings, name))
    return [word for item in items if (word := str(item).strip())]


def port_numbers(settings: BaseSettings, name: str) -> frozenset[int]:
    """Return the setting *name* as port numbers, or raise FatalError."""
    ports = words(settings, name)
    if not all(port.isdecimal() and 0 < int(port) <= _LAST_PORT for port in ports):
        raise FatalError(f"{name} must be port numbers, not {settings[name]!r}.")
    return frozenset(map(int, ports))


def component(name: str, path: Any, *, verb: str = "names") -> Any:
    """Return the object at *path*, or raise FatalError.

    *path* is a value of the setting *name*, or with the *verb* "needs", a part that it needs.
    """
    try:
        return load_object(path)
    except Exception as error:
        reason = error if isinstance(error, _LOADING_ERRORS) else repr(error)
        raise FatalError(f"{name} {verb} {path!r}, which cannot be loaded: {reason}.") from error


def dictionary(settings: BaseSettings, name: str) -> dict[Any, Any]:
    """Return the setting *name* as a dictionary, or raise FatalError."""
    try:
        return settings.getdict(name)
    except (TypeError, ValueError, RecursionError) as error:
        value = mask(name, settings[name])
        reason = f" ({error})" if isinstance(error, JSONDecodeError) else ""
        raise FatalError(f"{name} must be a dictionary (JSON), not {value!r}{reason}.") from None


def part_of(crawler: Crawler, name: str, path: Any, /, like: type = object, **values: Any) -> Any:
    """Build the component at *path*, a value of the setting *name*, from *values*.

    Calls its ``from_crawler`` if it has one. Raises FatalError if the component cannot be built or
    lacks a method of the protocol *like*.
    """
    component_class = component(name, path)
    try:
        from_crawler = getattr(component_class, "from_crawler", None)
        part = from_crawler(crawler, **values) if from_crawler else component_class(**values)
    except (TypeError, NotConfigured) as error:
        raise FatalError(f"{name} is {path!r}, which cannot be used: {error}.") from error

    # The missing methods as they would be written, such as "def push", and the names of missing
    # attributes. An "async def" counts as missing, because its caller would not await it.
    missing = [
        "def " * callable(model) + method
        for method, model in vars(like).items()
        if method[0] != "_"
        and (not hasattr(part, method) or inspect.iscoroutinefunction(getattr(part, method)))
    ]
    if missing:
        raise FatalError(f"{name} is {path!r}, which lacks {', '.join(missing)}.")
    return part


def _default(settings: BaseSettings, name: str) -> Any:
    """Return webcrawl's default of *name* if *settings* lacks it; 0 if there is none."""
    return 0 if name in settings else getattr(defaults, name, 0)
