"""Host rules: the operator's rules for hosts and domains, from files and commands.

The files are EXCLUSION_FILE, HOSTS_POLICY_FILE and those of BLOCKLISTS, which are read again as a
whole when they change. Commands to the running crawl add one rule at a time. A command applies to a
host, to a domain with all its subdomains, or, with the name "", to all hosts; the longest matching
name applies. A host is excluded if a file or a command says so. Commands that set a pace multiply
the pauses that follow from the files. What ``scrapy purge`` has removed is excluded as long as it
is in JOBDIR/purged.txt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, Self

from scrapy.settings import BaseSettings

from webcrawl.errors import FatalError
from webcrawl.hosts.politeness.exclusions import (
    PURGED_RULES,
    ExclusionRules,
    blocklists,
    exclusion_file,
    purge_rules,
)
from webcrawl.hosts.politeness.host_policies import NO_POLICY, HostPolicy, HostTables, policy_file
from webcrawl.net.guard import plain_address
from webcrawl.net.http.request import NOTHING_ADDED, Additions
from webcrawl.storage.watched_rules import RulesFile
from webcrawl.urls import host_of
from webcrawl.urls.host import domain_among

#: Outcome of excluded URLs; for those in BLOCKLISTS, "_" and the category follow.
EXCLUDED = "excluded"
#: Commands about hosts, with the topic of their rules; "" if the topic is the gate that they name.
COMMANDS = {
    "exclude": "exclude",
    "allow": "exclude",
    "slower": "pace",
    "faster": "pace",
    "usual": "pace",
    "free": "",
    "hold": "",
}
# Commands that end the rule of another command.
_ENDING_COMMANDS = frozenset({"allow", "usual", "hold"})


class CommandRule(NamedTuple):
    """A rule set by a command: *source* describes the command, *times* is the factor for pauses."""

    source: str
    times: float


class Exclusion(NamedTuple):
    """Why a host or URL is excluded: the source of the rule, and the outcome of such URLs."""

    source: str
    outcome: str = EXCLUDED


class HostRules:
    """The rules from files and from commands. Used for each URL, so only ``open`` blocks."""

    def __init__(
        self,
        *,
        exclusions: RulesFile[ExclusionRules],
        blocklists: Mapping[str, RulesFile[ExclusionRules]],
        policies: RulesFile[HostTables],
    ) -> None:
        self.exclusions = exclusions
        self.blocklists = blocklists
        self.policies = policies
        self._purged = ExclusionRules()
        # Keyed by topic ("exclude", "pace" or the name of a gate), then by host.
        self._commands: dict[str, dict[str, CommandRule]] = {}

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Build from the settings of the files. Raises FatalError for a bad value."""
        return cls(
            exclusions=exclusion_file(settings),
            blocklists=blocklists(settings),
            policies=policy_file(settings),
        )

    def open(self, outcome: str | None = None) -> None:
        """Read all files. Blocks. Raises FatalError for a file that cannot be used.

        With an *outcome*, only the files of BLOCKLISTS that lead to it are read: reading all of
        them may take ten seconds.
        """
        self.exclusions.open()
        for name, file in self.blocklists.items():
            if outcome in (None, _outcome_of(name)):
                file.open()
        self.policies.open()

    def open_purged(self, jobdir: Path, more: Iterable[str] = ()) -> None:
        """Read what ``scrapy purge`` has excluded from the crawl in *jobdir*. Blocks.

        A drone reads the files of all drones, because it may take over their hosts. *more* are the
        texts of such files elsewhere. Raises FatalError if a line of a file is not a rule.
        """
        paths = [*jobdir.glob(PURGED_RULES), *jobdir.parent.parent.glob(f"drones/*/{PURGED_RULES}")]
        try:
            self._purged = purge_rules(
                "\n".join([*more, *(path.read_text("utf-8") for path in paths)])
            )
        except ValueError as error:
            raise FatalError(
                f"{jobdir / PURGED_RULES}: {error}: correct the line or remove it."
            ) from error

    def command(
        self, name: str, host: str, *, source: str, reason: str = "", times: float = 1.0
    ) -> None:
        """Apply the command *name*, one of COMMANDS: set a rule for *host*, or end one.

        *source* describes the command. *reason* is the name of a gate, for commands about a gate.
        *times* is the factor for pauses.
        """
        rules = self._commands.setdefault(reason or COMMANDS[name], {})
        if name in _ENDING_COMMANDS:
            rules.pop(host, None)
        else:
            rules[host] = CommandRule(source, 1 / times if name == "faster" else times)

    def exclusion_of(self, host: str, url: str = "") -> Exclusion | None:
        """Return why *host* or *url* is excluded; None if it is not.

        *host* is a name or an address in the form of `host_of`; *url* is normalized.
        """
        if self.exclusions.rules.is_excluded(host, url):
            return Exclusion(self.exclusions.setting)
        if self._purged.is_excluded(host, url):
            return Exclusion("scrapy purge")
        for name, file in self.blocklists.items():
            if file.rules.is_excluded(host, url):
                return Exclusion(f"BLOCKLISTS {name}: {file.version}", _outcome_of(name))
        if not self._commands:
            return None
        # An IPv4 address may be written as an IPv6 address.
        rule = self._command_rule("exclude", plain_address(host) if ":" in host else host)
        return None if rule is None else Exclusion(rule.source)

    @property
    def has_delays(self) -> bool:
        """Return whether a file or a command may affect the pauses of any host."""
        return bool(self.policies.rules.tables or self._commands.get("pace"))

    def pace_of(self, host: str) -> float:
        """Return the factor that commands set for the pauses of *host*."""
        rule = self._command_rule("pace", host)
        return 1.0 if rule is None else rule.times

    def may_pass(self, gate: str, url: str) -> bool:
        """Return whether a command lets *url* pass *gate*."""
        return gate in self._commands and self._command_rule(gate, host_of(url)) is not None

    def commanded(self, topic: str) -> tuple[str, ...]:
        """Return the hosts to which the commands of *topic* apply."""
        return (*self._commands.get(topic, ()),)

    def commands_for(self, host: str) -> list[str]:
        """Return the sources of all command rules that apply to *host*."""
        rules = (self._command_rule(topic, host) for topic in self._commands)
        return [rule.source for rule in rules if rule is not None]

    def _command_rule(self, topic: str, host: str) -> CommandRule | None:
        """Return the rule of *topic* that applies to *host*; None if there is none."""
        rules = self._commands.get(topic)
        name = domain_among(rules, host) if rules else None
        return rules[name] if rules and name is not None else None

    def table_of(self, host: str) -> str:
        """Return the name of the table in HOSTS_POLICY_FILE for *host*; "" if none applies."""
        rules = self.policies.rules
        return rules.name_of(host) if rules.tables else ""

    def host_policy(self, host: str) -> HostPolicy:
        """Return the table in HOSTS_POLICY_FILE that applies to *host*."""
        rules = self.policies.rules
        return rules.tables.get(rules.name_of(host), NO_POLICY) if rules.tables else NO_POLICY

    def url_policy(self, url: str) -> HostPolicy:
        """Return the table in HOSTS_POLICY_FILE that applies to the host of *url*."""
        return self.host_policy(host_of(url)) if self.policies.rules.tables else NO_POLICY

    def parts_of(self, host: str) -> int:
        """Return the number of parts into which *host* is divided; 1 if it is undivided."""
        # Asked for each URL on its way to the back end.
        return self.host_policy(host).parallel if self.policies.rules.tables else 1

    def additions_for(self, url: str) -> Additions:
        """Return the header fields and the proxy that the operator adds to requests for *url*."""
        tables = self.policies.rules.added
        return tables.get(self.table_of(host_of(url)), NOTHING_ADDED) if tables else NOTHING_ADDED


def _outcome_of(name: str) -> str:
    """Return the outcome of URLs in the file *name* of ``HostRules.blocklists``."""
    return f"{EXCLUDED}_{name.partition('/')[0]}"
