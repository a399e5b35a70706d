"""Fetches of robots.txt, which go past Scrapy's engine, while the crawl is stopped."""

from __future__ import annotations

import signal
import sys
import threading
import time

import pytest
from crawling import start_crawl, stats_of
from http_site import HttpSite, serving

HOSTS, WORKERS = 8, 3


@pytest.mark.parametrize("fast", [True, False])
def test_robots_txt_holds_a_worker_and_is_broken_off_when_the_crawl_is_stopped(tmp_path, fast):
    released = threading.Event()

    def answer(_):
        released.wait(30)
        return 404, {}, b""

    with serving(HttpSite(answer, "0.0.0.0")) as site:  # all of 127.0.0.0/8
        urls = [f"http://127.0.0.{n + 1}:{site.server_port}/" for n in range(HOSTS)]
        (tmp_path / "seeds").write_text("\n".join(urls))
        options = {
            "JOBDIR": tmp_path / "job",
            "ALLOW_PRIVATE_ADDRESSES": 1,
            "CONCURRENT_REQUESTS": WORKERS,
            "SHUTDOWN_GRACE_SECS": 0.1,
            "FAST_PATH_ENABLED": fast,
        }
        line = [sys.executable, "-m", "scrapy", "crawl", "web", "-a", f"seeds={tmp_path / 'seeds'}"]
        crawl = start_crawl([*line, *(f"-s{name}={value}" for name, value in options.items())])
        while len(site.asked) < WORKERS:
            time.sleep(0.01)
        time.sleep(0.2)
        crawl.send_signal(signal.SIGTERM)
        output = crawl.communicate(timeout=20)[1]
        released.set()
    assert crawl.returncode == 0, output
    assert "Traceback" not in output
    assert site.asked == ["/robots.txt"] * WORKERS
    stats = stats_of(tmp_path / "job")
    assert (stats["frontier/waiting"], stats["frontier/leased"]) == (HOSTS, 0)
    assert not [name for name in stats if name.startswith("robots/http")]
