"""Sorts the lines of files of any size with coreutils' ``sort``, in limited memory."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

from webcrawl.errors import FatalError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_MEMORY = "64M"


def sorted_lines(
    paths: Iterable[Path], *options: str, directory: Path, feature: str, memory: str = _MEMORY
) -> Iterator[bytes]:
    """Yield the lines of the files *paths* in byte order, with their line ends.

    *options* are passed to ``sort``, which puts what does not fit in *memory* into temporary files
    in *directory*. Raises FatalError if there is no ``sort`` command or if it fails; *feature*
    names what needs it.
    """
    storage_options = (
        f"--temporary-directory={directory}",
        f"--buffer-size={memory}",
        "--files0-from=-",
    )
    try:
        sorting: Any = subprocess.Popen(  # noqa: S603  # all arguments are ours
            ["sort", *options, *storage_options],  # noqa: S607  # it is found in PATH
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
        )
    except FileNotFoundError as error:
        raise FatalError(f"{feature} needs the command sort: install coreutils.") from error
    with sorting:
        # sort reads all names from its input before it writes, so neither side waits for the other.
        sorting.stdin.write(b"\0".join(os.fsencode(path) for path in paths))
        sorting.stdin.close()
        yield from sorting.stdout
        error_text = "; ".join(sorting.stderr.read().decode("utf-8", "replace").splitlines())
    if sorting.returncode:
        raise FatalError(f"{feature} could not be sorted: {error_text}.")
