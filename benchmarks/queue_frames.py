"""What the compression of the queues and of the URL log saves, by the links of real pages.

    python benchmarks/queue_frames.py article-extraction.tar

The pages come in an order drawn by lot; of each the links that were not met before are entries.
The URL log has a record of them for each page. Front-end queues have them by page, or mixed where
levels are; back-end queues by host.
"""

from __future__ import annotations

import argparse
import gzip
import random
import re
import statistics
import sys
import tarfile
import time
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from urllib.parse import urljoin, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from webcrawl.frontier import front_end, overflow
from webcrawl.frontier.entry import Entry, encode
from webcrawl.seen import url_log
from webcrawl.storage import fifo
from webcrawl.storage.record_log import compress, decompress, pack_many, unpack_many

_BASE = re.compile(rb'rel="canonical" href="(https?://[^"]+)"')
_HREF = re.compile(rb'<a [^>]*href="([^"#]+)')
_ROUNDS = 5


def entries_of(path: str) -> list[Entry]:
    """The entries of all pages in the tar file at *path*."""
    seen: set[str] = set()
    found: list[Entry] = []
    with tarfile.open(path) as tar:
        pages = [m for m in tar.getmembers() if m.name.endswith(".html.gz")]
        random.Random(1).shuffle(pages)
        for member in pages:
            stored = tar.extractfile(member)
            assert stored is not None
            body = gzip.decompress(stored.read())
            if base := _BASE.search(body):
                page = base[1].decode("utf-8", "replace")
                for link in _HREF.findall(body):
                    url = urljoin(page, link.decode("utf-8", "replace"))
                    if url.startswith("http") and url not in seen:
                        seen.add(url)
                        found.append(
                            Entry(url, urlsplit(url).netloc, 3, via=page, discovered_at=1.8e9)
                        )
    return found


def in_frames(entries: list[Entry], chunk: int) -> list[list[Entry]]:
    """*entries*, *chunk* in each frame."""
    return [entries[at : at + chunk] for at in range(0, len(entries), chunk)]


def main() -> None:
    """Print bytes an entry, and µs to pack and compress one, and to read it again."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tar")
    found = entries_of(parser.parse_args().tar)
    mixed = random.Random(2).sample(found, len(found))
    by_host = sorted(found, key=lambda entry: entry.host)
    orders = {
        "URL log": ([[*page] for _, page in groupby(found, attrgetter("via"))], url_log._LEVEL),
        "front end, by page": (in_frames(found, front_end.CHUNK), fifo._LEVEL),
        "front end, mixed": (in_frames(mixed, front_end.CHUNK), fifo._LEVEL),
        "back end, by host": (in_frames(by_host, overflow.CHUNK), fifo._LEVEL),
    }
    print(f"{len(found):,} entries")
    for name, (batches, level) in orders.items():
        frames = [[encode(entry) for entry in batch] for batch in batches]
        spent = []
        for _ in range(_ROUNDS):
            began = time.process_time()
            packed = [compress(pack_many(items), level) for items in frames]
            middle = time.process_time()
            assert [unpack_many(decompress(frame)) for frame in packed] == frames
            spent.append((middle - began, time.process_time() - middle))
        plain = sum(map(len, map(pack_many, frames))) / len(found)
        micros = [statistics.median(one) * 1e6 / len(found) for one in zip(*spent, strict=True)]
        print(
            f"{name:20} {plain:.0f} -> {sum(map(len, packed)) / len(found):.0f} bytes an entry, "
            f"{micros[0]:.2f} + {micros[1]:.2f} µs"
        )


if __name__ == "__main__":
    main()
