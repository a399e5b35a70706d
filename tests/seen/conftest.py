"""Fixtures for the tests of eliminators."""

import pytest
from seen_rig import disk_eliminator


@pytest.fixture
def opened(tmp_path):
    """Open eliminators, by default in the directory of the test, and close them afterwards."""
    made = []

    def make(kind=disk_eliminator, *arguments, path=tmp_path, snapshot=None, **more):
        one = kind(path, *arguments, **more)
        one.open(snapshot)
        made.append(one)
        return one

    yield make
    for one in made:
        one.close()
