"""Settings that a crawl was given beyond the project's, saved with its checkpoints.

A question about a job directory must be answered by the rules of its crawl, not by those of the
command line that asks: which URLs are equivalent, which are refused, why a host pauses. Only
settings that decide such things are saved, and no password.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from webcrawl.crawl.job.state_directory import read_state
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from scrapy.settings import Settings

_KEPT = (
    *("URL_", "TRAP_", "POLITENESS_", "ROBOTSTXT_", "ROBOTS_", "EXCLUSION_FILE", "GOPHER_PORTS"),
    *("USER_AGENT", "DOWNLOAD_HANDLERS", "REDIRECT_MAX_TIMES", "BUDGET_", "REPUTATION_"),
    *("HOSTS_POLICY_FILE", "LINK_KINDS", "DOWNLOAD_DELAY"),
)
_PROJECT = SETTINGS_PRIORITIES["project"]


def settings_to_save(settings: BaseSettings) -> dict[str, Any]:
    """Return the *settings* that decide about URLs and were set by the spider or with ``-s``.

    Values that JSON cannot represent are left out.
    """
    kept = {
        # Scrapy turns some dictionaries into BaseSettings.
        name: value.copy_to_dict() if isinstance(value, BaseSettings) else value
        for name, value in settings.items()
        if isinstance(name, str)
        and name.startswith(_KEPT)
        and (settings.getpriority(name) or 0) > _PROJECT
    }
    return {name: kept[name] for name in sorted(kept) if is_plain(kept[name])}


def with_saved(settings: BaseSettings, facts: Mapping[str, Any]) -> BaseSettings:
    """Return *settings* as the crawl had them whose checkpoint has *facts*.

    Settings given to this command with ``-s`` take precedence.
    """
    own = settings.copy()
    kept = facts.get("settings")
    for name, value in kept.items() if isinstance(kept, dict) else ():
        own.set(name, value, priority="spider")
    return own


def settings_of(jobdir: Path, settings: Settings) -> Settings | None:
    """Return *settings* with those saved in *jobdir*; None if no checkpoint has any."""
    with suppress(CorruptRecordError, NewerFormatError):  # opening the job reports that
        own = read_state(jobdir)
        if own is not None and own.facts.get("settings") is not None:
            return cast("Settings", with_saved(settings, own.facts))
    return None


def is_plain(value: object) -> bool:
    """Return whether JSON can represent *value*."""
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False
