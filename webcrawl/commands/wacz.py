"""Package the stored pages of a crawl for replay tools (pywb, ReplayWeb.page).

Makes of WARC files a WACZ, which has them, their index and a list of pages with titles, or a CDXJ
index alone: the ending of FILE says which. JOBDIR stands for its finished WARC files, those of all
drones if it is of a hive. A command that was stopped goes on when it is run again. Exit code: 0
done, 2 unusable input, also a damaged WARC file, of which nearly all before the damage is there.
"""

from __future__ import annotations

import sys
from itertools import chain
from pathlib import Path

from webcrawl.commands import (
    Group,
    Options,
    Settings,
    UsageError,
    offline,
    progress_of,
    sources_or_job,
)
from webcrawl.wording import counted


def _options(group: Group) -> None:
    group.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="what to make: FILE.wacz or FILE.cdxj"
    )


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    from webcrawl.clock import wall_time
    from webcrawl.errors import FatalError, needs
    from webcrawl.wording import visible

    output: Path | None = opts.output
    if output is None or output.suffix not in {".cdxj", ".wacz"}:
        raise UsageError("say: scrapy wacz [JOBDIR|WARC...] -o FILE.wacz")
    needs("surt", of="An index of WARC files")
    from webcrawl.jobs.wacz.result import bytes_of, make, warc_files
    from webcrawl.storage.object_store import moved

    paths = [*map(Path, sources_or_job(args, settings))]
    directories = [(path, path / "warc", *path.glob("drones/*/warc")) for path in paths]
    for sentence in moved(chain.from_iterable(directories)):
        sys.stderr.write(f"wacz: {sentence}\n")
    warcs = warc_files(paths)
    with progress_of(bytes_of(warcs, output)) as on_progress:
        try:
            made = make(warcs, output, at=wall_time(), on_progress=on_progress)
        except OSError as error:
            raise FatalError(
                f"{output} could not be made ({error}): mend that and run the same command again; "
                "what was read is kept."
            ) from error
    for sentence in made.damage:
        sys.stderr.write(f"wacz: {visible(sentence)}\n")
    size = output.stat().st_size
    documents, files = counted(made.captures, "document"), counted(len(warcs), "WARC file")
    print(f"{output}: {documents} of {files}, {size:,} bytes")
    return 2 if made.damage else 0


Command = offline(_run, syntax="[options] [JOBDIR|WARC ...] -o FILE", options=_options)
