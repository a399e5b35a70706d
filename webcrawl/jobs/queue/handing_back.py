"""End of an offline crawl: what it hands back, and the sentence that says how to go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.jobs.inspect.job_view import ask
from webcrawl.jobs.inspect.seeds_file import export

if TYPE_CHECKING:
    from pathlib import Path

    from webcrawl.crawl.seeds.segments import SegmentQueue


def hand_back(jobdir: Path, queue: SegmentQueue, *, has_remainder: bool) -> str:
    """The sentence for the end of the crawl in *jobdir*; its remainder, if it has one, is written
    for the next segment. FatalError if that cannot be."""
    said = f"The segments in {queue.directory} are fetched."
    if has_remainder:
        path = queue.remainder(jobdir)
        urls = ask(jobdir, lambda view: export(view, path, on_progress=lambda _: None)).urls
        if urls:
            said = f"Few hosts are left: {urls:,} URLs were handed back to {path}."
        else:
            path.unlink()
    return (
        f"{said} Build the next segment and run the same command again: "
        f"scrapy queue-build --queue {queue.directory} {jobdir}/warc/*.warc.gz"
    )
