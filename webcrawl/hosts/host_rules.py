"""Host rules: what an operator's files and commands say of hosts and domains.

They come from two sources: EXCLUSION_FILE and HOSTS_POLICY_FILE, each read as a whole when it
changes, and commands to the running crawl, one rule at a time. A command is about a host, about a
domain and all hosts below it, or, as "", about all hosts; the longest name applies. A host is
excluded if a file or a command says so; a pace multiplies the pause that the files ask for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

from webcrawl.hosts.politeness.exclusions import exclusion_file
from webcrawl.hosts.politeness.host_policies import NO_POLICY, policy_file
from webcrawl.net.guard import plain_address
from webcrawl.net.http.request import NOTHING_ADDED
from webcrawl.urls import host_of
from webcrawl.urls.host import domain_among

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from webcrawl.hosts.politeness.exclusions import ExclusionRules
    from webcrawl.hosts.politeness.host_policies import HostPolicy, HostTables
    from webcrawl.net.http.request import Additions
    from webcrawl.storage.watched_rules import RulesFile

#: Commands about hosts, by what their rules are about; "" stands for the gate that one names.
COMMANDS = {
    "exclude": "exclude",
    "allow": "exclude",
    "slower": "pace",
    "faster": "pace",
    "usual": "pace",
    "free": "",
    "hold": "",
}
# Those that end what another one has put in force.
_ENDS = frozenset({"allow", "usual", "hold"})


class CommandRule(NamedTuple):
    """A rule of a command: *source* is the command in words, *times* the factor of pauses."""

    source: str
    times: float


class HostRules:
    """The rules of two files and of commands. They are asked for each URL: nothing here blocks."""

    def __init__(
        self, *, exclusions: RulesFile[ExclusionRules], policies: RulesFile[HostTables]
    ) -> None:
        self.exclusions = exclusions
        self.policies = policies
        # By what they are about: "exclude", "pace" or the name of a gate, then by host.
        self._commands: dict[str, dict[str, CommandRule]] = {}

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """By the settings of both files. FatalError for a bad value."""
        return cls(exclusions=exclusion_file(settings), policies=policy_file(settings))

    def open(self) -> None:
        """Read both files. Blocks. FatalError for one that cannot be used."""
        self.exclusions.open()
        self.policies.open()

    def command(
        self, name: str, host: str, *, source: str, reason: str = "", times: float = 1.0
    ) -> None:
        """Put the rule of *name*, one of COMMANDS, in force, or end that of its opposite. *reason*
        is the name of a gate."""
        rules = self._commands.setdefault(reason or COMMANDS[name], {})
        if name in _ENDS:
            rules.pop(host, None)
        else:
            rules[host] = CommandRule(source, 1 / times if name == "faster" else times)

    def excluded_by(self, host: str, url: str = "") -> str:
        """The source of the rule that excludes *host*, a name or an address in the form of
        `host_of`, or *url*, normalized; "" without one."""
        rules = self.exclusions.rules
        if rules.excludes(host) or (url and rules.expressions.found_in(url)):
            return self.exclusions.setting
        if not self._commands:
            return ""
        rule = self._command("exclude", plain_address(host) if ":" in host else host)
        return "" if rule is None else rule.source

    @property
    def has_delays(self) -> bool:
        """Whether a file or a command may say something of the pauses of a host."""
        return bool(self.policies.rules.tables or self._commands.get("pace"))

    def pace_of(self, host: str) -> float:
        """The factor of the pauses of *host* by commands."""
        rule = self._command("pace", host)
        return 1.0 if rule is None else rule.times

    def lets_pass(self, gate: str, url: str) -> bool:
        """Whether a command lets *url* pass the *gate*."""
        return gate in self._commands and self._command(gate, host_of(url)) is not None

    def commands_for(self, host: str) -> list[str]:
        """The sources of all rules of commands that apply to *host*."""
        found = (self._command(about, host) for about in self._commands)
        return [rule.source for rule in found if rule is not None]

    def _command(self, about: str, host: str) -> CommandRule | None:
        rules = self._commands.get(about)
        name = domain_among(rules, host) if rules else None
        return rules[name] if rules and name is not None else None

    def table_of(self, host: str) -> str:
        """The name of the table of HOSTS_POLICY_FILE that applies to *host*; "" for none."""
        rules = self.policies.rules
        return rules.name_of(host) if rules.tables else ""

    def of(self, host: str) -> HostPolicy:
        """The table that applies to *host*."""
        rules = self.policies.rules
        return rules.tables.get(rules.name_of(host), NO_POLICY) if rules.tables else NO_POLICY

    def of_url(self, url: str) -> HostPolicy:
        """The table that applies to the host of *url*."""
        return self.of(host_of(url)) if self.policies.rules.tables else NO_POLICY

    def parts_of(self, host: str) -> int:
        """The number of parts of *host*, 1 for one that is undivided."""
        return self.of(host).parallel

    def added_for(self, url: str) -> Additions:
        """The header fields and the proxy that an operator adds to each request for *url*."""
        added = self.policies.rules.added
        return added.get(self.table_of(host_of(url)), NOTHING_ADDED) if added else NOTHING_ADDED
