"""Create a new processing module with its tests, for you to change.

Writes webcrawl/pipelines/NAME.py, a working module that counts the words of titles, and
tests/pipelines/test_NAME.py, whose tests pass. NAME is a Python name in lower case, such as
word_count. Existing files are not overwritten.

Examples:
  scrapy genpipeline word_count
  scrapy genpipeline prices --root ../webcrawl

Exit codes:
  0  both files were written
  2  unusable input
"""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from string import Template

from scrapy.utils.template import string_camelcase

from webcrawl.commands import Group, Options, Settings, UsageError, make_command
from webcrawl.errors import FatalError

_NAME = re.compile(r"[a-z][a-z0-9_]{0,60}")
# Class names that the template itself uses.
_RESERVED_CLASS_NAMES = {"Counter", "ProcessingModule", "Page"}
# Directory with the templates of the module and its tests.
_TEMPLATES = Path(__file__).parents[1] / "templates"


def _options(group: Group) -> None:
    """Add the options of this command to *group*."""
    group.add_argument(
        "--root", default=".", metavar="DIR", help="the project's directory (default: this one)"
    )


def _run(args: list[str], opts: Options, settings: Settings) -> int:  # noqa: ARG001  # of all commands
    """Run this command and return its exit code."""
    if len(args) != 1:
        raise UsageError("give the name of one module, for example word_count")
    name = args[0]
    title = string_camelcase(name)
    is_taken = keyword.iskeyword(title) or title in _RESERVED_CLASS_NAMES
    if _NAME.fullmatch(name) is None or keyword.iskeyword(name) or is_taken:
        raise UsageError(
            "NAME must be a Python name in lower case, such as word_count, that gives a free class "
            f"name; {name} does not"
        )
    root = Path(opts.root)
    templates = {
        root / "webcrawl" / "pipelines" / f"{name}.py": "module.py.tmpl",
        root / "tests" / "pipelines" / f"test_{name}.py": "test_module.py.tmpl",
    }
    for path in templates:
        if not path.parent.is_dir():
            raise FatalError(f"there is no {path.parent}: run this in a clone of webcrawl.")
        existing = next((file for file in (path, path.with_suffix("")) if file.exists()), None)
        if existing is not None:
            names = {file.stem for file in path.parent.glob("[a-z]*")}
            raise FatalError(
                f"{existing} exists already; these names are taken: {', '.join(sorted(names))}."
            )

    for path, template in templates.items():
        text = Template((_TEMPLATES / template).read_text("utf-8"))
        path.write_text(text.substitute(name=name, Name=title), encoding="utf-8")
        print(f"wrote {path}")
    _, test = templates
    print(
        f"run its tests:  make .venv/.test && .venv/bin/pytest {test}\n"
        f"use it:         -s 'ITEM_PIPELINES={{\"webcrawl.pipelines.{name}.{title}\": 200}}'"
        f", or a line in webcrawl/settings.py"
    )
    return 0


Command = make_command(_run, syntax="[options] NAME", options=_options)
