"""The classes of docs/parts.md, as a module: all Python of the page, its indented blocks but those
of options, expressions and tests."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parent.parent.parent / "docs/parts.md"


def source():
    """The Python text of the page."""
    blocks: list[list[str]] = [[]]
    for line in PAGE.read_text().splitlines():
        if line and not line.startswith("    "):
            blocks.append([])
        elif not line.startswith(("    -s ", "    /")):
            blocks[-1].append(line[4:])
    python = [one for one in blocks if not "".join(one).startswith("# tests/")]
    return "\n".join("\n".join(one) for one in python)


exec(compile(source(), str(PAGE), "exec"))  # it is the project's own page
