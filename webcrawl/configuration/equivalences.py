"""Settings that decide which URLs are treated as the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from webcrawl.configuration.values import words
from webcrawl.errors import FatalError
from webcrawl.urls.equivalence import Equivalence
from webcrawl.urls.filters.host_rules import UrlHostRules

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from scrapy.settings import BaseSettings


def rules_of(settings: BaseSettings) -> frozenset[str]:
    """Return the names of the rules in URL_EQUIVALENCES."""
    return frozenset(words(settings, "URL_EQUIVALENCES"))


def equivalence_of(
    settings: BaseSettings, *, rules: AbstractSet[str] | None = None, with_hosts: bool = True
) -> Equivalence:
    """Return the equivalence of URLs by URL_EQUIVALENCES, or by *rules* if they are given.

    With *with_hosts*, the rules for single hosts in URL_HOST_RULES_FILE are read and added. Raises
    FatalError for invalid rules.
    """
    path = settings.get("URL_HOST_RULES_FILE", "") if with_hosts else ""
    try:
        hosts = UrlHostRules.read(Path(path)) if path else None
    except OSError as error:
        raise FatalError(f"URL_HOST_RULES_FILE {path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise FatalError(f"URL_HOST_RULES_FILE: {error}") from error
    try:
        return Equivalence(frozenset(rules_of(settings) if rules is None else rules), hosts=hosts)
    except ValueError as error:
        raise FatalError(f"URL_EQUIVALENCES: {error}") from error
