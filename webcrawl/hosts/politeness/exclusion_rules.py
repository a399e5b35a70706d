"""Who is excluded: the rules of an exclusion file as a table that is small and quick to ask.

Built line by line by `exclusions`, and then only asked, for the host of every URL that is handed
out. A rule is kept as a hash of 64 bits in a table at most half full: 16 MB for a million rules,
where a set of strings would take 120 MB and keep the interpreter for 0.1 s when it is freed. That
a host is taken for an excluded one has the odds of 1 in 10**13 with a million rules.

Invariant: `add` either takes the line or raises ValueError and changes nothing.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from array import array
from typing import Final

from webcrawl.net.guard import plain_address
from webcrawl.urls import host_of, normalize

# line := [rule] ["#" comment]
# rule := name | "=" name | address | address "/" bits
# A leading "." or "*." of a name says nothing more, since a name stands for all below it too.
_COMMENT: Final = b"#"
# Nine names of ten, as normal as `host_of` gives them; the others go through the normalizer.
_NORMAL_NAME: Final = re.compile(rb"(?:[a-z0-9_-]{1,63}\.)+[a-z][a-z0-9]{1,62}")
# The normalizer reads a whole URL: these would end the host, or are not of it.
_NOT_IN_NAMES: Final = re.compile(r"[\s/\\?#@:=%<>*]")
_MAX_NAME: Final = 253
_MIN_SLOTS: Final = 16
# What the hash of a name differs by where the name alone is excluded. An empty slot is 0, which
# is why every key is made another number.
_EXACTLY: Final = 0x5BD1_E995_9E37_79B9


class ExclusionRules:
    """The rules of one version of the file; *expected* is about how many there will be."""

    def __init__(self, *, expected: int = 0) -> None:
        self._count = 0
        self._slots = _empty(1 << max(_MIN_SLOTS, 2 * expected - 1).bit_length())
        self._has_exact = False
        self._has_networks = False
        # Prefix lengths in use, by IP version: an address is asked for once with each of them.
        self._lengths: dict[int, list[int]] = {4: [], 6: []}

    def __len__(self) -> int:
        """Return the number of different rules."""
        return self._count

    def add(self, line: bytes) -> None:
        """Take the rule of *line*, if there is one.

        Raises ValueError, with a sentence's end, for what is neither a rule nor a comment.
        """
        rule = line.partition(_COMMENT)[0].strip()
        if len(rule) <= _MAX_NAME and _NORMAL_NAME.fullmatch(rule):
            self._put(hash(rule.decode("ascii")) or 1)
            return
        # An editor may have put a byte order mark before the first line.
        try:
            text = rule.decode("utf-8-sig").strip()
        except UnicodeDecodeError:
            raise ValueError(f"{rule[:80]!r} is not UTF-8") from None
        if text:
            self._add_other(text)

    def excludes(self, host: str) -> bool:
        """Whether *host*, a name or an address in the form of `host_of`, is excluded."""
        if not self._count:
            return False
        if (
            self._has_networks
            and (":" in host or host[-1:].isdigit())
            and self._excludes_address(host)
        ):
            return True
        slots = self._slots
        mask = len(slots) - 1
        exactly = self._has_exact
        key = (hash(host) ^ _EXACTLY if exactly else hash(host)) or 1
        # `_slot_of` without its call: first for the name alone, then for it and all above it.
        while True:
            at = key & mask
            while taken := slots[at]:
                if taken == key:
                    return True
                at = at + 1 & mask
            if exactly:
                exactly = False
            else:
                dot = host.find(".") + 1
                if not dot:
                    return False
                host = host[dot:]
            key = hash(host) or 1

    def _excludes_address(self, host: str) -> bool:
        """Whether a network holds *host*, or the IPv4 address inside it, which is contacted."""
        plain = plain_address(host)
        return self._has_address(plain) or (plain != host and self._has_address(host))

    def _has_address(self, host: str) -> bool:
        try:
            packed = socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
        except OSError:
            return False  # a name that ends in a digit
        version = 4 if len(packed) == 4 else 6
        bits = 8 * len(packed)
        value = int.from_bytes(packed, "big")
        return any(
            self._has(_network_key(version, length, value >> bits - length))
            for length in self._lengths[version]
        )

    def _add_other(self, text: str) -> None:
        name = text.removeprefix("=").removesuffix(".")
        if name.startswith("[") and name.endswith("]"):
            name = name[1:-1]
        if "/" in name or ":" in name:
            self._add_network(name, text)
            return
        exact = text.startswith("=")
        if not exact:
            name = name.removeprefix("*").removeprefix(".")
        url = None if _NOT_IN_NAMES.search(name) or not name else normalize(f"http://{name}/")
        host = host_of(url) if url else ""
        if not all(host.split(".")) or len(host) > _MAX_NAME:
            raise ValueError(f"{text[:80]!r} is no host, address or network")
        if host[-1].isdigit() and _is_ipv4(host):
            self._add_network(host, text)
        elif exact:
            self._put((hash(host) ^ _EXACTLY) or 1)
            self._has_exact = True
        else:
            self._put(hash(host) or 1)

    def _add_network(self, name: str, text: str) -> None:
        try:
            network = ipaddress.ip_network(name, strict=False)
        except ValueError:
            raise ValueError(f"{text[:80]!r} is no host, address or network") from None
        length = network.prefixlen
        value = int(network.network_address)
        version = network.version
        if version == 6 and length >= 96 and network.network_address.packed[:12] == _MAPPED:
            version, length, value = 4, length - 96, value & 0xFFFFFFFF
        bits = 32 if version == 4 else 128
        self._put(_network_key(version, length, value >> bits - length))
        if length not in self._lengths[version]:
            self._lengths[version].append(length)
        self._has_networks = True

    def _put(self, key: int) -> None:
        if 2 * self._count >= len(self._slots):
            older, self._slots = self._slots, _empty(2 * len(self._slots))
            for other in older:
                if other:
                    self._slots[self._slot_of(other)] = other
        at = self._slot_of(key)
        if not self._slots[at]:
            self._slots[at] = key
            self._count += 1

    def _has(self, key: int) -> bool:
        return bool(self._slots[self._slot_of(key)])

    def _slot_of(self, key: int) -> int:
        """Return where *key* is, or would be; there is always an empty slot."""
        slots = self._slots
        mask = len(slots) - 1
        at = key & mask
        while (taken := slots[at]) and taken != key:
            at = at + 1 & mask
        return at


# ::ffff:0:0/96, IPv4 addresses in the form of IPv6 ones.
_MAPPED: Final = bytes(10) + b"\xff\xff"


def _empty(slots: int) -> array[int]:
    return array("q", [0]) * slots


def _network_key(version: int, length: int, prefix: int) -> int:
    return hash(f"{version}/{length}/{prefix:x}") or 1  # no name has a slash


def _is_ipv4(host: str) -> bool:
    try:
        socket.inet_pton(socket.AF_INET, host)
    except OSError:
        return False
    return True
