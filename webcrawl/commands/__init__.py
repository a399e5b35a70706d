"""``scrapy`` commands of this project (COMMANDS_MODULE).

Scrapy's tools (shell, fetch, view, parse, check, bench) have modules of their names here, in place
of Scrapy's own, only to call ``run_on_scrapys_scheduler``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scrapy.settings import SETTINGS_PRIORITIES, default_settings

if TYPE_CHECKING:
    from scrapy.commands import ScrapyCommand

# Above what a spider sets for its crawls; the command line says what it wants.
_PRIORITY: Final = (SETTINGS_PRIORITIES["spider"] + SETTINGS_PRIORITIES["cmdline"]) // 2
# Here a user names the URL, not a page.
_SCHEMES: Final = ("file", "data", "s3")


def run_on_scrapys_scheduler(command: ScrapyCommand) -> None:
    """Set Scrapy's scheduler for *command*, which fetches a page or two and needs no job
    directory."""
    settings = command.settings
    assert settings is not None
    for name in ("SCHEDULER", "DUPEFILTER_CLASS", "JOBDIR"):
        value = command.default_settings.get(name, getattr(default_settings, name))
        settings.set(name, value, priority=_PRIORITY)
    handlers = {name: default_settings.DOWNLOAD_HANDLERS_BASE[name] for name in _SCHEMES}
    name = "DOWNLOAD_HANDLERS_BASE"
    settings.set(name, {**settings.getdict(name), **handlers}, priority=_PRIORITY)
