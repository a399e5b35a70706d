"""What the tests of the simulated web share: a process that serves the WORLD of their module."""

import pytest

from webcrawl.simweb import start_in_process


@pytest.fixture(scope="module")
def web(request, tmp_path_factory):
    log_path = tmp_path_factory.mktemp("simweb") / "access.log"
    with start_in_process(request.module.WORLD, log_path=log_path) as web:
        yield web
