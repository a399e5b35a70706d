"""Builds what renders the pages of a crawl, from the settings RENDER and RENDER_*."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from webcrawl.clock import wall_time
from webcrawl.configuration.values import number, whole
from webcrawl.crawl.lease.stored_exchange import stored_answer
from webcrawl.crawl.links.url_rules import redirect_filters_of
from webcrawl.errors import FatalError
from webcrawl.frontier import SUBRESOURCE, Entry
from webcrawl.net.guard import followed_schemes
from webcrawl.render.passes import Passes
from webcrawl.render.store import FILE, RenderStore
from webcrawl.render.worker import RenderOrder, RenderWorker
from webcrawl.urls import normalize

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scrapy.settings import BaseSettings

    from webcrawl.crawl.lease.services import ContactRules
    from webcrawl.crawl.shard.shards import Shards

_MODES = ("0", "auto", "all")


def render_mode(settings: BaseSettings) -> str:
    """Return RENDER: "0", "auto" or "all". Raises FatalError if it is another word."""
    mode = str(settings["RENDER"]).lower()
    if mode not in _MODES:
        raise FatalError(f"RENDER must be 0, auto or all, not {settings['RENDER']!r}.")
    if mode != "0" and settings.get("HIVE"):
        raise FatalError(
            "RENDER works in a single process so far: set RENDER=0, or leave HIVE empty."
        )
    return mode


def passes_of(
    settings: BaseSettings,
    *,
    jobdir: Path,
    shards: Shards,
    rules: ContactRules,
    count: Callable[[str], None],
) -> Passes:
    """Build the renderer of a crawl in *jobdir*; *count* counts a stat. Raises FatalError."""
    filters = redirect_filters_of(settings, schemes=followed_schemes(settings))
    path = jobdir / "rendering"

    def submit(url: str, page_url: str) -> str:
        """Request *url* for the page *page_url*; return "", or why it cannot be requested."""
        url = normalize(url) or ""
        refusal = "scheme" if not url else filters.refusal(url, 0)
        if refusal is not None:
            return refusal
        host = rules.key_of(url)
        shard = shards.of(url)
        entry = Entry(
            url,
            host,
            rank=shard.ranks.rank(host),
            via=page_url,
            kind=SUBRESOURCE,
            discovered_at=wall_time(),
        )
        shards.requeue(entry, ahead=True)
        return ""

    processes = whole(settings, "RENDER_PROCESSES", at_least=0)
    processes = processes or max(1, (os.cpu_count() or 1) // 2)
    engine = str(settings["RENDER_ENGINE"])
    engine = "" if engine == "chromium" else engine
    store = RenderStore(path=path)
    workers = [
        RenderWorker(
            RenderOrder(
                "webcrawl.render.store:stored_answers", str(path / FILE), engine, check=first
            )
        )
        for first in (True, *(False,) * (processes - 1))
    ]
    return Passes(
        store=store,
        workers=workers,
        answer_of=stored_answer,
        submit=submit,
        wait_secs=number(settings, "RENDER_WAIT_SECS", at_least=0),
        clock=wall_time,
        count=count,
    )
