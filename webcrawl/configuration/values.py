"""Typed readers of settings: numbers and truth values, or a FatalError with one sentence.

Used by every ``from_crawler`` and ``from_settings``. In a project without the setting, which uses
one part of webcrawl, it has the default of webcrawl/settings.py.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from scrapy.utils.misc import load_object

from webcrawl import settings as defaults
from webcrawl.errors import FatalError

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import BaseSettings

# What keeps a class from being loaded; anything else is an error of its module, with a traceback.
LOADING_ERRORS = (ImportError, NameError, ValueError, TypeError)
_FLAGS = frozenset({"0", "1", "False", "True", "false", "true"})


def whole(settings: BaseSettings, name: str, *, at_least: int) -> int:
    """The setting *name* as a whole number of at least *at_least*; FatalError if it is none."""
    try:
        value = settings.getint(name, _default(settings, name))
    except (TypeError, ValueError, OverflowError):
        value = at_least - 1
    if value < at_least:
        raise FatalError(
            f"{name} must be a whole number of at least {at_least}, not {settings[name]!r}."
        )
    return value


def number(settings: BaseSettings, name: str, *, at_least: float) -> float:
    """The setting *name* as a finite number of at least *at_least*; FatalError if it is none."""
    what = f"number of at least {at_least:g}"
    return _number(settings, name, lambda value: value >= at_least, what)


def positive(settings: BaseSettings, name: str) -> float:
    """The setting *name* as a finite number above 0; FatalError if it is none."""
    return _number(settings, name, lambda value: value > 0, "positive number")


def share(settings: BaseSettings, name: str) -> float:
    """The setting *name* as a number between 0 and 1, both excluded; FatalError if not."""
    return _number(settings, name, lambda value: 0 < value < 1, "number between 0 and 1")


def flag(settings: BaseSettings, name: str) -> bool:
    """The setting *name* as true or false; FatalError if it is neither.

    Scrapy's own reader names no setting when it fails, and takes every number but 0 for true.
    """
    if str(settings.get(name, _default(settings, name))) not in _FLAGS:
        raise FatalError(f"{name} must be true or false, not {settings[name]!r}.")
    return settings.getbool(name, _default(settings, name))


def _number(settings: BaseSettings, name: str, fits: Callable[[float], bool], what: str) -> float:
    try:
        value = settings.getfloat(name, _default(settings, name))
    except (TypeError, ValueError):
        value = math.nan
    if not (math.isfinite(value) and fits(value)):
        raise FatalError(f"{name} must be a {what}, not {settings[name]!r}.")
    return value


def words(settings: BaseSettings, name: str) -> list[str]:
    """The setting *name* as a list of words, none of them empty."""
    return [word for one in settings.getlist(name) if (word := str(one).strip())]


def component(name: str, path: Any) -> Any:
    """The object at *path*, as the setting *name* has it; FatalError if it cannot be loaded."""
    try:
        return load_object(path)
    except LOADING_ERRORS as error:
        raise FatalError(f"{name} names {path!r}, which cannot be loaded: {error}.") from error


def _default(settings: BaseSettings, name: str) -> Any:
    return 0 if name in settings else getattr(defaults, name, 0)
