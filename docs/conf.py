"""How Sphinx makes a site of the documents: `make docs`."""

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# autodoc imports webcrawl, which needs the packages of a crawl. Sphinx's own come first.
sys.path.insert(0, str(ROOT))
sys.path += [str(path) for path in ROOT.glob(".venv/lib/python*/site-packages")]

from webcrawl import __version__  # noqa: E402  # found only now

project = "webcrawl"
author = "webcrawl developers"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "README"
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"webcrawl {release}"
html_copy_source = False
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["narrow.css"]
# Indented blocks are commands, output and file trees more often than Python.
highlight_language = "text"
# The anchors that GitHub gives to headings.
myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True

SHELVES = {
    "Start": "start",
    "How to": "howto",
    "Reference": "reference",
    "Why it is built this way": "why",
}


def add_contents(_app, page, source):
    """Give the site the contents of the map, README.md, in its order."""
    if page == "README":
        for caption, folder in SHELVES.items():
            listed = dict.fromkeys(re.findall(rf"\]\(({folder}/[\w-]+)\.md", source[0]))
            toctree = [":hidden:", f":caption: {caption}", "", *listed]
            source[0] += "\n".join(["\n```{toctree}", *toctree, "```\n"])


def link_files(app, page, source):
    """Offer Markdown files that are not part of the site, such as SECURITY.md, for download."""
    folder = Path(app.srcdir, page).parent

    def link(match):
        path = (folder / match[2]).resolve()
        is_outside = path.exists() and not path.is_relative_to(app.srcdir)
        text = match[1].replace("`", "")
        return f"{{download}}`{text} <{match[2]}>`" if is_outside else match[0]

    source[0] = re.sub(r"\[([^]]+)\]\(((?:\.\./)+[\w/-]+\.md)(?:#[\w-]+)?\)", link, source[0])


def index_words(_app, _page, source):
    """Put the words that people search a page for into the index, which the search looks into."""

    def directive(match):
        # The search puts the main entries of the index before all else.
        words = ", ".join(f"! {word}" for word in match[1].split(", "))
        return f"```{{index}} {words}\n```"

    source[0] = re.sub("<!-- index: (.+) -->", directive, source[0])


def list_fields(_app, _what, _name, _object, _options, lines):
    """Make list items of a docstring's lines like `name: what it is`, with their continuations."""
    done, in_list = [], False
    for line in lines:
        field = re.fullmatch(r"(\w+(?:, \w+)*): (.+)", line)
        if field and (in_list or not (done and done[-1])):
            done.append(f"- ``{field[1]}``: {field[2]}")
            in_list = True
        elif in_list and line.startswith(" "):
            done.append(f"  {line.strip()}")
        else:
            done += [""] * (in_list and bool(line)) + [line]
            in_list = False
    lines[:] = done


def add_index(app, error):
    """Let the site begin at index.html."""
    if error is None and app.builder.name == "html":
        shutil.copy(Path(app.outdir) / "README.html", Path(app.outdir) / "index.html")


def setup(app):
    """Connect them all."""
    app.connect("source-read", add_contents)
    app.connect("source-read", index_words)
    app.connect("source-read", link_files)
    app.connect("autodoc-process-docstring", list_fields)
    app.connect("build-finished", add_index)
