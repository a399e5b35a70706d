"""``scrapy`` commands of this project (COMMANDS_MODULE).

Scrapy's tools (shell, fetch, view, parse, check, bench) have modules of their names here, in place
of Scrapy's own, only to run on Scrapy's scheduler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scrapy.settings import SETTINGS_PRIORITIES, default_settings

if TYPE_CHECKING:
    import argparse

    from scrapy.commands import ScrapyCommand

# Above what a spider sets for its crawls; the command line says what it wants.
_PRIORITY: Final = (SETTINGS_PRIORITIES["spider"] + SETTINGS_PRIORITIES["cmdline"]) // 2
# Here a user names the URL, not a page.
_SCHEMES: Final = ("file", "data", "s3")


def on_scrapys_scheduler(
    command: type[ScrapyCommand], module: str, **given: object
) -> type[ScrapyCommand]:
    """*command* as one of *module*, on Scrapy's scheduler and with the settings *given*: a tool
    fetches a page or two and needs no job directory."""

    def process_options(self: ScrapyCommand, args: list[str], opts: argparse.Namespace) -> None:
        command.process_options(self, args, opts)
        settings = self.settings
        assert settings is not None
        settings.setdict(given, priority="cmdline")
        for name in ("SCHEDULER", "DUPEFILTER_CLASS", "JOBDIR"):
            value = self.default_settings.get(name, getattr(default_settings, name))
            settings.set(name, value, priority=_PRIORITY)
        handlers = {name: default_settings.DOWNLOAD_HANDLERS_BASE[name] for name in _SCHEMES}
        name = "DOWNLOAD_HANDLERS_BASE"
        settings.set(name, {**settings.getdict(name), **handlers}, priority=_PRIORITY)

    return type("Command", (command,), {"__module__": module, "process_options": process_options})
