"""Which addresses may be contacted: those of the public internet.

Used by the dialer and by the preconditions. A page can name any host, and a name can point
anywhere: without this a crawler inside a network reads that network's databases and cloud
credentials for the authors of pages.

Invariant: what is connected to is an address that was judged, never a name, so a name that changes
its address between look-up and connection (DNS rebinding) gains nothing. A proxy that the settings
or the environment name is not judged: it is not the crawl's target, and often stands on a private
address. One that nothing but a Request names is.
"""

from __future__ import annotations

import ipaddress
import logging
import urllib.request
from contextlib import suppress
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from scrapy.utils.misc import load_object

from webcrawl.configuration.values import flag

if TYPE_CHECKING:
    from collections.abc import Iterable
    from ipaddress import IPv4Address, IPv6Address

    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

# Schemes of URLs that name no host, or only that of a paid storage.
_NO_HOSTS = frozenset({"data", "file", "s3"})
#: The only address to be connected to in this context; "" where any of the host's may be. With
#: POLITENESS_KEY "address" a contact has the rest of one address: not of another one that a name
#: server names meanwhile, nor of that of a connection that waits to be used again. The downloader
#: sets it, for each download in a task of its own; nothing else gets from there to the socket.
BOUND_ADDRESS = ContextVar("BOUND_ADDRESS", default="")

# IANA's registries of special-purpose addresses (RFC 6890; iana-ipv4-special-registry and
# iana-ipv6-special-registry as of 2025-10) and those of multicast. Not `ipaddress.is_global`: what
# that says differs between patch versions of Python, and 3.11.7 calls 3fff::/20 global. Addresses
# that the registries call globally reachable, as those of AS112, are not here.
_FORBIDDEN = (
    "0.0.0.0/8",  # this network (RFC 791); Linux connects 0.0.0.0 to itself
    "10.0.0.0/8",  # private (RFC 1918)
    "100.64.0.0/10",  # carriers' NAT (RFC 6598)
    "127.0.0.0/8",  # loopback (RFC 1122)
    "168.63.129.16/32",  # public by its looks, and the host of every virtual machine on Azure
    "169.254.0.0/16",  # link-local (RFC 3927), among them the metadata of most clouds
    "172.16.0.0/12",  # private (RFC 1918)
    "192.0.0.0/24",  # IETF protocols (RFC 6890)
    "192.0.2.0/24",  # documentation (RFC 5737)
    "192.88.99.0/24",  # relays of 6to4 (RFC 7526)
    "192.168.0.0/16",  # private (RFC 1918)
    "198.18.0.0/15",  # benchmarks (RFC 2544)
    "198.51.100.0/24",  # documentation (RFC 5737)
    "203.0.113.0/24",  # documentation (RFC 5737)
    "224.0.0.0/4",  # multicast (RFC 5771)
    "240.0.0.0/4",  # reserved (RFC 1112), and broadcast
    "2001::/23",  # IETF protocols (RFC 2928): Teredo, benchmarks, ORCHID
    "2001:db8::/32",  # documentation (RFC 3849)
    "3fff::/20",  # documentation (RFC 9637)
)
# All global unicast addresses of IPv6 there are (RFC 4291). Loopback, unique local (fc00::/7),
# link-local, site-local, multicast and discard-only lie outside.
_GLOBAL_6 = ipaddress.IPv6Network("2000::/3")
# How a machine without IPv4 reaches most of the web (RFC 6052). Local-use translation
# (64:ff9b:1::/48, RFC 8215) is left out: where it puts the IPv4 address is its operator's choice.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def plain_address(text: str) -> str:
    """The address that counts of *text*: the IPv4 address inside, where there is one, in the usual
    spelling. Anything that is no address is left as it is.

    >>> [*map(plain_address, ("::FFFF:0102:0304", "64:ff9b::1.2.3.4", "2001:DB8::1", "a.test"))]
    ['1.2.3.4', '1.2.3.4', '2001:db8::1', 'a.test']
    """
    try:
        return str(_plain(text))
    except ValueError:
        return text


class AddressGuard:
    """The judge of addresses."""

    def __init__(self, *, allow_private: bool, tried: int = 2) -> None:
        """With *allow_private* every address may be: for intranets, and for simulations. Of a host
        with several no more than *tried* are, one after the other, each with the connect time-out.
        """
        self._allow_private = allow_private
        self._tried = tried

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Build by ALLOW_PRIVATE_ADDRESSES; FatalError if it is neither true nor false.

        With POLITENESS_KEY "address" one address is tried, whose clock the frontier has.
        """
        allow_private = flag(settings, "ALLOW_PRIVATE_ADDRESSES")
        tried = 1 if settings.get("POLITENESS_KEY") == "address" else 2
        return cls(allow_private=allow_private, tried=tried)

    def permits(self, address: str) -> bool:
        """Say whether *address*, IPv4 or IPv6 without brackets, may be contacted.

        No name may, nor anything else that is no address, nor one of a single link (``%eth0``).
        """
        return self._allow_private or _is_public(address)

    def permitted(self, addresses: Iterable[str]) -> list[str]:
        """Return the first of *addresses* that may be contacted, as many as are to be tried."""
        return [address for address in addresses if self.permits(address)][: self._tried]

    def permits_host(self, host: str) -> bool:
        """Say whether the *host* of a URL may be asked for, as far as no look-up is needed.

        What is no address but would be read as one somewhere (``127.1``, ``0x7f000001``) may not.
        """
        name = host.lower().removeprefix("[").removesuffix("]").removesuffix(".")
        last = name.rpartition(".")[2]
        if ":" in name or last.isdigit() or last.startswith("0x"):
            return self.permits(name)
        return self._allow_private or last != "localhost"


_SPECIAL = tuple(map(ipaddress.ip_network, _FORBIDDEN))


@lru_cache(4096)
def _is_public(text: str) -> bool:
    try:
        address = _plain(text)
    except ValueError:
        return False
    if "%" in text or (address.version == 6 and address not in _GLOBAL_6):
        return False
    return not any(address in block for block in _SPECIAL)


def _plain(text: str) -> IPv4Address | IPv6Address:
    """The IPv4 address inside of the address *text*, by RFC 4291, RFC 3056 or RFC 6052, or itself;
    ValueError where *text* is no address."""
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def followed_schemes(settings: BaseSettings) -> frozenset[str]:
    """The schemes that DOWNLOAD_HANDLERS has a handler for, and whose URLs name hosts.

    DOWNLOAD_HANDLERS comes on top of DOWNLOAD_HANDLERS_BASE; None takes a handler away.
    """
    handlers = settings.getwithbase("DOWNLOAD_HANDLERS")
    return frozenset(name for name in handlers if handlers[name] is not None) - _NO_HOSTS


def named_proxies(settings: BaseSettings) -> frozenset[tuple[str, int]]:
    """Host and port of the proxies that the environment names, and settings with PROXY or PROXIES
    in their names: a URL, or several."""
    urls = [url for scheme, url in urllib.request.getproxies().items() if scheme != "no"]
    for name in settings:
        value = settings[name] if "PROXY" in name or "PROXIES" in name else None
        if isinstance(value, str | list | tuple):
            urls += map(str, settings.getlist(name))
    found = set()
    for url in urls:
        with suppress(ValueError):
            parts = urlsplit(url if "://" in url else f"http://{url}")
            port = parts.port or (443 if parts.scheme == "https" else 80)
            found.add((parts.hostname or "", port))
    return frozenset(found)


def warn_of_unguarded_handlers(settings: BaseSettings) -> None:
    """Warn of download handlers that do not keep pages from leading into the crawler's network."""
    if flag(settings, "ALLOW_PRIVATE_ADDRESSES"):
        return
    handlers = settings.getwithbase("DOWNLOAD_HANDLERS")
    foreign = [
        f"{scheme} ({handler})"
        for scheme, handler in handlers.items()
        if handler and scheme not in _NO_HOSTS and not _is_guarded(handler)
    ]
    if foreign:
        logger.warning(
            "These download handlers do not check addresses, so that a page can lead them into "
            "your own network: %s",
            ", ".join(foreign),
        )


def _is_guarded(handler: Any) -> bool:
    """Whether *handler* is one of net/ or made of it."""
    classes = getattr(load_object(handler), "__mro__", ())
    return any(base.__module__.startswith("webcrawl.net.") for base in classes)
