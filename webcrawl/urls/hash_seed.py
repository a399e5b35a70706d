"""Seed of the hashes by which URLs and documents are known: drawn for each job, kept with it.

Without one, anyone can make pages that collide and hide each other. One is in use in a process, set
when a job is opened; until then, and for jobs of before 2026-11-24, it is 0. Who can read the job
knows it.
"""

from __future__ import annotations

from functools import cache

from webcrawl.randomness import secret_generator

_in_use = [0]


@cache
def new_seed() -> int:
    """One drawn from the random source of the operating system. All new jobs of a process have the
    same, as two may be open at once."""
    return secret_generator("hash seed").getrandbits(64)


def seed_in_use() -> int:
    """The seed of the job that is open."""
    return _in_use[0]


def use_seed(seed: int) -> None:
    """Hash by *seed* from now on."""
    _in_use[0] = seed
