"""The hub of Flask-WebSub, another's reading of the standard, pushes into a crawl."""

import subprocess
import time
from contextlib import contextmanager
from urllib.parse import urlencode

import pytest
from crawling import ROOT, wait_until
from text_tables import each
from websub_crawl import Blog, site_of, subscriber_of
from websub_hub import send

PYTHON = ROOT / ".venv-websub/bin/python"
pytestmark = pytest.mark.long


@contextmanager
def flask_hub(directory, algorithm):
    """The URL of a hub that signs by *algorithm*."""
    assert PYTHON.exists(), "make test-long makes .venv-websub"
    program = ROOT / "tests/rigs/servers/flask_hub.py"
    command = [PYTHON, program, "127.0.0.4", directory / "hub.sqlite", algorithm]
    with (directory / "hub.log").open("w") as log:
        hub = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        yield hub.stdout.readline().strip()
    finally:
        hub.kill()
        hub.wait()
        hub.stdout.close()


def publish(hub_url, blog):
    url = f"{hub_url.removesuffix('/hub')}/publish?{urlencode({'topic': blog.topic})}"
    return send("POST", url, blog.feed())


@each("algorithm", "sha256", "sha384", "sha512")
def test_it_pushes_what_is_new(tmp_path, algorithm):
    with (
        flask_hub(tmp_path, algorithm) as url,
        site_of(Blog(url)) as blog,
        subscriber_of(tmp_path, blog) as one,
    ):
        wait_until(lambda: {"/feed", "/one", "/two"} <= {*blog.asked} and one.has_lease())
        blog.entries |= {"/one": time.time(), "/three": time.time()}
        assert publish(url, blog) == (200, b"published\n")
        wait_until(lambda: blog.asked.count("/one") == 2 and "/three" in blog.asked)
        wait_until(lambda: one.stat("websub/pushed") == 1)


def test_it_is_not_believed_if_it_signs_by_sha1(tmp_path):
    with (
        flask_hub(tmp_path, "sha1") as url,
        site_of(Blog(url)) as blog,
        subscriber_of(tmp_path, blog) as one,
    ):
        wait_until(lambda: {"/feed", "/one", "/two"} <= {*blog.asked} and one.has_lease())
        blog.entries["/three"] = time.time()
        publish(url, blog)
        wait_until(lambda: one.stat("websub/forged") > 0)
        assert "/three" not in blog.asked
