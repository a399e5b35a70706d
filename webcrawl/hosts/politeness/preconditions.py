"""What must be known of a host before a page of it is asked for.

The scheduler asks ``decide`` for every URL it is about to hand out, in the order of what is
cheapest to know: whether the host asked to be left alone (exclusions.py), whether it has failed too
often (delays.py), what its address is and whether that may be contacted (addresses.py), what
its robots.txt says (hosts/robots/lookup.py). Nothing here waits: what is not known yet is looked
for while the URL waits in its queue and no worker is held.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

from webcrawl.frontier import ERRAND
from webcrawl.hosts.politeness.addresses import is_temporary
from webcrawl.hosts.robots.lookup import Finding
from webcrawl.net.dns.resolver import DnsError, InvalidNameError
from webcrawl.urls import host_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from webcrawl.frontier import Entry
    from webcrawl.hosts.politeness.addresses import HostAddresses
    from webcrawl.hosts.politeness.delays import Politeness
    from webcrawl.hosts.politeness.exclusions import Exclusions
    from webcrawl.hosts.robots.lookup import RobotsSearch

# When a host is looked at again whose robots.txt is fetched in another host's turn: after as long
# as it has waited already, within these seconds. Thousands may wait for one host.
_SOONEST, _LATEST = 1.0, 60.0


class Verdict(enum.Enum):
    """What to do with a URL that could be fetched now."""

    FETCH = "fetch"
    FETCH_ROBOTS = "fetch its robots.txt first"
    RESOLVE = "look up its host first"
    WAIT = "look at it again later"
    RETRY = "its host cannot be found right now"
    REFUSE = "give it up"


class Decision(NamedTuple):
    """*outcome* is why a URL is refused or to be retried, *secs* how long its host must wait at
    least, *address* the one its host will be contacted at (empty if that is not known here)."""

    verdict: Verdict
    outcome: str = ""
    secs: float = 0.0
    address: str = ""


class HostPrelude:
    """Asks all of them. No I/O of its own; *addresses* is None when a proxy does the looking up."""

    def __init__(
        self,
        *,
        exclusions: Exclusions,
        politeness: Politeness,
        addresses: HostAddresses | None,
        robots: RobotsSearch,
        longest_crawl_delay: float,
        doubts_names: Callable[[], bool],
    ) -> None:
        """*doubts_names* tells whether name servers that do not find a name may know nothing."""
        self._doubts_names = doubts_names
        self._exclusions = exclusions
        self._politeness = politeness
        self._addresses = addresses
        self._robots = robots
        self._longest_crawl_delay = longest_crawl_delay

    def decide(self, entry: Entry) -> Decision:
        """Whether *entry* may be fetched now. Beyond *longest_crawl_delay*, in seconds, a host
        is let alone."""
        host = host_of(entry.url)
        if self._exclusions.excludes(host):
            return Decision(Verdict.REFUSE, "excluded")
        if self._politeness.is_failing(entry.host, entry.url):
            return Decision(Verdict.REFUSE, "host_failing")
        address = ""
        if self._addresses is not None and host:
            found = self._addresses.look(host)
            if not isinstance(found, list) or not found:
                return self._without_address(host, found)
            if any(map(self._exclusions.excludes, found)):
                return Decision(Verdict.REFUSE, "excluded")
            address = found[0]
        return self._by_robots(entry, address)

    def _without_address(self, host: str, found: list[str] | DnsError | None) -> Decision:
        if found is None:
            return Decision(Verdict.RESOLVE)
        if not isinstance(found, DnsError):
            return Decision(Verdict.REFUSE, "address_forbidden")
        if is_temporary(found) and self._politeness.is_lost(host):
            return Decision(Verdict.REFUSE, "dns_failed")
        if is_temporary(found):
            assert self._addresses is not None
            return Decision(Verdict.RETRY, "dns_failed", self._addresses.again_in(host))
        if self._doubts_names() and not isinstance(found, InvalidNameError):
            return Decision(Verdict.RETRY, "dns_not_found")
        return Decision(Verdict.REFUSE, "dns_not_found")

    def _by_robots(self, entry: Entry, address: str) -> Decision:
        url = entry.url
        finding = Finding.ALLOWED if entry.kind == ERRAND else self._robots.look(url)
        match finding:
            case Finding.ALLOWED:
                if self._robots.crawl_delay(url) > self._longest_crawl_delay:
                    return Decision(Verdict.REFUSE, "crawl_delay_too_long")
                return Decision(Verdict.FETCH, address=address)
            case Finding.UNKNOWN:
                return Decision(Verdict.FETCH_ROBOTS, address=address)
            case Finding.ELSEWHERE:
                waited = self._robots.errand_secs(url)
                return Decision(Verdict.WAIT, secs=min(max(_SOONEST, waited), _LATEST))
            case Finding.DENIED:
                return Decision(Verdict.REFUSE, "robots_denied")
            case Finding.UNREACHABLE:
                return Decision(Verdict.REFUSE, self._robots.reason(url))
