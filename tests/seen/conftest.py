"""What the tests of eliminators share."""

from __future__ import annotations

import pytest
from seen_rig import disk_eliminator


@pytest.fixture
def opened(tmp_path):
    """Opens eliminators, in the directory of the test if no other is named, and closes them."""
    made = []

    def make(kind=disk_eliminator, *arguments, path=tmp_path, snapshot=None, **more):
        one = kind(path, *arguments, **more)
        one.open(snapshot)
        made.append(one)
        return one

    yield make
    for one in made:
        one.close()
