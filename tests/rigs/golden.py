"""Long texts that tests expect, in tests/data/golden.

``WRITE_GOLDEN=1 pytest FILE`` writes those of a file of tests again: read the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

_FOLDER = Path(__file__).parents[1] / "data" / "golden"


def golden(name, text):
    """The text of the file *name*, which becomes *text* when these are written again."""
    path = _FOLDER / name
    if os.environ.get("WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    return path.read_text(encoding="utf-8")
