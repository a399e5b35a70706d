"""Frontier rigs that are closed after the test."""

import pytest
from frontier_rig import Rig


@pytest.fixture
def rig_of(jobdir, clock):
    made = []

    def make(name="frontier", **options):
        made.append(Rig(jobdir / name, clock, **options))
        return made[-1]

    yield make
    for rig in made:
        rig.close()


@pytest.fixture
def rig(rig_of):
    return rig_of()
