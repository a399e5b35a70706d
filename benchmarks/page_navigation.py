"""Navigation of documentation pages that is still in their text, and content that is missing there.

    python benchmarks/page_navigation.py [PAGES]

Reads PAGES (120) random pages of each of the Debian packages python3.11-doc, postgresql-doc-15 and
rust-doc. A label of navigation is the text of a link in it that is not in the content, too. It is
looked for anywhere in the text, because a line can have the labels of several links.
"""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

from lxml import html

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from webcrawl.items import Page
from webcrawl.pipelines.main_text import main_text

# The directory of each package, and where navigation and content are in its pages.
PACKAGES = {
    "python3.11/html": ("//div[@class='sphinxsidebar' or @class='related']", "//*[@role='main']"),
    "postgresql-doc-15/html": (
        "//div[@class='navheader' or @class='navfooter']",
        "//div[@id='docContent'] | //div[@class='sect1' or @class='refentry' or @class='chapter']",
    ),
    "rust-doc/html": ("//nav", "//main"),
}


def main(pages: str = "120") -> None:
    for package, (navigation, content) in PACKAGES.items():
        paths = sorted(Path("/usr/share/doc", package).rglob("*.html"))
        kept = labels = found = words = 0
        for path in random.Random(1).sample(paths, min(int(pages), len(paths))):
            body = path.read_bytes()
            page = Page(
                url=f"http://a.test/{path.name}", status=200, headers=[], body=body, wire_body=body,
                fetched_at=0.0, content_type="text/html",
            )  # fmt: skip
            text = main_text(page, max_chars=200_000).text
            tree = html.fromstring(body)
            inside = one_line(" ".join(one.text_content() for one in tree.xpath(content)))
            links = tree.xpath(f"({navigation})//a")
            only = {one_line(link.text_content()) for link in links}
            only = {line for line in only if len(line) > 3 and line not in inside}
            labels += len(only)
            whole = f" {one_line(text)} "
            kept += sum(f" {label} " in whole for label in only)
            expected = set(re.findall(r"\w+", inside))
            words += len(expected)
            found += len(expected.intersection(re.findall(r"\w+", text)))
        print(
            f"{package}: {kept} of {labels} labels of navigation in the text, "
            f"{found / max(words, 1):.1%} of the content's words"
        )


def one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    main(*sys.argv[1:])
