"""Exclusions: hosts, networks and URLs not to be crawled, from EXCLUSION_FILE and BLOCKLISTS.

A line added to a file also applies to waiting URLs. storage/watched_rules.py reads the files.
``scrapy purge`` writes such lines to JOBDIR/purged.txt, which is read when the crawl starts.
"""

from __future__ import annotations

import ipaddress
import re
from array import array
from bisect import bisect_left
from collections import defaultdict
from functools import partial

import numpy as np
from scrapy.settings import BaseSettings
from xxhash import xxh3_64_intdigest

from webcrawl.clock import TimeSource, now
from webcrawl.configuration.blocklists import blocklist_files
from webcrawl.net.guard import plain_address
from webcrawl.storage.watched_rules import RulesFile
from webcrawl.urls import host_of, normalize, normalize_seed
from webcrawl.urls.filters.expressions import Expressions
from webcrawl.urls.host import domain_among

# line := [rule] ["#" comment]
# rule := name | "=" name | address | address "/" bits | url | "=" url
#       | "/" expression "/"
# A name also stands for all names below it; a leading "." or "*." is ignored. With "=" it stands
# for that single host. A URL also stands for all URLs below it, with any scheme, and with or
# without "www."; with "=", only for itself. An expression, in RE2's syntax, may match anywhere in
# the URL, which has no fragment.
_COMMENT = "#"
# A name that is already in the form of `host_of`, as nearly all names of large lists are.
_USUAL_NAME = re.compile(r"(?=.{1,253}$)(?:[a-z0-9-]{1,63}\.)+[a-z]{2,63}")
# The end of a part of a URL that stands for all URLs below it.
_PART_END = re.compile(r"[/?]|$")
# How a line is written as a rule, by the name of its file.
_RULE_OF_LINE = {"domains": "%s", "urls": "http://%s", "expressions": "/(?i)%s/"}
# Names are normalized as part of a URL: these characters would end the host there, or are not
# allowed in one.
_NOT_IN_NAMES = re.compile(r"[\s/\\?#@:=%<>*]")
_MAX_NAME = 253
# A port, after the host in a URL without a scheme.
_PORT = re.compile(r"^([^/?]*):\d+(?=[/?]|$)")
_URL_LINE = re.compile(r"\s*[a-z]+://", re.IGNORECASE)
#: File below JOBDIR with the rules for purged pages.
PURGED_RULES = "purged.txt"


class Names:
    """Set of names in 8 bytes each: sorted hashes. Call ``add`` for each name, then ``sort``.

    One of 10^12 other names has the same hash as one of five million names in the set.
    """

    def __init__(self) -> None:
        self._hashes = array("Q")

    def __len__(self) -> int:
        return len(self._hashes)

    def __contains__(self, name: object) -> bool:
        value = xxh3_64_intdigest(str(name).encode())
        index = bisect_left(self._hashes, value)
        return index < len(self._hashes) and self._hashes[index] == value

    def add(self, name: str) -> None:
        """Add *name*."""
        self._hashes.append(xxh3_64_intdigest(name.encode()))

    def sort(self) -> None:
        """Sort the hashes, after the last ``add``."""
        np.frombuffer(self._hashes, dtype=np.uint64).sort()


class ExclusionRules:
    """The rules of one version of a file, in which *rule* is how a line is written as a rule.

    Call ``add`` for each line, then ``complete``.
    """

    def __init__(self, rule: str = "%s") -> None:
        self._rule = rule
        self._domains = Names()
        self._urls = Names()
        self._exact: set[str] = set()
        # The prefixes of networks as numbers, by IP version and prefix length. So an address takes
        # one look-up for each prefix length in use.
        self._networks: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
        self._expressions = Expressions()

    def __len__(self) -> int:
        """Return the number of rules."""
        hosts = len(self._domains) + len(self._exact) + sum(map(len, self._networks.values()))
        return hosts + len(self._urls) + len(self._expressions)

    def add(self, line: str) -> None:
        """Add the rule in *line*, if there is one.

        Raises ValueError if *line* is neither a rule nor a comment; its message is the end of a
        sentence.
        """
        rule = line.partition(_COMMENT)[0].strip()
        if not rule:
            return
        rule = self._rule % rule
        if _USUAL_NAME.fullmatch(rule):
            self._domains.add(rule)
            return
        if len(rule) > len("//") and rule[0] == rule[-1] == "/":
            self._expressions.add(rule[1:-1])
            return
        is_exact = rule.startswith("=")
        if "://" in rule and (url := normalize_seed(rule.removeprefix("="))):
            self._urls.add(f"={url}" if is_exact else self._address(url).rstrip("/"))
            return

        name = rule.removeprefix("=").removesuffix(".")
        # An IPv6 address may be in brackets, as in a URL.
        address = name[1:-1] if name[:1] + name[-1:] == "[]" else name
        if self._add_network(address):
            return

        host = host_in(name if is_exact else name.removeprefix("*").removeprefix("."))
        if host is None:
            raise ValueError(f"{rule[:80]!r} is not a host, address, network, URL or /expression/")
        # The host may be an address in an odd spelling, such as 0x7f.1.
        if not self._add_network(host):
            (self._exact if is_exact else self._domains).add(host)

    def complete(self) -> None:
        """Prepare the rules for use, after the last ``add``."""
        self._domains.sort()
        self._urls.sort()
        self._expressions.compile()

    def is_excluded(self, host: str, url: str = "") -> bool:
        """Return whether *host*, a name or an address in the form of `host_of`, is excluded.

        Or *url*, if it is given, which is normalized.
        """
        if host in self._exact:
            return True
        if self._networks and (":" in host or host[-1:].isdigit()) and self._in_network(host):
            return True
        if self._domains and domain_among(self._domains, host) is not None:
            return True
        return bool(url) and (self._expressions.found_in(url) or self._has_url(url))

    def is_url_excluded(self, url: str) -> bool:
        """Return whether the normalized *url* or its host is excluded."""
        return self.is_excluded(host_of(url), url)

    def _has_url(self, url: str) -> bool:
        """Return whether a rule that is a URL stands for *url*."""
        if not self._urls:
            return False
        address = self._address(url)
        ends = _PART_END.finditer(address)
        return f"={url}" in self._urls or any(address[: end.start()] in self._urls for end in ends)

    def _address(self, url: str) -> str:
        """Return *url* from its host on, without a leading "www.".

        In a file ``urls``, whose lines have no scheme, they hold for all ports.
        """
        address = url.partition("://")[2].removeprefix("www.")
        return _PORT.sub(r"\1", address) if self._rule == _RULE_OF_LINE["urls"] else address

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
            number = int(address)
            bits = address.max_prefixlen
            for (version, prefix_length), prefixes in self._networks.items():
                if version == address.version and number >> bits - prefix_length in prefixes:
                    return True
        return False


def exclusion_file(settings: BaseSettings, *, clock: TimeSource = now) -> RulesFile[ExclusionRules]:
    """Return the rules of EXCLUSION_FILE; if it is not set, nothing is excluded."""
    return RulesFile(
        path=settings.get("EXCLUSION_FILE"),
        setting="EXCLUSION_FILE",
        no_effect="excludes nothing",
        make_rules=ExclusionRules,
        clock=clock,
        complete_rules=ExclusionRules.complete,
    )


def blocklists(settings: BaseSettings) -> dict[str, RulesFile[ExclusionRules]]:
    """Return the rules of BLOCKLISTS, by category and, for a directory, "/" and the file's name.

    Raises FatalError for a bad value of BLOCKLISTS.
    """
    return {
        name: RulesFile(
            path=path,
            setting="BLOCKLISTS",
            no_effect="excludes nothing",
            make_rules=partial(ExclusionRules, _RULE_OF_LINE.get(path.name, "%s")),
            clock=now,
            complete_rules=ExclusionRules.complete,
        )
        for name, path in blocklist_files(settings).items()
    }


def purge_rules(text: str) -> ExclusionRules:
    """Return the rules in *text* for ``scrapy purge``, in which a URL stands for one page.

    Raises ValueError if a line is not a rule.
    """
    rules = ExclusionRules()
    for line in text.split("\n"):
        rules.add(f"={line.strip()}" if _URL_LINE.match(line) else line)
    rules.complete()
    return rules


def host_in(name: str) -> str | None:
    """Return the host *name* in the form of `host_of`, or None if it is not a host."""
    if len(name) > _MAX_NAME or _NOT_IN_NAMES.search(name):
        return None
    url = normalize(f"http://{name}/")
    host = host_of(url) if url else ""
    return host if all(host.split(".")) and len(host) <= _MAX_NAME else None
