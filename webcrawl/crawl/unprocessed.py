"""Pages that do not go through the processing modules, for handlers of ``signals.unprocessed``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.errors import ends_crawl
from webcrawl.signals import is_heard, unprocessed

if TYPE_CHECKING:
    from scrapy.signalmanager import SignalManager

    from webcrawl.items import Page


async def hand_over(signals: SignalManager, page: Page, why: str) -> None:
    """Return when all handlers are done with *page*. Raises what one has raised if it ends the
    crawl; the rest Scrapy logs."""
    if not is_heard(signals, unprocessed):
        return
    for _, answer in await signals.send_catch_log_async(unprocessed, page=page, why=why):
        if ends_crawl(answer):
            raise answer
