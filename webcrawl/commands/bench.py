"""``scrapy bench`` on Scrapy's own scheduler, against its server on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.commands import bench

from webcrawl.commands import run_on_scrapys_scheduler

if TYPE_CHECKING:
    import argparse


class Command(bench.Command):
    """Scrapy's command, with this project's settings for such tools."""

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings is not None
        self.settings.set("ALLOW_PRIVATE_ADDRESSES", True, priority="cmdline")
        run_on_scrapys_scheduler(self)
