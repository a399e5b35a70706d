"""Link counts: how many links lead from each host to each other one, or from page to page.

Memory: about 250 bytes a name and 50 a pair, whatever the number of links.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from webcrawl.errors import FatalError
from webcrawl.pipelines.link_graph import DIRECTORY, EDGES
from webcrawl.pipelines.parquet import read_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    import pyarrow as pa

    Ids = np.ndarray[tuple[int], np.dtype[np.int64]]

#: Hosts, or pages, that are ranked at most: 2 GB.
MAX_NAMES: Final = 1 << 23
# Pairs that are collected before those that are there several times become one.
_COLLECTED: Final = 1 << 22


class LinkCounts(NamedTuple):
    """Pairs of *sources* and *targets*, indexes into *names*; sorted, each pair once.

    *links* are its links, *followed* those of them without ``nofollow``.
    """

    names: list[str]
    sources: Ids
    targets: Ids
    links: Ids
    followed: Ids


def edge_directories(jobdir: Path) -> list[Path]:
    """Where the edges of a crawl in *jobdir* are, or those of each drone of a hive; FatalError if
    there are none."""
    places = (f"{DIRECTORY}/{EDGES}", f"drones/*/{DIRECTORY}/{EDGES}")
    found = [path for place in places for path in sorted(jobdir.glob(place))]
    if not found:
        raise FatalError(
            f"There is no link graph in {jobdir}: crawl with "
            "webcrawl.pipelines.link_graph.LinkGraph in ITEM_PIPELINES."
        )
    return found


def count_links(
    directories: Iterable[Path],
    *,
    name_of: Callable[[str], str],
    on_progress: Callable[[int], object],
    most: int = MAX_NAMES,
) -> LinkCounts:
    """The links in *directories*, counted by what *name_of* makes of their URLs. *on_progress* is
    called with numbers of links. FatalError if there are more names than *most*."""
    ids: dict[str, int] = {}

    def id_of(url: str) -> int:
        return ids.setdefault(name_of(url), len(ids))

    pairs = _Pairs()
    for directory in directories:
        for batch in read_batches(directory, ["source", "target", "nofollow"]):
            sources, targets = (_ids(batch[name], id_of) for name in ("source", "target"))
            followed = ~batch["nofollow"].to_numpy(zero_copy_only=False)
            pairs.add(sources << 32 | targets, followed.astype(np.int64))
            if len(ids) > most:
                raise FatalError(
                    f"The link graph has more than {most:,} names, too many to rank at once."
                )
            on_progress(len(sources))
    keys, links, followed = pairs.counted()
    return LinkCounts([*ids], keys >> 32, keys & 0xFFFF_FFFF, links, followed)


def _ids(urls: pa.Array, id_of: Callable[[str], int]) -> Ids:
    """The ID of each of *urls*, each different one looked up once."""
    coded = urls.dictionary_encode()
    different = np.fromiter(map(id_of, coded.dictionary.to_pylist()), np.int64)
    indexes: Ids = coded.indices.to_numpy(zero_copy_only=False)
    return different[indexes]


class _Pairs:
    """Counts by key, in sorted arrays; what is added is counted into them now and then."""

    def __init__(self) -> None:
        empty = np.empty(0, np.int64)
        self._sums: tuple[Ids, Ids, Ids] = (empty, empty, empty)
        self._added: list[tuple[Ids, Ids, Ids]] = []
        self._size = 0

    def add(self, keys: Ids, followed: Ids) -> None:
        sums = _counted(keys, np.ones(len(keys), np.int64), followed)
        self._added.append(sums)
        self._size += len(sums[0])
        if self._size > max(_COLLECTED, len(self._sums[0])):
            self.counted()

    def counted(self) -> tuple[Ids, Ids, Ids]:
        """The keys, and the numbers and the followed ones of each."""
        columns = zip(self._sums, *self._added, strict=True)
        keys, links, followed = (np.concatenate(column) for column in columns)
        self._added, self._size = [], 0
        self._sums = _counted(keys, links, followed)
        return self._sums


def _counted(keys: Ids, links: Ids, followed: Ids) -> tuple[Ids, Ids, Ids]:
    different, at = np.unique(keys, return_inverse=True)
    sums = [np.bincount(at, one, len(different)).astype(np.int64) for one in (links, followed)]
    return different, sums[0], sums[1]
