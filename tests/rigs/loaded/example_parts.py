"""The example classes of docs/howto/write-a-part.md, as a module.

That is all Python on the page: its indented blocks except options, expressions and tests.
"""

from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs/howto/write-a-part.md"


def source():
    """Return the Python text of the page."""
    blocks = [[]]
    for line in PAGE.read_text().splitlines():
        if line and not line.startswith("    "):
            blocks.append([])
        elif not line.startswith(("    -s ", "    /", "    .venv/")):
            blocks[-1].append(line[4:])
    python = [one for one in blocks if not "".join(one).startswith("# tests/")]
    return "\n".join("\n".join(one) for one in python)


exec(compile(source(), str(PAGE), "exec"))  # the page is the project's own
