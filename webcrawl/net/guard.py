"""The guard, which allows only addresses of the public internet to be contacted.

Used by the dialer and by the preconditions. A page can link to any host, and a host name can point
to any address. Without the guard, the author of a page could make a crawler inside a network read
that network's databases and cloud credentials.

Invariant: connections are made to an address that was checked, never to a name. So it is of no use
to change the address of a name between lookup and connection (DNS rebinding). Proxies from the
settings or the environment are not checked: they are not targets of the crawl, and often have a
private address. A proxy that is named only in a Request is checked.
"""

from __future__ import annotations

import ipaddress
import logging
import urllib.request
from collections.abc import Iterable
from contextlib import suppress
from contextvars import ContextVar
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Self
from urllib.parse import urlsplit

from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from webcrawl.configuration.values import flag

logger = logging.getLogger(__name__)

# Schemes of URLs without a host, or with one of a paid storage service.
_NO_HOSTS = frozenset({"data", "file", "s3"})
#: The only address that may be connected to in this context; "" if all addresses of the host may
#: be. With POLITENESS_KEY "address", the pause of a single address has passed, but not that of an
#: address that a name server has returned since, or of an idle connection. The downloader sets this
#: for each download, in a task of its own, as there is no other way to pass it on to the socket.
BOUND_ADDRESS = ContextVar("BOUND_ADDRESS", default="")

# IANA's registries of special-purpose addresses (RFC 6890; iana-ipv4-special-registry and
# iana-ipv6-special-registry as of 2025-10), and multicast. `ipaddress.is_global` is not used: its
# results differ between patch versions of Python, and 3.11.7 calls 3fff::/20 global. Addresses that
# the registries call globally reachable, such as those of AS112, are not listed.
_FORBIDDEN = (
    "0.0.0.0/8",  # this network (RFC 791); Linux connects 0.0.0.0 to itself
    "10.0.0.0/8",  # private (RFC 1918)
    "100.64.0.0/10",  # carriers' NAT (RFC 6598)
    "127.0.0.0/8",  # loopback (RFC 1122)
    "168.63.129.16/32",  # looks public, but is the host of every virtual machine on Azure
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
# All global unicast addresses of IPv6 (RFC 4291). Loopback, unique local (fc00::/7), link-local,
# site-local, multicast and discard-only addresses are outside of it.
_GLOBAL_6 = ipaddress.IPv6Network("2000::/3")
# Addresses through which a machine without IPv4 reaches most of the web (RFC 6052). Local-use
# translation (64:ff9b:1::/48, RFC 8215) is left out, as its operator decides which bits contain the
# IPv4 address.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def plain_address(text: str) -> str:
    """Return the IPv4 address inside the IPv6 address *text*, or *text* in its usual spelling.

    Text that is not an address is returned unchanged.

    >>> [*map(plain_address, ("::FFFF:0102:0304", "64:ff9b::1.2.3.4", "2001:DB8::1", "a.test"))]
    ['1.2.3.4', '1.2.3.4', '2001:db8::1', 'a.test']
    """
    try:
        return str(_parse_address(text))
    except ValueError:
        return text


#: Why a page does not get an answer that ``may_give`` denies.
PRIVATE_ADDRESS = "private_address"


def place_of(address: str, proxy: str = "") -> str:
    """Return whether *address* is "public" or "private"; *proxy* if the address is not known."""
    if not address:
        return proxy
    return "public" if _is_public(address) else "private"


def may_give(place: str, page_place: str) -> bool:
    """Return whether a page that came from *page_place* may get an answer from *place*.

    These are results of ``place_of``. A host behind a proxy may have any address: it counts as
    public when its page asks, and as private when it is asked, unless both are behind the same
    proxy.
    """
    return place == "public" or page_place in {"private", place}


class AddressGuard:
    """Decides which addresses may be contacted."""

    def __init__(self, *, allow_private: bool, max_tries: int = 2) -> None:
        """Create a guard.

        With *allow_private* every address may be contacted; this is for intranets and simulations.
        At most *max_tries* addresses of a host are tried, one after the other, each with the
        connect timeout.
        """
        self._allow_private = allow_private
        self._max_tries = max_tries

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Create a guard from ALLOW_PRIVATE_ADDRESSES and POLITENESS_KEY.

        With POLITENESS_KEY "address" only one address is tried, the one whose pause the frontier
        has checked. Raises FatalError if ALLOW_PRIVATE_ADDRESSES is neither true nor false.
        """
        allow_private = flag(settings, "ALLOW_PRIVATE_ADDRESSES")
        max_tries = 1 if settings.get("POLITENESS_KEY") == "address" else 2
        return cls(allow_private=allow_private, max_tries=max_tries)

    def is_permitted(self, address: str) -> bool:
        """Return whether *address*, IPv4 or IPv6 without brackets, may be contacted.

        Names and other text that is not an address are forbidden, and so are addresses of a single
        link (``%eth0``).
        """
        return self._allow_private or _is_public(address)

    def permitted_addresses(self, addresses: Iterable[str]) -> list[str]:
        """Return those of *addresses* that will be tried: the first ones that may be contacted."""
        return [address for address in addresses if self.is_permitted(address)][: self._max_tries]

    def is_host_permitted(self, host: str) -> bool:
        """Return whether *host* may be requested, as far as that is known without a DNS lookup.

        Text that is not an address but that some software reads as one (``127.1``, ``0x7f000001``)
        is forbidden.
        """
        name = host.lower().removeprefix("[").removesuffix("]").removesuffix(".")
        last = name.rpartition(".")[2]
        if ":" in name or last.isdigit() or last.startswith("0x"):
            return self.is_permitted(name)
        return self._allow_private or last != "localhost"


_SPECIAL = tuple(map(ipaddress.ip_network, _FORBIDDEN))


@lru_cache(4096)
def _is_public(text: str) -> bool:
    """Return whether *text* is an address of the public internet."""
    try:
        address = _parse_address(text)
    except ValueError:
        return False
    if "%" in text or (address.version == 6 and address not in _GLOBAL_6):
        return False
    return not any(address in block for block in _SPECIAL)


def _parse_address(text: str) -> IPv4Address | IPv6Address:
    """Return the address *text*, or the IPv4 address inside it (RFC 4291, 3056, 6052).

    Raises ValueError if *text* is not an address.
    """
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def followed_schemes(settings: BaseSettings) -> frozenset[str]:
    """Return the schemes with a handler in DOWNLOAD_HANDLERS and with a host in their URLs.

    DOWNLOAD_HANDLERS is merged with DOWNLOAD_HANDLERS_BASE; None removes a handler.
    """
    handlers = settings.getwithbase("DOWNLOAD_HANDLERS")
    return frozenset(name for name in handlers if handlers[name] is not None) - _NO_HOSTS


def named_proxies(settings: BaseSettings) -> frozenset[tuple[str, int]]:
    """Return the hosts and ports of the proxies in the environment and in *settings*.

    All settings with PROXY or PROXIES in their names are read; each is a URL, or several URLs.
    """
    # "no" stands for no_proxy, which lists hosts that are contacted without a proxy.
    urls = [url for scheme, url in urllib.request.getproxies().items() if scheme != "no"]
    for name in settings:
        value = settings[name] if "PROXY" in name or "PROXIES" in name else None
        if isinstance(value, str | list | tuple):
            urls += map(str, settings.getlist(name))

    proxies = set()
    for url in urls:
        with suppress(ValueError):
            parts = urlsplit(url if "://" in url else f"http://{url}")
            port = parts.port or (443 if parts.scheme == "https" else 80)
            proxies.add((parts.hostname or "", port))
    return frozenset(proxies)


def warn_of_unguarded_handlers(settings: BaseSettings) -> None:
    """Log a warning if download handlers do not keep out of the crawler's own network."""
    if flag(settings, "ALLOW_PRIVATE_ADDRESSES"):
        return
    handlers = settings.getwithbase("DOWNLOAD_HANDLERS")
    unguarded = [
        f"{scheme} ({handler})"
        for scheme, handler in handlers.items()
        if handler and scheme not in _NO_HOSTS and not _is_guarded(handler)
    ]
    if unguarded:
        logger.warning(
            "These download handlers do not check addresses, so a page could lead them into "
            "your own network: %s",
            ", ".join(unguarded),
        )


def _is_guarded(handler: Any) -> bool:
    """Return whether *handler* is a class in webcrawl.net, or is derived from one."""
    classes = getattr(load_object(handler), "__mro__", ())
    return any(base.__module__.startswith("webcrawl.net.") for base in classes)
