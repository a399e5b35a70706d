"""Jobs for tests to look at: of a killed crawl, and made by hand."""

import pytest
from killed_job import WORLD, command, kill_in_the_middle
from stored_job import Stored

from webcrawl.simweb import start_in_process


@pytest.fixture(scope="session")
def killed(tmp_path_factory):
    """Its job, to be copied, which has kept its first checkpoint."""
    path = tmp_path_factory.mktemp("killed")
    with start_in_process(WORLD, log_path=path / "access.log") as web:
        line = command(web, path, CHECKPOINT_INTERVAL_SECS=0.5)
        kill_in_the_middle(line, path / "job", keeps=True)
    return path / "job"


@pytest.fixture
def stored(tmp_path, clock):
    return Stored(tmp_path / "job", clock)
