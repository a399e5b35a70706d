"""What the tests of a lease share."""

from contextlib import ExitStack

import pytest
from lease_rig import Desk, Names


@pytest.fixture
def new_desk(tmp_path, clock):
    """Makes a desk."""

    def make(*, obey=False, **options):
        made = Desk(tmp_path, clock, obey=obey, **options)
        stack.callback(made.close)
        return made

    with ExitStack() as stack:
        yield make


@pytest.fixture
def desk(new_desk):
    return new_desk()


@pytest.fixture
def obedient(new_desk):
    return new_desk(obey=True)


@pytest.fixture
def names():
    return Names()


@pytest.fixture
def resolving(new_desk, names):
    return new_desk(addresses=names)
