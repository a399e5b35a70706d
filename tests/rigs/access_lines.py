"""Lines of access logs, as simweb and Apache write them."""

from __future__ import annotations

from webcrawl.jobs.audit.log_line import MICRO


def simweb_line(start, end, *, host="a.test", address="127.16.0.1", agent="webcrawl/1.0", path="/"):
    """A line as simweb writes it; times in microseconds."""
    times = " ".join(f"{time // MICRO}.{time % MICRO:06d}" for time in (start, end))
    return (
        f'127.0.0.1 - - [{times}] "GET {path} HTTP/1.1" 200 10 "-" "{agent}" '
        f"http://{host}:8480 {address} ok\n"
    )


def combined_line(second, *, vhost="", agent="webcrawl/1.0", path="/"):
    stamp = f"10/Oct/2000:13:{second // 60:02d}:{second % 60:02d} +0000"
    prefix = f"{vhost} " if vhost else ""
    return f'{prefix}192.0.2.1 - - [{stamp}] "GET {path} HTTP/1.1" 200 10 "-" "{agent}"\n'
