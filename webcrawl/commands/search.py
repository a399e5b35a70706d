"""Search the pages of a crawl for words.

Uses the index that the module SearchIndex builds. It works while the crawl runs, on the pages up to
its last checkpoint. A page must contain all words, perhaps in other forms. You can also write "a
phrase", OR, -word, title:word and prefix*; '*' finds every page. These restrict the pages:
site:example.org lang:en type:html after:2026-11-30

With --rank, adds the links between the pages to the index, from the link graph of the module
LinkGraph: a page is then also found by the texts of links to it, and is ranked by them. Run it when
the crawl has ended, and again after each crawl that continues it.

Examples:
  scrapy search crawls/web --rank
  scrapy search crawls/web solar panels
  scrapy search crawls/web '"solar power" -title:shop lang:en'

Exit codes:
  0  pages were found, or links were added
  1  nothing was found
  2  unusable input
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from webcrawl.commands import (
    AddOption,
    Options,
    Settings,
    UsageError,
    make_command,
    print_answer,
    print_bytes,
    progress,
    refuse_options,
    take_job,
)
from webcrawl.wording import counted, escape_controls

_SPACE = re.compile(r"\s")

if TYPE_CHECKING:
    from webcrawl.jobs.search import SearchHit, SearchResult


def _options(add: AddOption) -> None:
    """Add the options of ``scrapy search``."""
    from webcrawl.jobs.arguments import whole
    from webcrawl.jobs.search import MAX_HITS

    add(
        "--limit",
        type=whole(1, MAX_HITS),
        default=10,
        metavar="N",
        help="print at most N pages (default: 10)",
    )
    add(
        "--offset",
        type=whole(0, MAX_HITS),
        default=0,
        metavar="N",
        help="skip the N best pages (default: 0)",
    )
    add("--jsonl", action="store_true", help="print each page as one line of JSON")
    add("--explain", action="store_true", help="also print how each page got its score")
    add("--rank", action="store_true", help="add the links between the pages to the index")


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Print the stored pages that have the words in *args*; return the exit code."""
    import msgspec

    from webcrawl.jobs.search import indexes_of, search_all

    # An index is in a job, or in a directory that replay has written, which is not a job.
    if args and os.path.isdir(f"{args[0]}/search"):  # noqa: PTH112  # a path raises for a long name
        settings.set("JOBDIR", args.pop(0), priority="cmdline")
        if args[:1] == ["--"]:
            del args[0]
    else:
        args = take_job(args, settings)
    if opts.rank:
        return _rank(args, settings)
    if not args:
        raise UsageError("give the words to search for")
    if opts.jsonl:
        refuse_options(opts, "--jsonl", ("json",))
    result = search_all(
        indexes_of(settings),
        " ".join(args),
        limit=opts.limit,
        offset=opts.offset,
        explain=opts.explain,
    )
    for problem in result.not_searched:
        print(f"search: not searched: {escape_controls(problem)}", file=sys.stderr)
    if opts.jsonl:
        print_bytes(msgspec.json.Encoder().encode_lines(result.hits))
        return 0 if result.total else 1
    marks = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() else ("", "")
    print_answer(result, _text(result, marks), as_json=opts.json, is_visible=True)
    return 0 if result.total else 1


def _rank(words: list[str], settings: Settings) -> int:
    """Add the links of the crawl in *settings* to its search indexes; return the exit code."""
    from webcrawl.errors import FatalError, require_package
    from webcrawl.jobs.search import indexes_of

    if words:
        raise UsageError("--rank takes no words")
    for package in ("pyarrow", "duckdb"):
        require_package(package, feature="--rank")
    import duckdb

    from webcrawl.pipelines.link_database import edge_directories
    from webcrawl.pipelines.link_graph import DIRECTORY
    from webcrawl.pipelines.search_ranks import add_links
    from webcrawl.storage.record_log import CorruptRecordError

    jobdir = Path(settings["JOBDIR"])
    try:
        with progress("links") as on_progress:
            replaced = add_links(
                indexes_of(settings),
                edge_directories(jobdir),
                work_parent=jobdir / DIRECTORY,
                on_progress=on_progress,
            )
    except FatalError:  # it is a ValueError, too
        raise
    except (OSError, ValueError, duckdb.Error, CorruptRecordError) as error:
        reason = str(error).partition("\n")[0]
        raise FatalError(f"The links cannot be added to the search index: {reason}.") from error
    print(f"links were added to {counted(replaced, 'page')}")
    return 0


def _text(result: SearchResult, marks: tuple[str, str]) -> str:
    """Return *result* as text; *marks* are put before and after each found word."""
    total = f"{counted(result.total, 'page')} found"
    return "\n\n".join([*(_lines(hit, marks) for hit in result.hits), total]) + "\n"


def _lines(hit: SearchHit, marks: tuple[str, str]) -> str:
    """Return title, URL and snippet of *hit*, with *marks* around the found words."""
    start_mark, end_mark = marks
    snippet = "".join(
        start_mark + _line(text) + end_mark if is_found else _line(text)
        for text, is_found in hit.parts()
    )
    title = f"{start_mark}{_line(hit.title)}{end_mark}\n" if hit.title else ""
    explanation = ""
    if hit.explanation:
        parts = " + ".join(f"{value:g} {name}" for name, value in hit.explanation.items())
        explanation = f"\n{hit.score:g} = {hit.weight:g} * ({parts})"
    return f"{title}{_line(hit.url)}\n{snippet}{explanation}"


def _line(text: str) -> str:
    """Return *text* on a single line, with control characters escaped."""
    return escape_controls(_SPACE.sub(" ", text))


Command = make_command(_run, _options, syntax="[options] [JOBDIR] WORDS", json=True)
