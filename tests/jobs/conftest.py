"""A killed crawl, for all tests that check and mend its job."""

from __future__ import annotations

import pytest
from killed_job import WORLD, command, kill_in_the_middle

from webcrawl.simweb import start_in_process


@pytest.fixture(scope="session")
def killed(tmp_path_factory):
    """Its job, to be copied."""
    path = tmp_path_factory.mktemp("killed")
    with start_in_process(WORLD, log_path=path / "access.log") as web:
        options = {"CHECKPOINT_INTERVAL_SECS": 1, "CHECKPOINTS_KEPT": 0}
        kill_in_the_middle(command(web, path, **options), path / "job")
    return path / "job"
