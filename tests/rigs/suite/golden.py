"""Long expected texts, in tests/data/golden.

``WRITE_GOLDEN=1 pytest FILE`` rewrites the texts of a test file. Read the diff before you commit.
"""

import os
from pathlib import Path

_FOLDER = Path(__file__).parents[2] / "data" / "golden"


def golden(name, text):
    """Return the text of the file *name*. With WRITE_GOLDEN set, write *text* to it first."""
    path = _FOLDER / name
    if os.environ.get("WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    return path.read_text(encoding="utf-8")
