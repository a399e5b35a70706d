"""Simulated internet: a deterministic web on loopback, computed from a seed number.

A crawler meets the same things here as on the internet, but here the correct result is known.
``World`` (world.py) is the set of parameters. Hosts, pages, links and bytes are pure functions of
it (pages.py, bodies.py, robots.py, replies.py), so 200,000 hosts take no more memory than ten.
``serve`` (server.py) serves a World by HTTP, HTTPS, FTP, Gopher and DNS; ``start_in_process``
(process.py) does so in a child process. The access log (accesslog.py) records the requests.
Pages may change over time (changes.py). Some sites need a browser (rendering.py, scripts.py).

The life of a request: the name server (nameserver.py) answers with one of the world's 127.x.y.z
addresses. There, connection.py reads the request and finds the host by its Host header. It gets the
reply that a sound host would give from replies.py, applies the faults of this host (delays, cuts,
garbage), and writes one line to the log. Hosts that speak FTP (ftp_server.py) or Gopher
(gopher_server.py) have their own addresses, by which they are found; talks.py has the code that the
two share.

Invariants: the same World is the same web, byte for byte, in every process and, unless its pages
change, at any time. No socket is bound outside 127.0.0.0/8. Every request that was read leaves one
line in the log. This package does not import anything from the crawler.

    with start_in_process(preset("clean", http_port=0, https_port=0), log_path=log) as web:
        crawl(seeds=web.world.seeds(), dns=web.dns)
"""

from webcrawl.simweb.presets import PRESETS, preset
from webcrawl.simweb.process import SimWebProcess, start_in_process
from webcrawl.simweb.world import Faults, SimWebError, World, write_seeds
