"""Settings that differ from their defaults."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from webcrawl import settings as own_settings
from webcrawl.configuration.scrapys import SCRAPYS
from webcrawl.configuration.values import plain_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.settings import BaseSettings

#: The defaults of webcrawl, by name.
OWN_DEFAULTS = vars(own_settings) | own_settings.web_spider
#: Default of settings that neither webcrawl nor Scrapy has.
UNKNOWN = "none"
_DEFAULTS = SCRAPYS | OWN_DEFAULTS


def changed_settings(settings: BaseSettings) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, value and default of the *settings* that differ from their defaults.

    These are webcrawl's or, if it has none, Scrapy's; UNKNOWN for settings of the user's code.
    """
    values = {str(name): plain_value(value) for name, value in settings.items()}
    for name, value in sorted(values.items()):
        default = _DEFAULTS.get(name, UNKNOWN)
        if not _is_same(value, default):
            yield name, value, default


def _is_same(value: Any, default: Any) -> bool:
    """Return whether *value*, perhaps a string from a command line, is the *default*."""
    if isinstance(default, int | float):
        with suppress(TypeError, ValueError):
            return float(value) == default
    return str(value) == str(default)
