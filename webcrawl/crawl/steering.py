"""Steering: the changes that commands make in a running crawl."""

from __future__ import annotations

import resource
from collections import Counter
from typing import TYPE_CHECKING, Any

from scrapy.settings import BaseSettings

from webcrawl.configuration.setting_check import log_level
from webcrawl.crawl.engine._engine import wake
from webcrawl.crawl.engine.user_messages import use_log_level
from webcrawl.crawl.shard.live_settings import LiveSettings
from webcrawl.errors import FatalError
from webcrawl.net.limits import most_open_files
from webcrawl.net.rates import Rates

if TYPE_CHECKING:
    from webcrawl.crawl.process import Process

#: The settings that may be changed.
CHANGEABLE = (
    *("CONCURRENT_REQUESTS", "CONTACTS_MAX", "BANDWIDTH_MAX"),
    *(f"BUDGET_{of}_{what}" for of in ("HOST", "DOMAIN") for what in ("PAGES", "BYTES")),
    *("REPUTATION_BASE_PAGES", "REPUTATION_ROUNDS", "ITEM_TIMEOUT_SECS", "SHUTDOWN_GRACE_SECS"),
    *("POLITENESS_JITTER", "POLITENESS_MAX_RETRY_AFTER_SECS", "POLITENESS_PENALTY_SECS"),
    "LOG_LEVEL",
)
_NAME = "control"
# Above all that settings come from.
_PRIORITY = 1000


class Steering:
    """What commands change in the crawl of *process*: one thing at a time, for all its shards."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._services = process.parts.services

    def pause(self, sentence: str) -> None:
        """Contact no host until ``resume``, for the reason in *sentence*."""
        self._process.pauses.hold(_NAME, sentence)

    def resume(self) -> None:
        """End ``pause``."""
        self._process.pauses.lift(_NAME)
        wake(self._services.crawler.engine)

    def host_rule(self, name: str, *, source: str, **arguments: Any) -> None:
        """Carry out the command *name* as ``HostRules.command`` does."""
        self._services.rules.hosts.command(name, source=source, **arguments)
        if reason := arguments.get("reason"):
            for shard in self._process.shards:
                shard.frontier.parked.begin_pass([reason])
        wake(self._services.crawler.engine)

    def change_setting(self, name: str, value: str | None, *, only_check: bool = False) -> None:
        """Give the setting *name*, one of CHANGEABLE, the *value*, or with None the one that the
        crawl was started with. FatalError for a value that cannot be, which changes nothing; with
        *only_check* nothing else does either."""
        live, crawler = self._services.live, self._services.crawler
        own = crawler.settings
        settings = BaseSettings(live.settings)
        settings.set(name, own[name] if value is None else value, priority=_PRIORITY)
        level, rates = log_level(settings), Rates.from_settings(settings)
        new = LiveSettings.from_settings(settings, delay=live.delay)
        if bool(new.reputation.base) != bool(own.getint("REPUTATION_BASE_PAGES")):
            raise FatalError(
                "REPUTATION_BASE_PAGES cannot come or go while the crawl runs: free all reputation "
                "lets all pass."
            )
        if name == "CONCURRENT_REQUESTS":
            _allow_files(most_open_files(settings))
        if only_check:
            return
        self._services.rules.rates.take(rates)
        use_log_level(level)
        is_wider = new.quotas != live.quotas
        is_resized = new.workers != live.workers
        live.take(new)
        crawler.engine.downloader.total_concurrency = new.workers
        for shard in self._process.shards:
            if is_resized:
                shard.frontier.resize_shares(workers=new.workers, most=new.hosts_of_domain)
            if is_wider:
                shard.frontier.parked.begin_pass(shard.frontier.parked.counts)
        wake(self._services.crawler.engine)

    @property
    def settings(self) -> dict[str, Any]:
        """The values of CHANGEABLE now."""
        return {name: self._services.live.settings[name] for name in CHANGEABLE}

    @property
    def parked(self) -> dict[str, int]:
        """The number of parked URLs by their reason."""
        counts = (shard.frontier.parked.counts for shard in self._process.shards)
        return dict(sum(map(Counter, counts), Counter()))


def _allow_files(wanted: int) -> None:
    """Let the process have so many files and connections open. FatalError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY != hard < wanted:
        raise FatalError(
            f"{wanted} files and connections may be open then, and the system allows {hard} "
            "(ulimit -Hn): choose fewer workers."
        )
    if resource.RLIM_INFINITY != soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
