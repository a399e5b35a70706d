"""A crawl of a web with a spam farm and endless calendars, judged from the server's log."""

from collections import Counter
from typing import NamedTuple
from urllib.parse import urlsplit

from crawling import USER_AGENT, is_robots, simulated, url_of_hit
from web_truth import allowed_urls, is_endless_url

from webcrawl.simweb.farm import DOMAINS


class Shares(NamedTuple):
    """Requests of the kinds normal, farm and calendar, robots.txt files too: until every normal
    host had been crawled completely, and of the whole crawl. *missing* are allowed URLs of normal
    hosts that were never asked for."""

    missing: set
    then: object
    whole: object


def share(requests):
    """Of farm and calendars."""
    return 1 - requests["normal"] / requests.total()


def spam_web(directory, **changes):
    """Sound hosts, a few with endless URL spaces, and a farm of 3,000 that some link to."""
    values = {"hosts": 300, "mean_pages": 12.0, "max_pages": 60, "endless": 0.005}
    values |= {"farm_hosts": 3000, "farm_links": 0.01}
    return simulated(directory, **(values | changes))


def shares(world, hits):
    """Judge the access log *hits* of *world*, which must be whole."""
    missing = allowed_urls(world, USER_AGENT)
    counts, then = Counter[str](), Counter[str]()
    for hit in sorted(hits, key=lambda hit: hit.start):
        url = url_of_hit(hit)
        if (urlsplit(url).hostname or "").endswith(DOMAINS):
            kind = "farm"
        else:
            kind = "calendar" if is_endless_url(url) else "normal"
        counts[kind] += 1
        if kind == "normal" and not is_robots(hit):
            missing.discard(url)
            then = counts.copy()
    return Shares(missing, then, counts)
