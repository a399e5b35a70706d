"""``scrapy fetch`` on Scrapy's own scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.commands import fetch

from webcrawl.commands import run_on_scrapys_scheduler

if TYPE_CHECKING:
    import argparse


class Command(fetch.Command):
    """Scrapy's command, with this project's settings for such tools."""

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        run_on_scrapys_scheduler(self)
