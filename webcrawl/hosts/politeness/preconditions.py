"""Preconditions: the checks that a URL must pass before it is fetched.

They are made in this order, the cheapest first:

- whether the host is excluded (host_rules.py) or has failed too often (delays.py)
- whether its address is known, and may be contacted (addresses.py)
- whether its robots.txt is known, and allows the URL (hosts/robots/lookup.py)

Unknown facts are looked up while the URL waits, without holding a worker.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from webcrawl.frontier import Entry
from webcrawl.hosts.host_rules import HostRules
from webcrawl.hosts.politeness.addresses import HostAddresses
from webcrawl.hosts.politeness.delays import Politeness
from webcrawl.hosts.politeness.outage import Outage
from webcrawl.hosts.robots.lookup import RobotsFinding, RobotsSearch, RobotsStatus
from webcrawl.net.dns.resolver import DnsError, InvalidNameError, LookupFailedError
from webcrawl.rights.policy import RIGHTS_REFUSED
from webcrawl.rights.statements import Statement, refusal_in
from webcrawl.urls import host_of

# A host whose robots.txt is fetched from another host is checked again after as many seconds as it
# has waited already, within these bounds. Thousands of hosts may wait for one.
_MIN_WAIT = 1.0
_MAX_WAIT = 60.0
_ALLOWED = RobotsFinding(RobotsStatus.ALLOWED)


class FetchAction(enum.Enum):
    """The next step for a URL whose host may be contacted now."""

    FETCH = "fetch"
    FETCH_ROBOTS = "fetch its robots.txt first"
    RESOLVE = "look up its host first"
    WAIT = "look at it again later"
    RETRY = "its host cannot be found right now"
    REFUSE = "give it up"


class Decision(msgspec.Struct, frozen=True, gc=False):
    """The decision about one URL.

    - *outcome* is the reason why the URL is refused, must be retried or waits.
    - *secs* is how many seconds its host waits at least.
    - *address* is the address that will be contacted, empty if it is not known here.
    - *robots_line* is the line of robots.txt that allows or denies the URL.
    - *robots_url* is the robots.txt to fetch first, or the one being fetched from another host.
    - *crawl_delay* is in seconds.
    - *sitemaps* are those named in robots.txt, given once each time that it was read.
    - *statements* are those about the use of the URL, known before it is fetched.
    """

    action: FetchAction
    outcome: str = ""
    secs: float = 0.0
    address: str = ""
    robots_line: str = ""
    robots_url: str = ""
    crawl_delay: float = 0.0
    sitemaps: tuple[str, ...] = ()
    statements: Sequence[Statement] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Preconditions:
    """Checks all preconditions, without I/O. *addresses* is None if a proxy looks up the hosts.

    *data_mining* knows the files TDM_PATH, if the purpose of the crawl needs them. If *is_strict*,
    a URL is refused if its owner refuses this purpose.
    """

    rules: HostRules
    politeness: Politeness
    addresses: HostAddresses | None
    robots: RobotsSearch
    outage: Outage
    data_mining: RobotsSearch | None
    is_strict: bool

    def decide(
        self,
        entry: Entry,
        *,
        obeys_robots: bool = True,
        is_for_page: bool = True,
        is_host_looked_up: bool = False,
    ) -> Decision:
        """Decide what to do with *entry*: fetch it, wait, look up a fact first, or give it up.

        Without *obeys_robots*, robots.txt is not asked. Unless *is_for_page*, sitemaps and what the
        owner says about the use of the URL do not matter. *is_host_looked_up* means that the
        previous decision was to look up its host. The host has been in process since, so it cannot
        have failed in the meantime.
        """
        host = host_of(entry.url)
        if exclusion := self.rules.exclusion_of(host, entry.url):
            return Decision(FetchAction.REFUSE, exclusion.outcome)
        failure = "" if is_host_looked_up else self.politeness.refusal(entry.host, entry.url)
        if failure:
            return Decision(FetchAction.REFUSE, failure)

        address = ""
        if self.addresses is not None and host and not self.rules.host_policy(host).proxy:
            addresses = self.addresses.known_addresses(host)
            if not isinstance(addresses, list) or not addresses:
                return self._without_address(host, addresses)
            for exclusion in filter(None, map(self.rules.exclusion_of, addresses)):
                return Decision(FetchAction.REFUSE, exclusion.outcome)
            address = addresses[0]
        return self._by_robots(
            entry.url, address, obeys_robots=obeys_robots, is_for_page=is_for_page
        )

    def _without_address(self, host: str, result: list[str] | DnsError | None) -> Decision:
        """Return the decision for *host*, which has no address that may be contacted now.

        *result* comes from ``HostAddresses.known_addresses``: None if the host must be looked up
        first, an empty list if all its addresses are forbidden, or the error of its look-up.
        """
        if result is None:
            return Decision(FetchAction.RESOLVE)
        if not isinstance(result, DnsError):
            return Decision(FetchAction.REFUSE, "address_forbidden")
        if isinstance(result, LookupFailedError):
            if self.politeness.is_lost(host):
                return Decision(FetchAction.REFUSE, "dns_failed")
            secs = self.addresses.retry_in(host)  # type: ignore[union-attr]  # a look-up failed
            return Decision(FetchAction.RETRY, "dns_failed", secs)
        # "No such name" is believed only once it is known that the name servers work.
        if self.outage.is_untried and not isinstance(result, InvalidNameError):
            return Decision(FetchAction.WAIT, "dns_not_found", _MIN_WAIT)
        return Decision(FetchAction.REFUSE, "dns_not_found")

    def _by_robots(
        self, url: str, address: str, *, obeys_robots: bool, is_for_page: bool
    ) -> Decision:
        """Return what robots.txt decides about *url*, which would be fetched from *address*."""
        robots = self.robots
        crawl_delay = robots.crawl_delay(url)
        finding = robots.verdict_on(url) if obeys_robots else _ALLOWED
        sitemaps = robots.take_sitemaps(url) if is_for_page else ()

        outcome = ""
        line = finding.line
        match finding.status:
            case RobotsStatus.UNKNOWN:
                return Decision(
                    FetchAction.FETCH_ROBOTS,
                    address=address,
                    robots_url=robots.robots_url(url),
                    crawl_delay=crawl_delay,
                )
            case RobotsStatus.TOO_SOON:
                return Decision(FetchAction.WAIT, secs=robots.floor_secs(url))
            case RobotsStatus.ON_REMOTE_HOST:
                secs = min(max(_MIN_WAIT, robots.robots_redirect_secs(url)), _MAX_WAIT)
                return Decision(FetchAction.WAIT, secs=secs, robots_url=robots.robots_url(url))
            case RobotsStatus.DENIED:
                outcome = "robots_denied"
            case RobotsStatus.UNREACHABLE:
                outcome = robots.reason(url)
            case RobotsStatus.ALLOWED:
                if self.politeness.should_skip(crawl_delay):
                    outcome = "crawl_delay_too_long"
                    line = ""  # it allows the URL, so it is not the reason
        decision = Decision(
            FetchAction.REFUSE if outcome else FetchAction.FETCH,
            outcome,
            address=address,
            robots_line=line,
            crawl_delay=crawl_delay,
            sitemaps=sitemaps,
        )
        if outcome or not (is_for_page and finding.statements):
            return decision
        return self._by_rights(url, decision, finding.statements)

    def _by_rights(self, url: str, decision: Decision, statements: Sequence[Statement]) -> Decision:
        """Return *decision*, to fetch *url*, as changed by what its owner says about its use.

        *statements* are those in robots.txt.
        """
        if self.data_mining is not None and url.startswith("http"):
            finding = self.data_mining.verdict_on(url)
            if finding.status is RobotsStatus.TOO_SOON:
                return replace(
                    decision, action=FetchAction.WAIT, secs=self.data_mining.floor_secs(url)
                )
            if finding.status is RobotsStatus.UNKNOWN:
                # The file is fetched like a robots.txt, unless robots.txt denies that.
                file_url = self.data_mining.robots_url(url)
                if self.robots.verdict_on(file_url).status is RobotsStatus.ALLOWED:
                    return replace(decision, action=FetchAction.FETCH_ROBOTS, robots_url=file_url)
            statements = [*statements, *finding.statements]
        refusal = refusal_in(statements) if self.is_strict else ""
        if refusal:
            return replace(
                decision, action=FetchAction.REFUSE, outcome=RIGHTS_REFUSED, robots_line=refusal
            )
        return replace(decision, statements=statements)
