"""Removes pages from the files of a job other than WARC: datasets, link graph, index and logs.

Each function calls *begin* with the file and the number of items that go before anything is
changed; if that returns False, nothing is changed. A file without such items is left alone. A
changed file is replaced as a whole, so it is valid at every moment.
"""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, cast

import msgspec

from webcrawl.configuration.decoding import UndecodableError, json_decoder
from webcrawl.crawl.lease.outcome_log import PURGED, OutcomeLine
from webcrawl.errors import require_package
from webcrawl.jobs.purge.warc_files import ASIDE
from webcrawl.storage.atomic import replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import BinaryIO

    import tantivy

    from webcrawl.hosts.politeness.exclusions import ExclusionRules
    from webcrawl.jobs.purge.warc_files import Begin

    # Returns what replaces a line.
    Edit = Callable[[bytes, ExclusionRules], bytes]

_FEATURE = "The removal of pages from these files"
_HEAP_BYTES = 32 << 20
_DOCUMENTS_AT_ONCE = 10_000


class _Line(msgspec.Struct):
    """A line of JSON about a URL."""

    url: str


_decode_line = json_decoder(_Line)
_decode_outcome = json_decoder(OutcomeLine)


def without_line(line: bytes, rules: ExclusionRules) -> bytes:
    """Return b"" if *rules* cover the URL in *line*, a JSON object or a URL; else the line."""
    try:
        url = _decode_line(line).url
    except UndecodableError:
        url = line.decode("utf-8", "replace").strip()
    return b"" if rules.covers(url) else line


def without_facts(line: bytes, rules: ExclusionRules) -> bytes:
    """Return *line* of the log of finished URLs without facts about a page that *rules* cover.

    URL, time and fingerprint of the URL stay. The line keeps its length, so that the positions in
    the tokens of deltas stay valid.
    """
    try:
        old = _decode_outcome(line)
    except UndecodableError:
        return line
    if old.outcome == PURGED or not rules.covers(old.url):
        return line
    new = OutcomeLine(old.at, old.url, old.host, PURGED, old.form, visit=old.visit)
    return msgspec.json.encode(new).ljust(len(line) - 1) + b"\n"


def purge_lines(path: Path, rules: ExclusionRules, begin: Begin, *, edit: Edit) -> None:
    """Replace the lines of *path*, which may be compressed, by the results of *edit*."""

    def opened(file: Path, mode: str) -> BinaryIO:
        return cast("BinaryIO", (gzip.open if path.suffix == ".gz" else open)(file, mode))

    with opened(path, "rb") as old:
        count = sum(edit(line, rules) != line for line in old)
    if count and begin(path, count):
        with (
            replacing(path, aside=ASIDE) as new,
            opened(path, "rb") as old,
            opened(new, "wb") as file,
        ):
            file.writelines(edit(line, rules) for line in old)


def purge_parquet(path: Path, rules: ExclusionRules, begin: Begin, *, column: str) -> None:
    """Remove the rows of the Parquet file *path* with a URL in *column* that *rules* cover.

    Needs pyarrow.
    """
    require_package("pyarrow", feature=_FEATURE)
    import pyarrow.parquet as pq  # noqa: PLC0415  # installed by `make modules`

    with pq.ParquetFile(path) as old:
        groups = range(old.num_row_groups)

        def kept(group: int) -> list[bool]:
            urls = old.read_row_group(group, [column])[column]
            return [not rules.covers(url.as_py()) for url in urls]

        count = sum(kept(group).count(False) for group in groups)
        if count and begin(path, count):
            with (
                replacing(path, aside=ASIDE) as new,
                pq.ParquetWriter(new, old.schema_arrow, compression="zstd") as writer,
            ):
                for group in groups:
                    writer.write_table(old.read_row_group(group).filter(kept(group)))


def purge_index(meta: Path, rules: ExclusionRules, begin: Begin) -> None:
    """Build the search index with the file *meta* again, without the pages that *rules* cover.

    Deleted pages would stay in Tantivy's files until these are merged. Needs Tantivy, whose commit
    replaces all files at once.
    """
    require_package("tantivy", feature=_FEATURE)
    import tantivy  # noqa: PLC0415  # installed by `make modules`

    index = tantivy.Index.open(str(meta.parent))
    count = sum(rules.covers(document["url"][0]) for document in _documents(index))
    if count and begin(meta, count):
        writer = index.writer(_HEAP_BYTES, 1)
        documents = _documents(index)
        writer.delete_all_documents()
        for document in documents:
            if not rules.covers(document["url"][0]):
                writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()


def _documents(index: tantivy.Index) -> Iterator[tantivy.Document]:
    """Yield all documents in *index*."""
    import tantivy  # noqa: PLC0415  # installed by `make modules`

    searcher, query = index.searcher(), tantivy.Query.all_query()
    for offset in range(0, searcher.num_docs, _DOCUMENTS_AT_ONCE):
        for _, address in searcher.search(query, _DOCUMENTS_AT_ONCE, offset=offset).hits:
            yield searcher.doc(address)
