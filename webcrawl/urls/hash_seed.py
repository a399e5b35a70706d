"""Seed of the hashes of URLs and documents: random, drawn for each job and stored with it.

Without a seed, anyone could make pages that collide and so hide each other. A process uses one
seed, which is set when a job is opened. Before that, and for jobs from before 2026-11-24, it is 0.
Anyone who can read the job knows its seed.
"""

from __future__ import annotations

from functools import cache

from webcrawl.randomness import secret_generator

_in_use = [0]


@cache
def new_seed() -> int:
    """Return a seed from the operating system's random source.

    All new jobs of a process get the same one, as two may be open at the same time.
    """
    return secret_generator("hash seed").getrandbits(64)


def seed_in_use() -> int:
    """Return the seed of the job that is open."""
    return _in_use[0]


def use_seed(seed: int) -> None:
    """Use *seed* for hashes from now on."""
    _in_use[0] = seed
