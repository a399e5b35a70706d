"""Lines of access logs, as simweb writes them."""

from webcrawl.jobs.audit.log_line import MICRO


def simweb_line(start, end, *, host="a.test", address="127.16.0.1", path="/"):
    """A line; times in microseconds."""
    times = " ".join(f"{time // MICRO}.{time % MICRO:06d}" for time in (start, end))
    return (
        f'127.0.0.1 - - [{times}] "GET {path} HTTP/1.1" 200 10 "-" "webcrawl/1.0" '
        f"http://{host}:8480 {address} ok\n"
    )
