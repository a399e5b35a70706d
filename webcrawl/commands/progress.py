"""Progress of a command that takes long: a count on the terminal, erased at the end."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from tqdm import tqdm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress(unit: str) -> Iterator[Callable[..., None]]:
    """``on_progress(count)`` or ``on_progress(count, unit)``; silent if stderr is no terminal."""
    # The size is given because a terminal of unknown size would get no progress.
    with tqdm(
        unit=unit, leave=False, disable=None, bar_format="{n:,} {unit}", ncols=80, nrows=2
    ) as bar:

        def on_progress(count: int, unit: str = unit) -> None:
            bar.unit = unit
            bar.update(count - bar.n)

        yield on_progress
