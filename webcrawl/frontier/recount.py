"""Comparison of the counts that the frontier keeps with counts that were found, for ``check``."""

from __future__ import annotations


def differing(*counts: tuple[str, object, object]) -> list[str]:
    """A sentence for each of *counts*, what is counted, as kept and as found, that differ."""
    return [f"{name}: {kept} kept, {found} found" for name, kept, found in counts if kept != found]
