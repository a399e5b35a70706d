"""``scrapy shell`` on Scrapy's own scheduler."""

from __future__ import annotations

import sys
from typing import Any

from scrapy.commands import shell
from scrapy.shell import Shell

from webcrawl.commands import on_scrapys_scheduler


class _Shell(Shell):
    """Scrapy's; a foreseen failure of a download is a sentence."""

    def fetch(self, *args: Any, **kwargs: Any) -> None:
        try:
            super().fetch(*args, **kwargs)
        except Exception as error:
            if not hasattr(error, "outcome"):
                raise
            sys.stderr.write(f"shell: {error}\n")
            self.populate_vars()


shell.Shell = _Shell  # type: ignore[attr-defined]  # where the command finds it

Command = on_scrapys_scheduler(shell.Command, __name__)
