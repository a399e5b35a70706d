"""Write the skeleton of a processing module of your own, with its tests.

Makes webcrawl/pipelines/NAME.py, a module that counts the words of titles, and
tests/pipelines/test_NAME.py, whose tests pass: change both. NAME is a name of Python in lower case,
such as word_count. No file is overwritten. Exit code: 0 done, 2 unusable input.
"""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scrapy.exceptions import UsageError

from webcrawl.commands import offline
from webcrawl.errors import FatalError

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import Settings

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,60}")
# What the skeleton means by these names.
_USED: Final = {"Counter", "ProcessingModule", "Page"}

_MODULE: Final = '''"""@Name@: counts the words of titles.  (Say here what your module does.)"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from webcrawl.pipelines.module import ProcessingModule

if TYPE_CHECKING:
    from webcrawl.items import Page

# A crawl of a billion pages must not fill the memory.
_MOST_WORDS = 100_000


class @Name@(ProcessingModule):
    """Processing module: counts words in memory, writes JOBDIR/@name@.json at the end."""

    content_types = ("text/html", "application/xhtml+xml")
    # Everything here but state() runs in a thread of its own: a large page takes long to parse.
    off_loop = True

    def __init__(self) -> None:
        self.words: Counter[str] = Counter()

    def process(self, page: Page) -> None:
        """Count the words of the title of *page*."""
        title = page.css("title::text").get(default="")
        for word in title.lower().split():
            if word in self.words or len(self.words) < _MOST_WORDS:
                self.words[word] += 1
        self.stats.set("words", len(self.words))

    def state(self) -> bytes:
        """Saved with each checkpoint of the crawl."""
        return json.dumps(self.words).encode()

    def restore(self, saved: bytes) -> None:
        """Go on with the counts of the run before."""
        self.words = Counter(json.loads(saved))

    def close(self) -> None:
        """Write the counts."""
        if self.jobdir is not None:
            path = self.jobdir / "@name@.json"
            path.write_text(json.dumps(self.words, indent=1), encoding="utf-8")
'''

_TEST: Final = '''"""The processing module @Name@."""

from __future__ import annotations

import json

from contracts.modules import ModuleContract, a_page, run_module

from webcrawl.pipelines.@name@ import @Name@


class Test@Name@(ModuleContract):
    """What every module must do, such as to bear hostile documents."""

    module = @Name@


def test_words_are_counted(tmp_path):
    pages = [
        a_page("<title>One fish, two fish</title>"),
        a_page("<title>red fish</title>", url="http://b.test/"),
        a_page("<title>an image</title>", content_type="image/svg+xml"),
    ]
    run = run_module(@Name@, pages, tmp_path)
    assert run.stats["pages"] == 2
    assert json.loads((tmp_path / "@name@.json").read_text())["fish"] == 2
'''


def _options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--root", default=".", metavar="DIR", help="the project's directory (default: this one)"
    )


def _run(args: list[str], opts: argparse.Namespace, settings: Settings) -> int:  # noqa: ARG001  # of all commands
    if len(args) != 1:
        raise UsageError("name the module, for example word_count")
    name = args[0]
    title = "".join(word.capitalize() for word in name.split("_"))
    is_taken = keyword.iskeyword(title) or title in _USED
    if _NAME.fullmatch(name) is None or keyword.iskeyword(name) or is_taken:
        raise UsageError(
            "NAME must be a name of Python in lower case, such as word_count, free for a class, "
            f"not {name}"
        )
    root = Path(opts.root)
    texts = {
        root / "webcrawl" / "pipelines" / f"{name}.py": _MODULE,
        root / "tests" / "pipelines" / f"test_{name}.py": _TEST,
    }
    for path in texts:
        if not path.parent.is_dir():
            raise FatalError(f"there is no {path.parent}: run it in the project.")
        taken = next((one for one in (path, path.with_suffix("")) if one.exists()), None)
        if taken is not None:
            names = {one.stem for one in path.parent.glob("[a-z]*")}
            raise FatalError(
                f"{taken} is there already: choose another name than {', '.join(sorted(names))}."
            )
    for path, text in texts.items():
        path.write_text(text.replace("@Name@", title).replace("@name@", name), encoding="utf-8")
        print(f"wrote {path}")
    _, test = texts
    print(
        f"run its tests:  make .venv/.test && .venv/bin/pytest {test}\n"
        f"use it:         -s 'ITEM_PIPELINES={{\"webcrawl.pipelines.{name}.{title}\": 200}}'"
        f", or a line in webcrawl/settings.py"
    )
    return 0


Command = offline(_run, syntax="[options] NAME", options=_options)
