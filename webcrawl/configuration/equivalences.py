"""Settings that decide which URLs are treated as the same."""

from __future__ import annotations

from pathlib import Path

from scrapy.settings import BaseSettings

from webcrawl.configuration.values import words
from webcrawl.errors import FatalError
from webcrawl.urls.equivalence import Equivalence
from webcrawl.urls.filters.host_rules import UrlHostRules


def equivalence_of(settings: BaseSettings) -> Equivalence:
    """Return the equivalence of URLs by URL_EQUIVALENCES and URL_HOST_RULES_FILE.

    Raises FatalError for invalid rules.
    """
    path = settings.get("URL_HOST_RULES_FILE", "")
    try:
        hosts = UrlHostRules.read(Path(path)) if path else None
    except OSError as error:
        raise FatalError(f"URL_HOST_RULES_FILE {path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise FatalError(f"URL_HOST_RULES_FILE: {error}") from error
    try:
        return Equivalence(frozenset(words(settings, "URL_EQUIVALENCES")), hosts=hosts)
    except ValueError as error:
        raise FatalError(f"URL_EQUIVALENCES: {error}") from error
