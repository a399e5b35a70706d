"""Host specification: the record of a simulated host, and the enumerations of its properties."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Behaviour(StrEnum):
    """How a host behaves. Only hosts with one of the first five behaviours send valid answers."""

    SOUND = "sound"
    SLOW = "slow"  # waits slow_secs, or dribbles the answer over that time
    THROTTLE = "throttle"  # 429 with Retry-After to a second request within throttle_secs
    GUARDED = "guarded"  # refuses crawlers, each host in its own way, except for robots.txt
    SERVER_ERROR = "server_error"  # 5xx to everything, including robots.txt
    REFUSE = "refuse"  # its address refuses connections
    RESET = "reset"  # resets the connection, before or within the answer
    STALL = "stall"  # sends nothing, or half the answer, then waits for stall_secs
    GARBAGE = "garbage"  # answers with bytes that are not its protocol
    NXDOMAIN = "nxdomain"  # its name does not exist
    SERVFAIL = "servfail"  # its name server fails
    DNS_TIMEOUT = "dns_timeout"  # its name server does not answer


DNS_FAULTS = frozenset({Behaviour.NXDOMAIN, Behaviour.SERVFAIL, Behaviour.DNS_TIMEOUT})
# Behaviours of hosts with protocols that have no status codes. With any other behaviour, the
# correct result of a crawl would depend on how often the host is asked, or on a robots.txt it
# cannot have.
FTP_BEHAVIOURS = frozenset(Behaviour) - {Behaviour.THROTTLE, Behaviour.GUARDED}
GOPHER_BEHAVIOURS = DNS_FAULTS | {Behaviour.SOUND, Behaviour.SLOW, Behaviour.REFUSE}


class RobotsKind(StrEnum):
    """Kinds of robots.txt. Those in the first group allow every page."""

    MISSING = "missing"  # 404
    EMPTY = "empty"
    ALLOW_ALL = "allow_all"
    FORBIDDEN = "forbidden"  # 403: the same as missing (RFC 9309, section 2.3.1.3)
    HTML = "html"  # 200 with a page in place of rules
    BINARY = "binary"  # 200 with bytes that are not text

    PREFIX = "prefix"
    WILDCARD = "wildcard"
    OVERRIDE = "override"  # Allow inside Disallow
    AGENTS = "agents"  # groups for several crawlers
    BOM_CRLF = "bom_crlf"
    BIG = "big"  # more than the 500 KiB that RFC 9309 asks crawlers to parse; the rules come first
    REDIRECT = "redirect"  # to another path of the host
    DENY_ALL = "deny_all"
    UNAVAILABLE = "unavailable"  # 503: everything is disallowed (RFC 9309, section 2.3.1.4)


OPEN_ROBOTS: tuple[RobotsKind, ...] = (
    *(RobotsKind.MISSING,) * 9,
    *(RobotsKind.ALLOW_ALL,) * 5,
    RobotsKind.EMPTY,
    RobotsKind.FORBIDDEN,
    RobotsKind.HTML,
    RobotsKind.BINARY,
)
RESTRICTING_ROBOTS: tuple[RobotsKind, ...] = (
    *(RobotsKind.PREFIX,) * 5,
    *(RobotsKind.WILDCARD,) * 3,
    *(RobotsKind.OVERRIDE,) * 3,
    *(RobotsKind.AGENTS,) * 2,
    *(RobotsKind.DENY_ALL,) * 2,
    RobotsKind.BOM_CRLF,
    RobotsKind.BIG,
    RobotsKind.REDIRECT,
    RobotsKind.UNAVAILABLE,
)
# The guide hosts make all other hosts reachable. So their robots.txt may deny leaves, but never
# trunk pages.
GUIDE_ROBOTS = tuple(
    kind
    for kind in RESTRICTING_ROBOTS
    if kind not in {RobotsKind.DENY_ALL, RobotsKind.UNAVAILABLE, RobotsKind.AGENTS}
)


class Rendering(StrEnum):
    """Effect of a host's scripts on its pages. With the first five, the scripts make the links."""

    JSON = "json"  # fetch the links as JSON
    HISTORY = "history"  # the same document at every URL; changes the URL by the history API
    SCROLL = "scroll"  # a list without end, which grows when its end can be seen
    SHADOW = "shadow"  # put the links into an open shadow root
    MODULES = "modules"  # modules from another host, with links from JSON
    LOGIN = "login"  # show a login form; the pages have no links
    HYDRATION = "hydration"  # change nothing; the pages are complete without them
    HOSTILE = "hostile"  # loop or fill the memory; the pages are complete without them


CLIENT_RENDERED = frozenset(list(Rendering)[:5])


class Framing(StrEnum):
    """How a host marks the end of its answers."""

    LENGTH = "length"
    CHUNKED = "chunked"
    CLOSE = "close"


FRAMINGS = (*(Framing.LENGTH,) * 13, *(Framing.CHUNKED,) * 2, Framing.CLOSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSpec:
    """Properties of a host, except its pages."""

    index: int
    name: str
    rank: int  # 1 is the largest and most popular host
    origin: str  # scheme://name:port, without a final slash
    address: str
    scheme: str = "http"  # or https, ftp, gopher
    is_web: bool = True  # whether the scheme is http or https; read for every link
    behaviour: Behaviour = Behaviour.SOUND
    robots: RobotsKind = RobotsKind.MISSING
    crawl_delay: float = 0.0  # seconds; 0 for none
    pages: int = 1
    # Pages 0 to trunk-1 connect all pages of the host: sound HTML pages, directories or menus.
    trunk: int = 1
    guide: bool = False
    endless: bool = False
    framing: Framing = Framing.LENGTH
    rendering: Rendering | None = None  # what its scripts do, if it has any
    # Whether the host belongs to the spam farm (farm.py), and the number of the farm's host that
    # its root page links to.
    farm: bool = False
    spammed_by: int | None = None
