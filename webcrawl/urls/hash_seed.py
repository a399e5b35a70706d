"""Seed of the hashes of URLs and documents: random for each job and stored with the job.

Without a secret seed, anyone could make pages whose hashes collide, so that one page hides another.
A process uses a single seed, which is set when a job is opened. Before that, and for jobs created
before 2026-11-24, it is 0. Anyone who can read the job's files knows its seed.
"""

from __future__ import annotations

from functools import cache

from webcrawl.randomness import secret_generator

_in_use = [0]


@cache
def new_seed() -> int:
    """Return a seed from the operating system's random source.

    All new jobs of a process get the same seed, because two may be open at the same time.
    """
    return secret_generator("hash seed").getrandbits(64)


def seed_in_use() -> int:
    """Return the seed of the job that is open."""
    return _in_use[0]


def use_seed(seed: int) -> None:
    """Use *seed* for hashes from now on."""
    _in_use[0] = seed
