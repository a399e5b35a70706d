"""Open an interactive shell on Scrapy's own scheduler.

Examples:
  scrapy shell https://example.org/
  scrapy shell ./page.html
"""

from __future__ import annotations

import sys
from typing import Any

from scrapy.commands import shell
from scrapy.shell import Shell

from webcrawl.commands import scrapy_tool


class _Shell(Shell):
    """Scrapy's shell, which reports an expected download failure in one sentence."""

    def fetch(self, *args: Any, **kwargs: Any) -> None:
        """Fetch like Scrapy's shell, but print an expected failure without a traceback."""
        try:
            super().fetch(*args, **kwargs)
        except Exception as error:
            if not hasattr(error, "outcome"):
                raise
            sys.stderr.write(f"shell: {error}\n")
            self.populate_vars()


shell.Shell = _Shell  # type: ignore[misc]  # the command uses this name

Command = scrapy_tool(shell.Command, __name__)
