"""Settings that a crawl was given in addition to the project's, saved with its checkpoints.

Commands that answer questions about a job directory must use the rules of its crawl, not the
settings of their own command line: which URLs are equivalent, which are refused, why a host pauses.
Only settings that decide such things are saved, and no password.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings, Settings

from webcrawl.configuration.values import plain_value
from webcrawl.crawl.job.state_directory import read_state
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError

_SAVED_PREFIXES = (
    *("URL_", "TRAP_", "POLITENESS_", "ROBOTSTXT_", "ROBOTS_", "EXCLUSION_FILE", "GOPHER_PORTS"),
    *("USER_AGENT", "DOWNLOAD_HANDLERS", "REDIRECT_MAX_TIMES", "BUDGET_", "REPUTATION_"),
    *("HOSTS_POLICY_FILE", "BLOCKLISTS", "LINK_KINDS", "DOWNLOAD_DELAY", "CRAWL_PURPOSE"),
    *("CRAWLER_NAME", "RIGHTS_POLICY", "RENDER"),
)
_PROJECT_PRIORITY = SETTINGS_PRIORITIES["project"]


def settings_to_save(settings: BaseSettings) -> dict[str, Any]:
    """Return those *settings* that decide about URLs and were set by the spider or with ``-s``.

    Values that JSON cannot represent are left out.
    """
    saved = {
        name: plain_value(value)
        for name, value in settings.items()
        if isinstance(name, str)
        and name.startswith(_SAVED_PREFIXES)
        and (settings.getpriority(name) or 0) > _PROJECT_PRIORITY
    }
    return {name: saved[name] for name in sorted(saved) if is_plain(saved[name])}


def with_saved(settings: BaseSettings, facts: Mapping[str, Any]) -> BaseSettings:
    """Return a copy of *settings* with those saved in *facts*, the facts of a checkpoint.

    Settings given to this command with ``-s`` take precedence.
    """
    merged = settings.copy()
    saved = facts.get("settings")
    for name, value in saved.items() if isinstance(saved, dict) else ():
        merged.set(name, value, priority="spider")
    return merged


def settings_of(jobdir: Path, settings: Settings) -> Settings | None:
    """Return a copy of *settings* with those saved in *jobdir*; None if no settings are saved."""
    with suppress(CorruptRecordError, NewerFormatError):  # opening the job reports that
        state = read_state(jobdir)
        if state is not None and state.facts.get("settings") is not None:
            return cast("Settings", with_saved(settings, state.facts))
    return None


def is_plain(value: object) -> bool:
    """Return whether JSON can represent *value*."""
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False
