"""The simulated internet: a deterministic web on loopback, made from a seed number.

A crawler meets here what it meets outside, with the truth known. `World` (world.py) is the set of
parameters; hosts, pages, links and bytes are pure functions of it (pages.py, bodies.py, robots.py,
answers.py), so 200,000 hosts need no more memory than ten. `SimWeb` (server.py) serves a World by
HTTP, HTTPS, FTP, Gopher and DNS, `start_in_process` (process.py) does so from a child process. The
access log (accesslog.py) says what came when, truth.py which URLs there are to be found, and
judge.py what the one says about the other.

The life of a request: the name server (nameserver.py) answers with one of the world's 127.x.y.z
addresses; connection.py reads the request there, finds the host by its Host header, asks
answers.py what a sound host would say, and then does to it what this host does: delay it, cut it,
spoil it. One line goes to the log. Hosts that speak FTP (ftp.py) or Gopher (gopher.py) have an
address each, and are found by it; talks.py is what the two have in common.

Invariants: the same World is the same web, byte for byte, in every process. Nothing is bound
outside 127.0.0.0/8. Every request read leaves one line in the log. This package imports nothing
of the crawler.

    with start_in_process(preset("clean", http_port=0, https_port=0), log_path=log) as web:
        crawl(seeds=web.world.seeds(), dns=web.dns)
    assert not overlaps(read_access_log(log))
"""

from webcrawl.simweb.accesslog import Hit, Outcome, read_access_log
from webcrawl.simweb.errors import SimWebError
from webcrawl.simweb.hosts import Behaviour, HostSpec
from webcrawl.simweb.judge import Verdict, judge, overlaps, pauses
from webcrawl.simweb.presets import PRESETS, preset
from webcrawl.simweb.process import SimWebProcess, start_in_process
from webcrawl.simweb.server import SimWeb
from webcrawl.simweb.truth import (
    allowed_urls,
    fetchable_urls,
    is_endless_url,
    reachable_urls,
    write_truth,
)
from webcrawl.simweb.world import Faults, World, write_seeds

__all__ = [
    "PRESETS",
    "Behaviour",
    "Faults",
    "Hit",
    "HostSpec",
    "Outcome",
    "SimWeb",
    "SimWebError",
    "SimWebProcess",
    "Verdict",
    "World",
    "allowed_urls",
    "fetchable_urls",
    "is_endless_url",
    "judge",
    "overlaps",
    "pauses",
    "preset",
    "reachable_urls",
    "read_access_log",
    "start_in_process",
    "write_seeds",
    "write_truth",
]
