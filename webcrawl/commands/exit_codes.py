"""Exit code of a crawl that could not start, with its message for the user."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from webcrawl.crawl.user_messages import tell
from webcrawl.errors import DiskError, FatalError

if TYPE_CHECKING:
    import asyncio

logger = logging.getLogger(__name__)


def exit_code_of_start(task: asyncio.Task[None]) -> int:
    """The exit code of the ended crawl *task*: 0; 2 or 3 for bad input, after printing one
    sentence; 1 for an error of the program, after logging its traceback."""
    error = None if task.cancelled() else task.exception()
    if error is None:
        return 0
    # The engine raises another error while it cleans up after the first.
    causes: list[BaseException] = [error]
    while causes[-1].__context__ is not None:
        causes.append(causes[-1].__context__)
    bad_input = [cause for cause in causes if isinstance(cause, ValueError)]
    bad_input.sort(key=lambda cause: not isinstance(cause, FatalError))
    if not bad_input:
        logger.error("The crawl could not start", exc_info=error)
        return 1
    logger.debug("The crawl could not start", exc_info=error)
    tell(f"webcrawl: {bad_input[0]}\n")
    return 3 if isinstance(bad_input[0], DiskError) else 2
