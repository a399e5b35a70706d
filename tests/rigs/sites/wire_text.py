"""Bytes that go over the wire, written as text in the tables of tests/data.

A character stands for the byte of its number, and ``${expression}`` for the bytes of that
expression of Python.
"""

import re
import tomllib
from pathlib import Path

_DATA = Path(__file__).parents[2] / "data"


def table(name):
    """Return the content of the table *name*."""
    return tomllib.loads((_DATA / f"{name}.toml").read_text("utf-8"))


def wire(text, names=None):
    """Return the bytes of *text*; expressions may use *names*."""
    parts = re.split(r"\$\{(.+?)\}", text)
    made = [eval(part, names) if n % 2 else part.encode("latin-1") for n, part in enumerate(parts)]
    return b"".join(made)
