"""Steering: what commands to a running crawl have changed, over its settings and files of rules.

It is put on as a whole: what the one before had and this one has not is as the settings say again.
"""

from __future__ import annotations

import dataclasses
import resource
from typing import TYPE_CHECKING, Final

from scrapy.settings import BaseSettings

from webcrawl.configuration.setting_check import log_level
from webcrawl.crawl.engine._engine import wake
from webcrawl.crawl.engine.user_messages import use_log_level
from webcrawl.crawl.shard.live_settings import LiveSettings
from webcrawl.errors import FatalError
from webcrawl.hosts.politeness.exclusions import ExclusionRules
from webcrawl.net.limits import most_open_files
from webcrawl.net.rates import Rates

if TYPE_CHECKING:
    from webcrawl.crawl.process import Process

#: The settings that may be changed.
CHANGEABLE: Final = (
    *("CONCURRENT_REQUESTS", "FRONTIER_DOMAIN_SHARE", "CONTACTS_MAX", "BANDWIDTH_MAX"),
    *(f"BUDGET_{of}_{what}" for of in ("HOST", "DOMAIN") for what in ("PAGES", "BYTES")),
    *("REPUTATION_BASE_PAGES", "REPUTATION_ROUNDS", "ITEM_TIMEOUT_SECS", "SHUTDOWN_GRACE_SECS"),
    *("POLITENESS_JITTER", "POLITENESS_MAX_RETRY_AFTER_SECS", "POLITENESS_PENALTY_SECS"),
    "LOG_LEVEL",
)
_NAME: Final = "control"
# Above all that settings come from.
_PRIORITY: Final = 1000


@dataclasses.dataclass(slots=True, kw_only=True)
class Steering:
    """What was changed in a running crawl.

    pause: the sentence of a pause; "" without one.
    settings: values of CHANGEABLE ones.
    excluded: rules beside those of EXCLUSION_FILE.
    paces: factors of pauses, by host or domain.
    opened: hosts and domains whose URLs pass a gate, by its name; "" stands for all.
    """

    pause: str = ""
    settings: dict[str, str] = dataclasses.field(default_factory=dict)
    excluded: ExclusionRules = dataclasses.field(default_factory=ExclusionRules)
    paces: dict[str, float] = dataclasses.field(default_factory=dict)
    opened: dict[str, set[str]] = dataclasses.field(default_factory=dict)

    def over(self, settings: BaseSettings) -> BaseSettings:
        """*settings* with what was changed."""
        changed = BaseSettings(settings)
        changed.setdict(self.settings, priority=_PRIORITY)
        return changed

    def put_on(self, process: Process, *, only_check: bool = False) -> None:
        """Have the crawl of *process* go by it. FatalError for a value that cannot be: then nothing
        is changed, and nothing is with *only_check*."""
        services = process.parts.services
        live, own = services.live, services.crawler.settings
        settings = self.over(own)
        level = log_level(settings)
        new = LiveSettings.from_settings(settings, delay=live.delay)
        new.paces, new.opened = self.paces, self.opened
        rates = Rates.from_settings(settings)
        if bool(new.reputation.base) != bool(own.getint("REPUTATION_BASE_PAGES")):
            raise FatalError(
                "REPUTATION_BASE_PAGES cannot come or go while the crawl runs: free all reputation "
                "lets all pass."
            )
        if "CONCURRENT_REQUESTS" in self.settings:
            _allow_files(most_open_files(settings))
        if only_check:
            return
        if self.pause:
            process.pauses.hold(_NAME, self.pause)
        else:
            process.pauses.lift(_NAME)
        services.rules.exclusions.others = self.excluded
        services.rules.rates.take(rates)
        use_log_level(level)
        is_wider = (new.quotas, new.opened) != (live.quotas, live.opened)
        is_resized = (new.workers, new.domain_share) != (live.workers, live.domain_share)
        live.take(new)
        services.crawler.engine.downloader.total_concurrency = new.workers
        for shard in process.shards:
            if is_resized:
                shard.frontier.resize_shares(workers=new.workers, most=new.hosts_of_domain)
            if is_wider:
                shard.frontier.parked.begin_pass(shard.frontier.parked.counts)
        wake(services.crawler.engine)


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
