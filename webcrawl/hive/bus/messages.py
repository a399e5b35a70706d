"""Messages between shards: links, linked hosts, Requests, the end of the seeds, subresources.

splitter.py makes messages for the outbox of the sending shard; inbox.py reads them for the target.
A message contains what the target needs to know about a link: its URL, how and where it was found,
and its fingerprint. The target derives the host from the URL, and does not need the link's text and
relation. Any later version can ``decode`` what ``encode_…`` returns. So fields are only added at
the end, with a default, and a message with another meaning gets a new kind.

The field *extra* of an entry is a Request (``RequestCodec``). A hive refuses it unless it is plain
data. So users who can write to Redis can steer the crawl, but cannot run code in it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, TypeAlias

import msgspec

from webcrawl.configuration.decoding import Count, Epoch, UndecodableError, msgpack_decoder
from webcrawl.crawl.links.link_intake import LinkBatch, LinkSource, SeedFacts
from webcrawl.frontier.entry import Entry  # msgspec reads it
from webcrawl.urls import Link, host_of

# message := msgpack array [kind, field, ...]
#   kind 1: links; fps are their fingerprints, u64 little-endian. If the list of kinds is empty, all
#           links are of kind "a"; if the list of times is empty, no link has one. Only seeds have
#           ranks (one for each link) and sites (the hosts of ``SeedFacts``).
#   kind 2: an entry, and the fingerprint it is submitted under, or nil if it is requeued
#   kind 3: all seeds were sent
#   kind 4: a domain, and hosts that it links to by URLs that the target already has
#   kind 5: the same as kind 4, for several domains
#   kind 6: a URL of the target, and the content for its renderer (render/remote.py) or, if that is
#           large, the name of an object in HIVE_STORE that has it
_USUAL_KIND = "a"
_HOP_BYTES = 16

#: The largest allowed message. The links of a document, whose size is limited, take far less.
MAX_BYTES = 1 << 26

_Name: TypeAlias = Annotated[int, msgspec.Meta(gt=0)]
_Host: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
_Hosts: TypeAlias = Annotated[list[_Host], msgspec.Meta(min_length=1)]


class _Message(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Base of all messages."""


class _Links(_Message, frozen=True, tag=1):
    """Message with links of one document, or with seeds."""

    urls: list[str]
    kinds: list[str]
    fps: bytes
    source: str
    depth: Count
    rank: Count
    unused: Count
    unused_too: Count
    chain: bytes
    at: Epoch
    ranks: list[Count] | None = None
    sites: list[str] = []
    score: Annotated[int, msgspec.Meta(ge=-1, le=100)] = 0
    modified: list[Epoch] = []


class EntryMessage(_Message, frozen=True, tag=2):
    """Message with an *entry*, to be submitted under the fingerprint *name*.

    If *name* is None, the entry is requeued.
    """

    entry: Entry
    name: _Name | None = None


class SeedsSent(_Message, frozen=True, tag=3):
    """Message that all seeds were sent; all later links were found on pages."""


class _Linked(_Message, frozen=True, tag=4):
    """Earlier format of ``LinkedHosts``, with a single domain (before 2026-11-27)."""

    domain: _Host
    hosts: _Hosts


class LinkedHosts(_Message, frozen=True, tag=5):
    """Message with the hosts that domains link to, by URLs that the target already has.

    *hosts* is keyed by linking domain. The reputation of a domain counts which others link to it.
    """

    hosts: dict[_Host, _Hosts]


class SubresourceMessage(_Message, frozen=True, tag=6):
    """Message with *content* for the renderer of the process that holds the shard of *url*.

    If *is_stored*, it is the name of an object in HIVE_STORE that has the content.
    """

    url: str
    content: bytes
    is_stored: bool = False


Message: TypeAlias = LinkBatch | LinkedHosts | EntryMessage | SeedsSent | SubresourceMessage


#: Encodes a message; links and linked hosts have functions of their own.
encode = msgspec.msgpack.Encoder().encode
_decode = msgpack_decoder(
    _Links | _Linked | LinkedHosts | EntryMessage | SeedsSent | SubresourceMessage  # type: ignore[arg-type]  # a union
)


def encode_links(batch: LinkBatch, indexes: Sequence[int] | None = None) -> bytes:
    """Encode *batch*, or only its links at *indexes*. Takes 1 us, plus 0.1 us for each link."""
    links = batch.links
    fingerprints = batch.fingerprints
    source = batch.source
    seeds = batch.seeds
    if indexes is not None:
        links = [links[i] for i in indexes]
        fingerprints = [fingerprints[i] for i in indexes]
    kinds = [link.kind for link in links]
    times = [link.modified for link in links]
    return encode(
        _Links(
            [link.url for link in links],
            kinds if kinds.count(_USUAL_KIND) < len(kinds) else [],
            array("Q", fingerprints).tobytes(),
            source.url,
            source.depth,
            source.rank,
            0,  # unused
            0,  # unused, too
            source.chain,
            source.at,
            None if seeds is None else [*seeds.ranks],
            [] if seeds is None else [*seeds.hosts],
            source.score,
            times if any(times) else [],
        )
    )


def encode_hosts(linked: Mapping[str, Iterable[str]]) -> bytes:
    """Encode *linked*, the hosts that domains link to, by domain."""
    return encode(LinkedHosts({domain: [*hosts] for domain, hosts in linked.items()}))


def decode(data: bytes) -> Message:
    """Decode a message. Raises UndecodableError, also for one of a later version."""
    if len(data) > MAX_BYTES:
        raise UndecodableError(f"a message of {len(data)} bytes; at most {MAX_BYTES} are allowed")
    message: Message | _Links | _Linked = _decode(data)
    if isinstance(message, _Links):
        return _batch_of(message)
    if isinstance(message, _Linked):
        return LinkedHosts({message.domain: message.hosts})
    if isinstance(message, EntryMessage):
        entry = message.entry
        if not (host_of(entry.url) and entry.host):
            raise UndecodableError("an entry without a host")
    return message


def _batch_of(message: _Links) -> LinkBatch:
    """Return the links in *message*. Raises UndecodableError if its fields do not fit together."""
    urls = message.urls
    kinds = message.kinds
    # An empty list of kinds or times stands for usual ones, but a list must not be too short.
    count = len(urls)
    is_incomplete = any(values and len(values) != count for values in (kinds, message.modified))
    if len(message.fps) != 8 * count or is_incomplete:
        raise UndecodableError("links without their fingerprints, kinds or times")
    if len(message.chain) % _HOP_BYTES:
        raise UndecodableError("a redirect chain of the wrong length")
    fingerprints = array("Q", message.fps)
    hosts = [host_of(url) for url in urls]
    if 0 in fingerprints or "" in hosts:
        raise UndecodableError("a link without a host, or without a fingerprint")

    seeds = None
    if message.ranks is not None:
        if len(message.ranks) != count:
            raise UndecodableError("seeds without their ranks")
        seeds = SeedFacts(message.ranks, message.sites)

    # The lists may be empty; then the links keep the usual kind, or no time.
    links = [Link(url) for url in urls]
    for link, kind in zip(links, kinds, strict=False):
        link.kind = kind
    for link, modified in zip(links, message.modified, strict=False):
        link.modified = modified
    return LinkBatch(
        links,
        hosts,
        fingerprints,
        LinkSource(
            message.source,
            message.depth,
            message.rank,
            message.chain,
            message.at,
            message.score,
        ),
        seeds,
    )
