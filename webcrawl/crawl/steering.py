"""Changes that commands make in a running crawl."""

from __future__ import annotations

import resource
from collections import Counter
from typing import Any

from scrapy.settings import BaseSettings

from webcrawl.configuration.setting_check import log_level
from webcrawl.crawl.engine._engine import wake
from webcrawl.crawl.engine.user_messages import use_log_level
from webcrawl.crawl.process import Process
from webcrawl.crawl.shard.live_settings import LiveSettings
from webcrawl.errors import FatalError
from webcrawl.net.limits import most_open_files
from webcrawl.net.rates import Rates

#: Settings that can be changed in a running crawl.
CHANGEABLE = (
    *("CONCURRENT_REQUESTS", "CONTACTS_MAX", "BANDWIDTH_MAX"),
    *(f"BUDGET_{site}_{unit}" for site in ("HOST", "DOMAIN") for unit in ("PAGES", "BYTES")),
    *("REPUTATION_BASE_PAGES", "REPUTATION_ROUNDS", "ITEM_TIMEOUT_SECS", "SHUTDOWN_GRACE_SECS"),
    *("POLITENESS_JITTER", "POLITENESS_MAX_RETRY_AFTER_SECS", "POLITENESS_PENALTY_SECS"),
    "LOG_LEVEL",
)
_NAME = "control"
# Above all other priorities of settings.
_PRIORITY = 1000


class Steering:
    """Applies commands to the running crawl of *process*, in all of its shards."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._services = process.parts.services

    def pause(self, sentence: str) -> None:
        """Stop contacting hosts until ``resume`` is called, for the reason in *sentence*."""
        self._process.pauses.hold(_NAME, sentence)

    def resume(self) -> None:
        """Allow contacts again after ``pause``."""
        self._process.pauses.lift(_NAME)
        wake(self._services.crawler.engine)

    def host_rule(self, name: str, *, source: str, **arguments: Any) -> None:
        """Change the rules for hosts by the command *name*, with *arguments*, sent by *source*.

        See ``HostRules.command``.
        """
        self._services.rules.hosts.command(name, source=source, **arguments)
        # The command lets URLs pass that were parked for this reason: check them again.
        if reason := arguments.get("reason"):
            for shard in self._process.shards:
                shard.frontier.parked.begin_pass([reason])
        wake(self._services.crawler.engine)

    def change_setting(self, name: str, value: str | None, *, only_check: bool = False) -> None:
        """Set *name*, one of CHANGEABLE, to *value*; None restores the crawl's initial value.

        Raises FatalError for an invalid value, and then changes nothing. With *only_check* it
        changes no setting. If *name* is CONCURRENT_REQUESTS, it may raise the process's limit of
        open files in both cases.
        """
        live = self._services.live
        crawler = self._services.crawler
        initial = crawler.settings
        # First build everything from the changed settings: this raises FatalError for a bad value.
        settings = BaseSettings(live.settings)
        settings.set(name, initial[name] if value is None else value, priority=_PRIORITY)
        level = log_level(settings)
        rates = Rates.from_settings(settings)
        new = LiveSettings(settings, delay=live.delay)

        if bool(new.reputation.base) != bool(initial.getint("REPUTATION_BASE_PAGES")):
            raise FatalError(
                "REPUTATION_BASE_PAGES cannot be switched on or off while the crawl is running: "
                "stop it, and start it again with the new value."
            )
        if name == "CONCURRENT_REQUESTS":
            _raise_file_limit(most_open_files(settings))
        if only_check:
            return

        self._services.rules.rates.use_limits_of(rates)
        use_log_level(level)
        # Compared now, because ``copy_from`` overwrites the old values.
        quotas_changed = new.quotas != live.quotas
        workers_changed = new.workers != live.workers
        live.copy_from(new)
        crawler.engine.downloader.total_concurrency = new.workers

        for shard in self._process.shards:
            if workers_changed:
                line = shard.frontier.back.line
                line.resize_shares(workers=new.workers, max_busy=new.hosts_of_domain)
            if quotas_changed:
                shard.frontier.parked.begin_pass(shard.frontier.parked.counts)
        wake(self._services.crawler.engine)

    @property
    def settings(self) -> dict[str, Any]:
        """Return the current values of the settings in CHANGEABLE."""
        return {name: self._services.live.settings[name] for name in CHANGEABLE}

    @property
    def parked(self) -> dict[str, int]:
        """Return the number of parked URLs by reason."""
        counts = (shard.frontier.parked.counts for shard in self._process.shards)
        return dict(sum(map(Counter, counts), Counter()))


def _raise_file_limit(wanted: int) -> None:
    """Raise the process's limit of open files and connections to *wanted*, if it is lower.

    Raises FatalError if the system does not allow that many.
    """
    # RLIM_INFINITY means that there is no limit; as a number it may be below *wanted*.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY != hard < wanted:
        raise FatalError(
            f"That may need {wanted} open files and connections, and the system allows {hard} "
            "(ulimit -Hn): choose fewer workers."
        )
    if resource.RLIM_INFINITY != soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
