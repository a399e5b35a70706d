"""Exclusions: hosts, networks and URLs that must not be crawled, from EXCLUSION_FILE.

A line added to the file also applies to waiting URLs. storage/watched_rules.py reads the file.
``scrapy purge`` writes such lines to JOBDIR/purged.txt, which is read when the crawl starts. A URL
takes 100 bytes of memory.
"""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from typing import TYPE_CHECKING

from xxhash import xxh3_64_intdigest

from webcrawl.clock import TimeSource, now
from webcrawl.net.guard import plain_address
from webcrawl.storage.watched_rules import RulesFile
from webcrawl.urls import host_of, normalize, normalize_seed
from webcrawl.urls.filters.expressions import Expressions
from webcrawl.urls.host import domain_among

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

# line := [rule] ["#" comment]
# rule := name | "=" name | address | address "/" bits | URL | "/" expression "/"
# A name also stands for all names below it; a leading "." or "*." is ignored. With "=" it stands
# for that single host. An expression, in RE2's syntax, may match anywhere in the URL, which has no
# fragment.
_COMMENT = "#"
# Names are normalized as part of a URL: these characters would end the host there, or are not
# allowed in one.
_NOT_IN_NAMES = re.compile(r"[\s/\\?#@:=%<>*]")
_MAX_NAME = 253
#: File below JOBDIR with the rules for purged pages.
PURGED_RULES = "purged.txt"


class ExclusionRules:
    """The rules of one version of the exclusion file."""

    def __init__(self) -> None:
        self._domains: set[str] = set()
        self._exact: set[str] = set()
        # The prefixes of networks as numbers, by IP version and prefix length. So an address takes
        # one look-up for each prefix length in use.
        self._networks: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
        self.expressions = Expressions()
        self._urls: set[int] = set()  # digests

    def __len__(self) -> int:
        """Return the number of distinct rules."""
        hosts = len(self._domains) + len(self._exact) + sum(map(len, self._networks.values()))
        return hosts + len(self._urls) + len(self.expressions)

    def add(self, line: str) -> None:
        """Add the rule in *line*, if there is one.

        Raises ValueError if *line* is neither a rule nor a comment; its message is the end of a
        sentence.
        """
        rule = line.partition(_COMMENT)[0].strip()
        if len(rule) > len("//") and rule[0] == rule[-1] == "/":
            self.expressions.add(rule[1:-1])
            return
        if url := "://" in rule and normalize_seed(rule):
            self._urls.add(_digest(url))
            return

        name = rule.removeprefix("=").removesuffix(".")
        address = name[1:-1] if name[:1] + name[-1:] == "[]" else name
        if not rule or self._add_network(address):
            return

        is_exact = rule.startswith("=")
        host = host_in(name if is_exact else name.removeprefix("*").removeprefix("."))
        if host is None:
            raise ValueError(f"{rule[:80]!r} is not a host, address, network, URL or /expression/")
        if not self._add_network(host):
            (self._exact if is_exact else self._domains).add(host)

    def excludes(self, host: str) -> bool:
        """Return whether *host*, a name or an address in the form of `host_of`, is excluded."""
        if host in self._exact:
            return True
        if self._networks and (":" in host or host[-1:].isdigit()) and self._in_network(host):
            return True
        return bool(self._domains) and domain_among(self._domains, host) is not None

    def covers(self, url: str) -> bool:
        """Return whether the normalized *url* or its host is excluded."""
        return self.excludes(host_of(url)) or self.excludes_url(url)

    def excludes_url(self, url: str) -> bool:
        """Return whether a URL or an expression excludes the normalized *url*."""
        return (bool(self._urls) and _digest(url) in self._urls) or self.expressions.found_in(url)

    def _add_network(self, text: str) -> bool:
        """Add the network or address *text*; return False if it is neither."""
        try:
            network = ipaddress.ip_network(text, strict=False)
        except ValueError:
            return False

        # IPv4 addresses may be written as IPv6 addresses, with 96 more bits.
        if isinstance(network, ipaddress.IPv6Network) and network.prefixlen >= 96:
            mapped = network.network_address.ipv4_mapped
            if mapped is not None:
                network = ipaddress.IPv4Network((mapped, network.prefixlen - 96))

        prefix = int(network.network_address) >> network.max_prefixlen - network.prefixlen
        self._networks[network.version, network.prefixlen].add(prefix)
        return True

    def _in_network(self, host: str) -> bool:
        """Return whether a network contains the address *host*, or the IPv4 address inside it."""
        for text in {host, plain_address(host)}:
            try:
                address = ipaddress.ip_address(text)
            except ValueError:
                return False  # a name that ends in a digit
            number, bits = int(address), address.max_prefixlen
            for (version, prefix_length), prefixes in self._networks.items():
                if version == address.version and number >> bits - prefix_length in prefixes:
                    return True
        return False


def exclusion_file(settings: BaseSettings, *, clock: TimeSource = now) -> RulesFile[ExclusionRules]:
    """Return the rules of EXCLUSION_FILE; if it is not set, nothing is excluded."""
    return RulesFile(
        path=settings.get("EXCLUSION_FILE"),
        setting="EXCLUSION_FILE",
        idle="excludes nothing",
        make=ExclusionRules,
        clock=clock,
        complete=lambda rules: rules.expressions.compile(),
    )


def rules_in(text: str) -> ExclusionRules:
    """Return the rules in *text*. Raises ValueError if a line is not a rule."""
    rules = ExclusionRules()
    for line in text.split("\n"):
        rules.add(line)
    rules.expressions.compile()
    return rules


def _digest(url: str) -> int:
    return xxh3_64_intdigest(url.encode("utf-8", "replace"))


def host_in(name: str) -> str | None:
    """Return the host *name* in the form of `host_of`, or None if it is not a host."""
    if len(name) > _MAX_NAME or _NOT_IN_NAMES.search(name):
        return None
    url = normalize(f"http://{name}/")
    host = host_of(url) if url else ""
    return host if all(host.split(".")) and len(host) <= _MAX_NAME else None
