"""False alarms of the rules of walls, on pages of which none is a wall.

    python benchmarks/wall_alarms.py ARTICLES.tar DIRECTORY...

ARTICLES.tar is that of github.com/scrapinghub/article-extraction-benchmark, a DIRECTORY one of HTML
files, as Debian's documentation packages are once unpacked. Each page is judged as a crawl judges
an answer, decoded and whole: once with the bounds of a crawl, once with none on the length of
pages. Each directory is one host, so that all of its pages may be alike; articles are of the hosts
that they were of, and once more of one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tarfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.http import HtmlResponse

sys.path.extend(map(str, Path(__file__).resolve().parents[1].glob("tests/rigs/*/")))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from host_rig import Records

from webcrawl.hosts.politeness import walls as of_hosts
from webcrawl.net import walls as rules
from webcrawl.urls import host_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    Page = tuple[str, bytes]


def articles(file: Path) -> Iterator[Page]:
    with tarfile.open(file) as tar:
        members = {Path(one.name).name: one for one in tar.getmembers()}
        urls = json.loads(read(tar, members["ground-truth.json"]))
        for name, member in sorted(members.items()):
            if name.endswith(".html.gz"):
                body = gzip.decompress(read(tar, member))
                yield urls[name.removesuffix(".html.gz")]["url"], body


def read(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    assert file is not None
    return file.read()


def files(directory: Path) -> Iterator[Page]:
    for file in sorted(directory.rglob("*.html*")):
        if file.is_file() and file.suffix in (".html", ".gz"):
            body = file.read_bytes()
            path = str(file.relative_to(directory)).removesuffix(".gz")
            yield (
                f"http://docs.test/{path}",
                gzip.decompress(body) if file.suffix == ".gz" else body,
            )


def on_one_host(pages: Iterator[Page]) -> Iterator[Page]:
    for url, body in pages:
        yield f"http://articles.test/{url.partition('://')[2]}", body


def judge(name: str, pages: Iterator[Page], *, limit: int) -> None:
    """Print a line on *pages*, with bodies of at most *limit* bytes looked at."""
    for module in (rules, of_hosts):
        vars(module)["MAX_BODY"] = limit
    found: Counter[str] = Counter()
    records = Records()
    walls = of_hosts.Walls(records=records, count=lambda stat: found.update([stat]))
    number = looked_at = 0
    secs = 0.0
    for url, body in pages:
        response = HtmlResponse(url, body=body, headers={"Content-Type": "text/html"})
        began = time.process_time()
        outcome = walls.judge(url, response)
        secs += time.process_time() - began
        number += 1
        looked_at += len(body) <= limit
        if not outcome:
            record = records.get(host_of(url))
            record.pages += 1
            records.put(record)
        else:
            found[outcome] += 1
            print(f"  {outcome}: {url}")
    of_each = 1e6 * secs / max(number, 1)
    print(f"{name}: {number:,} pages, {looked_at:,} looked at, {of_each:.0f} us each;", dict(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("articles", type=Path)
    parser.add_argument("directories", type=Path, nargs="+")
    args = parser.parse_args()
    for limit in (rules.MAX_BODY, sys.maxsize):
        judge("articles", articles(args.articles), limit=limit)
        judge("articles, one host", on_one_host(articles(args.articles)), limit=limit)
        for directory in args.directories:
            judge(directory.name, files(directory), limit=limit)


if __name__ == "__main__":
    main()
