"""The state of a job: its directory, its shards, and the rules for all of them.

Used by a crawl and by an import into a stopped job. The order of opening matters: the public suffix
list comes first, because all shards depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

from webcrawl.crawl.job.jobdir import Job
from webcrawl.crawl.job.state_directory import StateDirectory
from webcrawl.crawl.job.suffix_lists import open_suffix_list
from webcrawl.crawl.lease.services import ContactRules
from webcrawl.crawl.links.submission import LinkSubmitter
from webcrawl.crawl.shard.shard import Shard
from webcrawl.crawl.shard.shards import Shards
from webcrawl.errors import FatalError
from webcrawl.storage.watched_rules import RulesFile
from webcrawl.urls.registered_domain import SuffixList


@dataclass(frozen=True, kw_only=True)
class JobResources:
    """The job directory, and the executors and suffix list that one process uses with it.

    *temporary* is the directory of *job* if it is deleted after the crawl. Then there are no
    checkpoints, and ordinary Requests wait in memory, as with Scrapy. *merging* runs the merges of
    eliminators and content-seen tests. *writing* writes host records, which must not wait for a
    merge that takes minutes. *closing* closes shards that leave while the crawl continues.
    *suffixes* is the public suffix list for a new crawl.
    """

    job: Job
    temporary: TemporaryDirectory[str] | None
    merging: Executor
    writing: Executor
    closing: Executor
    suffixes: SuffixList


@dataclass(frozen=True, kw_only=True)
class JobState:
    """The shards of one job, the files of rules, and the submitter of links.

    *rules_files* are the watched files of rules, keyed by the prefix of their stats.
    """

    resources: JobResources
    rules: ContactRules
    rules_files: Mapping[str, RulesFile[Any]]
    shards: Shards
    links: LinkSubmitter

    def open(self) -> None:
        """Open the shards from the job's last checkpoint and the logs after it.

        The job must be open already. Blocks. Raises FatalError with one sentence,
        CorruptRecordError, NewerFormatError and OSError.
        """
        job = self.resources.job
        rules = self.rules
        open_suffix_list(job, self.resources.suffixes)
        states = {shard.name: job.shard(shard.name) for shard in self.shards}
        # The URLs of a shard that is not opened would silently be left out.
        foreign = [name for name in job.shards if name not in states]
        if foreign:
            raise FatalError(
                f"JOBDIR {job.path} has a shard {foreign[0]} that does not belong to this crawl: "
                "move its directory into another job."
            )

        for file in self.rules_files.values():
            file.open()
        rules.hosts.open_purged(job.path)
        rules.outage.open(
            job.own.facts.get("known_names", ()),
            # Older jobs did not record this. A job that can be resumed has usually had an answer.
            has_answered=job.own.facts.get("has_answered", job.own.resumed),
        )
        for shard in self.shards:
            self.open_shard(shard, states[shard.name])

    def open_shard(
        self,
        shard: Shard,
        state: StateDirectory,
        *,
        forgets: bool = False,
    ) -> None:
        """Open *shard* from *state*, and register its host records for kept checkpoints.

        *forgets* as in ``Shard.open``, which also says what is raised.
        """
        job = self.resources.job
        # A copy of an old checkpoint has no record of the contacts made after it.
        shard.open(state, forgets=forgets or job.kept.is_copy)
        job.kept.copy_hosts[shard.name] = shard.hosts.records.database.copy_to

    def close(self, on_error: Callable[[Exception], None]) -> None:
        """Close the shards. Blocks; *on_error* is called with each error that a shard raises.

        The executors are shut down in this order because shards that are leaving may still merge,
        and all shards write their last host records while they are closed.
        """
        self.resources.closing.shutdown()
        self.resources.merging.shutdown()
        for file in self.rules_files.values():
            file.close()
        for shard in self.shards:
            shard.close(on_error)
        self.resources.writing.shutdown()

    def facts(self) -> Mapping[str, Any]:
        """Return facts about shards and network to be recorded in a checkpoint's manifest.

        The next run reads ``known_names``, the last names that the name servers found, and
        ``has_answered``, whether any host has ever answered. The others are for people.
        """
        stats = self.shards.stats()
        return {
            "waiting": stats.get("frontier/waiting", 0),
            "parked": stats.get("frontier/parked", 0),
            "in_eliminator": stats.get("seen/waiting", 0),
            "known_names": self.rules.outage.known_names,
            "has_answered": self.rules.outage.has_answered,
            "finished": stats.get("frontier/finished", 0),
        }
