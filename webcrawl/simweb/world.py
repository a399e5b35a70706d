"""World: the parameters of a simulated web, and the hosts that are derived from them.

A ``World`` is a value: equal worlds are the same web, byte for byte. It does not store hosts or
pages; each is computed from the seed when needed, and a bounded cache keeps recent hosts. Pages are
computed by ``webcrawl.simweb.pages``.

Invariant: every host can be reached from the seeds. Hosts are ranked by size and popularity. The
first ``seed_share`` of the ranks are seeds, and every fourth of these is a *guide*: it speaks HTTP
and never fails, its robots.txt allows its trunk pages, and it links to the roots of its part of the
hosts that are not seeds.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from webcrawl.simweb.chance import FARM, HOST, draw, unit
from webcrawl.simweb.distributions import PROFILES, WebProfile
from webcrawl.simweb.farm import farm_name, farm_number
from webcrawl.simweb.host_spec import (
    FRAMINGS,
    FTP_BEHAVIOURS,
    GOPHER_BEHAVIOURS,
    GUIDE_ROBOTS,
    OPEN_ROBOTS,
    RESTRICTING_ROBOTS,
    Behaviour,
    Framing,
    HostSpec,
    Rendering,
    RobotsKind,
)
from webcrawl.simweb.leaves import Leaf, leaf_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ZONE = "sim.test"

# There must be an address for each host, because FTP and Gopher hosts are found by address.
_MAX_HOSTS = 4_000_000
# Page numbers have 24 bits in a page key; the upper half is for duplicates.
_MAX_PAGES = 4_000_000
# Ranges of all numeric parameters that are not shares.
_BOUNDS = {
    "seed": (0, (1 << 64) - 1),
    "hosts": (1, _MAX_HOSTS),
    "network": (1, 223),
    **dict.fromkeys(("http_port", "https_port", "ftp_port", "gopher_port"), (0, 65535)),
    "addresses": (0, 20_000),
    "farm_hosts": (0, _MAX_HOSTS),
    "max_pages": (1, _MAX_PAGES),
    "mean_pages": (1, _MAX_PAGES),
    "large_bytes": (1, 1 << 40),
    "pages_per_connection": (0, 1 << 30),
    **dict.fromkeys(("slow_secs", "throttle_secs"), (0, 3600)),
    **dict.fromkeys(("stall_secs", "max_crawl_delay"), (0, 86400)),
    "changes_per_day": (0, 1000),
    "lastmod_precision": (0.01, 1),
}

# Number of hosts that a World keeps in memory: about 10 MB.
_CACHED_HOSTS = 16_384

# Only hosts with at most this many pages may be slow, throttle or ask for a crawl delay. Otherwise
# a single host could determine how long a whole crawl takes.
_LARGEST_TROUBLED = 20

_TRUNK_SHARE = 8  # one page in eight is a trunk page
_DIRECTORY_SHARE = 4  # one in four on FTP and Gopher hosts, which have no other links
_GUIDE_EVERY = 4  # every fourth seed host is a guide


class SimWebError(Exception):
    """Raised if a World cannot be made or served; the message is one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Shares of hosts with each kind of fault, from 0 to 1.

    The sums of the TCP faults (3.1 %) and of the DNS faults (1.0 %) are those of Mercator's figure
    6. Hosts with more than 20 pages are never slow or throttling.
    """

    slow: float = 0.02
    throttle: float = 0.01
    server_error: float = 0.008
    refuse: float = 0.012
    reset: float = 0.007
    stall: float = 0.005
    garbage: float = 0.007
    nxdomain: float = 0.006
    servfail: float = 0.002
    dns_timeout: float = 0.002
    guarded: float = 0.0

    @classmethod
    def none(cls) -> Faults:
        """Return shares of 0, with which every host is sound."""
        return cls(**dict.fromkeys((f.name for f in dataclasses.fields(cls)), 0.0))


class _DerivedFields:
    """Attributes of a `World` that are derived from its parameters.

    leaves: see ``leaf_table``.
    trunk_documents: share of trunk pages among documents.
    host: returns the host with this number, which is 0 to hosts - 1, or above hosts for the farm.
    _step, _step_back: convert ranks to host numbers and back.
    """

    leaves: tuple[Leaf, ...]
    trunk_documents: float
    seed_hosts: int
    address_count: int
    host: Callable[[int], HostSpec]
    _exponent: float
    _step: int
    _step_back: int
    _index: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class World(_DerivedFields):
    """Parameters of a simulated web. Shares are from 0 to 1, times are in seconds.

    The constructor raises SimWebError for invalid parameters.
    """

    seed: int = 1
    hosts: int = 2000
    profile: str = "mercator"
    http_port: int = 8480
    https_port: int = 8443
    ftp_port: int = 8421
    gopher_port: int = 7070
    network: int = 127  # first byte of all addresses; must be 127 except within a process
    addresses: int = 0  # distinct addresses; 0 means a quarter of the hosts, at most 256
    mean_pages: float = 10.0  # URLs per host
    max_pages: int = 300  # URLs of the largest host
    local_links: float = 0.8  # share of the links that stay within their host
    seed_share: float = 0.5  # share of the hosts, by rank, whose roots are seeds
    https_share: float = 0.3
    ftp: float = 0.0  # hosts that speak FTP instead of HTTP
    gopher: float = 0.0  # hosts that speak Gopher instead of HTTP
    faults: Faults = field(default_factory=Faults)
    restricting: float = 0.12  # hosts whose robots.txt forbids something
    crawl_delays: float = 0.1  # hosts of at most 20 pages whose robots.txt asks for a delay
    max_crawl_delay: float = 2.0
    errors: float = 0.075  # URLs answering 4xx or 5xx; with redirects, as in Mercator's figure 6
    redirects: float = 0.03  # URLs answering 3xx
    duplicates: float = 0.08  # documents whose bytes are also found under another URL
    odd_charsets: float = 0.03  # documents in HTML that are not plain UTF-8
    endless: float = 0.01  # hosts with an endless URL space
    preferences: bool = False  # owners say what their pages may be used for (preferences.py)
    rendered: float = 0.0  # hosts of the web, guides aside, whose pages have scripts
    farm_hosts: int = 0  # hosts of a spam farm, in addition to the others
    farm_links: float = 0.02  # hosts whose root page links to the farm
    large_files: float = 0.0003  # URLs with a document of large_bytes
    large_bytes: int = 20 << 20
    pages_per_connection: int = 0  # after these the server closes it; 0 for no limit
    slow_secs: float = 0.4
    stall_secs: float = 60.0
    throttle_secs: float = 1.0
    changes_per_day: float = 0.0  # median for a page; with 0 no page changes
    lastmod_recall: float = 0.0  # share of changes that sitemaps report; with 0, no sitemaps
    lastmod_precision: float = 1.0  # share of reported changes that are real

    names: tuple[str, ...] = ()  # names of the first hosts, which are sound

    def __post_init__(self) -> None:
        """Check the parameters and compute the derived fields."""
        self._check()
        ranks = np.arange(1, self.hosts + 1, dtype=np.float64)
        exponent = _solve_exponent(ranks, self.mean_pages, self.max_pages)
        page_counts = np.maximum(1, np.rint(self.max_pages * ranks**-exponent))
        trunk_share = float(
            ((page_counts + _TRUNK_SHARE - 1) // _TRUNK_SHARE).sum() / page_counts.sum()
        )

        # A step that is coprime to the number of hosts, so that every rank gets another host
        # number.
        step = max(1, int(self.hosts * 0.6180339887))
        while math.gcd(step, self.hosts) != 1:
            step += 1

        vars(self).update(
            leaves=leaf_table(self, self.profile_spec.types, trunk_share),
            trunk_documents=min(trunk_share / (1.0 - self.errors - self.redirects), 1.0),
            seed_hosts=max(1, round(self.hosts * self.seed_share)),
            address_count=self.addresses or max(1, min(256, self.hosts // 4)),
            _exponent=exponent,
            _step=step,
            _step_back=pow(step, -1, self.hosts) if self.hosts > 1 else 0,
            host=functools.lru_cache(_CACHED_HOSTS)(self._make_host),
            _index={name: index for index, name in enumerate(self.names)},
        )

    def _check(self) -> None:
        """Raise SimWebError if a parameter is invalid."""
        if self.profile not in PROFILES:
            raise SimWebError(f"unknown profile {self.profile!r}: use one of {', '.join(PROFILES)}")
        values = {f.name: getattr(self, f.name) for f in _PARAMETERS}
        del values["profile"], values["names"]
        faults = dataclasses.asdict(values.pop("faults"))
        for name, value in (values | faults).items():
            if name in _BOUNDS:
                low, high = _BOUNDS[name]
                if not low <= value <= high:
                    raise SimWebError(f"{name} must be from {low} to {high}, not {value}")
            elif not 0 <= value <= 1:
                raise SimWebError(f"{name} is a share from 0 to 1, not {value}")
        if sum(faults.values()) > 1 - 1 / _GUIDE_EVERY:
            raise SimWebError("the shares of faulty hosts add up to more than three quarters")
        if self.ftp + self.gopher > 1 - 1 / _GUIDE_EVERY:
            raise SimWebError("hosts of FTP and Gopher make up more than three quarters")
        if self.errors + self.redirects > 0.5:
            raise SimWebError("errors and redirects make up more than half of the URLs")

    @property
    def profile_spec(self) -> WebProfile:
        """Distributions that ``profile`` names."""
        return PROFILES[self.profile]

    def page_count(self, rank0: int) -> int:
        """Return the number of URLs of the host with zero-based rank *rank0*.

        The numbers have a Zipf distribution and are at least 1.
        """
        return max(1, round(self.max_pages * math.pow(rank0 + 1, -self._exponent)))

    def index_of(self, rank0: int) -> int:
        """Return the number of the host with zero-based rank *rank0*."""
        return (rank0 * self._step + self.seed) % self.hosts

    def rank_of(self, index: int) -> int:
        """Return the zero-based rank of host *index*."""
        return (index - self.seed) * self._step_back % self.hosts

    def find(self, name: str) -> HostSpec | None:
        """Return the host called *name* (in any case, without a port), or None.

        Hosts whose names cannot be resolved, because of DNS faults, are found as well.
        """
        if name.lower() in self._index:
            return self.host(self._index[name.lower()])
        label, _, zone = name.lower().partition(".")
        number = farm_number(name.lower()) if self.farm_hosts else None
        if number is not None and number < self.farm_hosts:
            return self.host(self.hosts + 1 + number)
        if zone != ZONE or not label.startswith("site") or not label[4:].isdecimal():
            return None
        index = int(label[4:14])
        if not len(self.names) <= index < self.hosts or label != f"site{index:05d}":
            return None
        return self.host(index)

    def guide(self, number: int) -> HostSpec:
        """Return one of the guides, chosen by *number*."""
        rank0 = number % self.seed_hosts
        return self.host(self.index_of(rank0 - rank0 % _GUIDE_EVERY))

    def guided_ranks(self, host: HostSpec, page: int) -> range:
        """Return zero-based ranks of the hosts to whose roots trunk page *page* of *host* links.

        Only guides have such links.
        """
        if not host.guide:
            return range(0)
        guide_count = (self.seed_hosts + _GUIDE_EVERY - 1) // _GUIDE_EVERY
        first = self.seed_hosts + (host.rank - 1) // _GUIDE_EVERY + page * guide_count
        return range(first, self.hosts, guide_count * host.trunk)

    def seeds(self) -> Iterator[str]:
        """Yield the seed URLs, most popular first: root pages of hosts, some of them faulty."""
        for rank0 in range(self.seed_hosts):
            yield self.host(self.index_of(rank0)).origin + "/"

    def address_list(self) -> list[str]:
        """Return the addresses of web hosts that accept connections (by default 127.16.0.0/12)."""
        return [self._address(16, number) for number in range(self.address_count)]

    def addresses_by_scheme(self) -> dict[str, list[str]]:
        """Return the addresses on which servers listen, for each scheme."""
        web = self.address_list()
        return {
            "http": web,
            "https": web if self.https_share else [],
            "ftp": list(self.hosts_by_address("ftp")),
            "gopher": list(self.hosts_by_address("gopher")),
        }

    def hosts_by_address(self, scheme: str) -> dict[str, HostSpec]:
        """Return the hosts of *scheme* (ftp or gopher) that accept connections, by address."""
        if not getattr(self, scheme):
            return {}
        hosts = [self.host(i) for i in range(self.hosts) if self._own_scheme(i) == scheme]
        return {host.address: host for host in hosts if host.behaviour is not Behaviour.REFUSE}

    def __reduce__(self) -> tuple[functools.partial[World], tuple[()]]:
        """Pickle only the parameters, not the derived fields."""
        return functools.partial(World, **{f.name: getattr(self, f.name) for f in _PARAMETERS}), ()

    def _make_host(self, index: int) -> HostSpec:
        """Compute the host with number *index*."""
        if index >= self.hosts:
            return self._make_farm_host(index)
        rank0 = self.rank_of(index)
        is_guide = rank0 < self.seed_hosts and rank0 % _GUIDE_EVERY == 0
        pages = self.page_count(rank0)
        draw1 = draw(self.seed, HOST, index, 0)
        draw2 = draw(self.seed, HOST, index, 1)
        is_named = index < len(self.names)
        is_sound = is_guide or is_named
        behaviour = Behaviour.SOUND if is_sound else self._behaviour(_part(draw1, 0), pages)
        own_scheme = self._own_scheme(index)
        trunk_share = _DIRECTORY_SHARE if own_scheme else _TRUNK_SHARE
        if own_scheme and behaviour not in _BEHAVIOURS[own_scheme]:
            behaviour = Behaviour.SOUND

        if behaviour is Behaviour.REFUSE:
            address = self._address(99, draw(self.seed, HOST, index, 2) % 5000)
        elif own_scheme:
            address = self._address(32, index)
        else:
            # The number is squared, so that some addresses have many hosts and most have few.
            address = self._address(16, int(_part(draw1, 24) ** 2 * self.address_count))

        if _part(draw2, 0) < self.restricting:
            robots_kinds = GUIDE_ROBOTS if is_guide else RESTRICTING_ROBOTS
        else:
            robots_kinds = OPEN_ROBOTS
        robots = robots_kinds[(draw1 >> 48 & 0xFF) % len(robots_kinds)]
        has_delay = pages <= _LARGEST_TROUBLED and _part(draw2, 24) < self.crawl_delays

        rendering = None
        if not (is_guide or own_scheme) and draw(self.seed, HOST, index, 5) / 2**64 < self.rendered:
            # Hosts take all kinds in turn, by rank without the guides.
            rendering = list(Rendering)[(rank0 - rank0 // _GUIDE_EVERY) % len(Rendering)]

        is_https = (draw2 >> 48 & 0xFFF) / 4096 < self.https_share
        # A page sent by HTTPS may not load modules by HTTP.
        is_https = is_https and rendering is not Rendering.MODULES
        scheme = own_scheme or ("https" if is_https else "http")
        if scheme == "ftp" and robots is RobotsKind.REDIRECT:  # FTP has no redirects
            robots = RobotsKind.PREFIX
        elif scheme == "gopher":
            robots = RobotsKind.MISSING  # Gopher has none
            has_delay = False

        name = self.names[index] if is_named else f"site{index:05d}.{ZONE}"
        return HostSpec(
            index=index,
            name=name,
            rank=rank0 + 1,
            origin=f"{scheme}://{name}:{getattr(self, f'{scheme}_port')}",
            scheme=scheme,
            is_web=not own_scheme,
            address=address,
            behaviour=behaviour,
            robots=robots,
            # Some delays are fractions of a second, which are legal and often mishandled.
            crawl_delay=self.max_crawl_delay / (1, 2, 4)[(draw2 >> 60) % 3] if has_delay else 0.0,
            pages=pages,
            trunk=(pages + trunk_share - 1) // trunk_share,
            guide=is_guide,
            endless=not own_scheme and draw(self.seed, HOST, index, 3) / 2**64 < self.endless,
            rendering=rendering,
            framing=Framing.LENGTH if self.profile_spec.has_lengths else FRAMINGS[draw1 >> 60],
            spammed_by=None if own_scheme else self._spam_target(index),
        )

    def _spam_target(self, index: int) -> int | None:
        """Return the number of the farm's host that host *index* links to, if any."""
        if not self.farm_hosts:
            return None
        value = draw(self.seed, FARM, index)
        has_link = unit(value) < self.farm_links
        return self.hosts + 1 + (value & 0x7FF) % self.farm_hosts if has_link else None

    def _make_farm_host(self, index: int) -> HostSpec:
        """Compute the host of the spam farm with number *index*."""
        name = farm_name(index - self.hosts - 1)
        return HostSpec(
            index=index,
            name=name,
            rank=index,
            origin=f"http://{name}:{self.http_port}",
            address=self._address(16, index % self.address_count),
            farm=True,
        )

    def _address(self, second: int, number: int) -> str:
        """Return the *number*-th address of the range that begins with byte *second*."""
        last_bytes = f"{number // 250 % 250}.{number % 250 + 1}"
        return f"{self.network}.{second + number // 62500}.{last_bytes}"

    def _own_scheme(self, index: int) -> str:
        """Return the scheme of host *index* if it is "ftp" or "gopher", else "".

        Unlike ``host``, this does not compute the whole host.
        """
        if index < len(self.names) or not (self.ftp or self.gopher):
            return ""
        rank0 = self.rank_of(index)
        if rank0 < self.seed_hosts and rank0 % _GUIDE_EVERY == 0:
            return ""
        # Guides always speak HTTP, so the other hosts speak FTP or Gopher a little more often.
        quantile = draw(self.seed, HOST, index, 4) / 2**64 * (1 - self.seed_share / _GUIDE_EVERY)
        if quantile < self.ftp:
            return "ftp"
        return "gopher" if quantile < self.ftp + self.gopher else ""

    def _behaviour(self, quantile: float, pages: int) -> Behaviour:
        """Return the behaviour of a host with *pages* pages, for a *quantile* from 0 to 1."""
        cumulative_share = 0.0
        for f in dataclasses.fields(Faults):
            # Guides never fail, so the others fail a little more often.
            cumulative_share += getattr(self.faults, f.name) / (1 - self.seed_share / _GUIDE_EVERY)
            if quantile < cumulative_share:
                behaviour = Behaviour(f.name)
                if behaviour in {Behaviour.SLOW, Behaviour.THROTTLE} and pages > _LARGEST_TROUBLED:
                    return Behaviour.SOUND
                return behaviour
        return Behaviour.SOUND


def write_seeds(world: World, path: Path) -> int:
    """Write the seed URLs of *world* to *path*, one per line; return their number."""
    text = "".join(f"{url}\n" for url in world.seeds())
    # An unchanged file is kept, because a resumed crawl would read a new one from its start.
    if not path.exists() or path.read_text(encoding="ascii") != text:
        path.write_text(text, encoding="ascii")
    return world.seed_hosts


_BEHAVIOURS = {"ftp": FTP_BEHAVIOURS, "gopher": GOPHER_BEHAVIOURS}
_PARAMETERS = dataclasses.fields(World)


def _part(value: int, shift: int) -> float:
    """Return 24 bits of the draw *value*, from bit *shift* on, as a number in [0, 1)."""
    return (value >> shift & 0xFFFFFF) / 0x1000000


def _solve_exponent(
    ranks: np.ndarray[Any, np.dtype[np.float64]], mean: float, largest: int
) -> float:
    """Return the Zipf exponent for which hosts have *mean* pages on average.

    The largest host has *largest* pages.
    """
    low = 0.0
    high = 16.0
    for _ in range(40):
        middle = (low + high) / 2
        if float(np.maximum(1, largest * ranks**-middle).mean()) > mean:
            low = middle
        else:
            high = middle
    # Rounded, so that the last bits of a float cannot change the web.
    return round((low + high) / 2, 6)
