"""Scripts that run in the engine's browser, each in a file of this package.

A script that takes values is a function expression, and Python appends its arguments.
"""

from __future__ import annotations

from importlib.resources import files


def read_script(name: str) -> str:
    """Return the text of the script in the file *name*."""
    return files(__name__).joinpath(name).read_text("utf-8")
