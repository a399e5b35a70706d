"""What the tests of a lease share."""

from __future__ import annotations

import pytest
from lease_rig import Desk, Names


@pytest.fixture
def desk(tmp_path, clock):
    made = Desk(tmp_path, clock, obey=False)
    yield made
    made.close()


@pytest.fixture
def obedient(tmp_path, clock):
    made = Desk(tmp_path, clock, obey=True)
    yield made
    made.close()


@pytest.fixture
def names():
    return Names()


@pytest.fixture
def resolving(tmp_path, clock, names):
    made = Desk(tmp_path, clock, obey=False, addresses=names)
    yield made
    made.close()
