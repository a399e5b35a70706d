"""Host specification: the record of one simulated host, and the enumerations of its traits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Behaviour(StrEnum):
    """How a host answers. Only with the first four does it answer at all."""

    SOUND = "sound"
    SLOW = "slow"  # waits slow_secs, or dribbles the answer over that time
    THROTTLE = "throttle"  # 429 with Retry-After to a second request within throttle_secs
    SERVER_ERROR = "server_error"  # 5xx to everything, robots.txt too
    REFUSE = "refuse"  # its address refuses connections
    RESET = "reset"  # resets the connection, before or within the answer
    STALL = "stall"  # sends nothing, or half the answer, and holds the line for stall_secs
    GARBAGE = "garbage"  # answers with bytes that are not its protocol
    NXDOMAIN = "nxdomain"  # its name does not exist
    SERVFAIL = "servfail"  # its name server fails
    DNS_TIMEOUT = "dns_timeout"  # its name server does not answer


DNS_FAULTS = frozenset({Behaviour.NXDOMAIN, Behaviour.SERVFAIL, Behaviour.DNS_TIMEOUT})
# What a host can be that speaks a protocol without statuses: the truth about the others would
# depend on how often they are asked, or on a robots.txt that they cannot have.
FTP_BEHAVIOURS = frozenset(Behaviour) - {Behaviour.THROTTLE}
GOPHER_BEHAVIOURS = DNS_FAULTS | {Behaviour.SOUND, Behaviour.SLOW, Behaviour.REFUSE}
ANSWERING = frozenset({Behaviour.SOUND, Behaviour.SLOW, Behaviour.THROTTLE, Behaviour.SERVER_ERROR})


class RobotsKind(StrEnum):
    """Kinds of robots.txt. The first group allows every page."""

    MISSING = "missing"  # 404
    EMPTY = "empty"
    ALLOW_ALL = "allow_all"
    FORBIDDEN = "forbidden"  # 403: as good as missing (RFC 9309, section 2.3.1.3)
    HTML = "html"  # 200 with a page in place of rules
    BINARY = "binary"  # 200 with bytes that are no text

    PREFIX = "prefix"
    WILDCARD = "wildcard"
    OVERRIDE = "override"  # Allow inside Disallow
    AGENTS = "agents"  # groups for several crawlers
    BOM_CRLF = "bom_crlf"
    BIG = "big"  # above the 500 KiB that RFC 9309 asks crawlers to read; rules come first
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
# Guides are seeds' anchors: their robots.txt may deny leaves, never trunk pages.
GUIDE_ROBOTS = tuple(
    kind
    for kind in RESTRICTING_ROBOTS
    if kind not in {RobotsKind.DENY_ALL, RobotsKind.UNAVAILABLE, RobotsKind.AGENTS}
)


class Framing(StrEnum):
    """How a host marks the end of its answers."""

    LENGTH = "length"
    CHUNKED = "chunked"
    CLOSE = "close"


FRAMINGS = (*(Framing.LENGTH,) * 13, *(Framing.CHUNKED,) * 2, Framing.CLOSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSpec:
    """Everything about one host except its pages."""

    index: int
    name: str
    rank: int  # 1 is the largest and most popular host
    origin: str  # scheme://name:port, without a final slash
    address: str
    scheme: str = "http"  # or https, ftp, gopher
    is_web: bool = True  # one of the first two; looked at for every link
    behaviour: Behaviour = Behaviour.SOUND
    robots: RobotsKind = RobotsKind.MISSING
    crawl_delay: float = 0.0  # seconds; 0 for none
    pages: int = 1
    # Pages 0 to trunk-1 hold the host together: sound HTML pages, directories or menus.
    trunk: int = 1
    guide: bool = False
    endless: bool = False
    framing: Framing = Framing.LENGTH
    # Of the spam farm (farm.py), or linking from its root page to the farm's host of that number.
    farm: bool = False
    spammed_by: int | None = None

    @property
    def answers(self) -> bool:
        """Whether answers come back at all (5xx are answers)."""
        return self.behaviour in ANSWERING
