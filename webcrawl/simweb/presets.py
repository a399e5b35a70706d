"""Presets: named worlds for common purposes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from webcrawl.simweb.world import Faults, SimWebError, World

_SOUND: dict[str, Any] = {"faults": Faults.none(), "endless": 0.0, "large_files": 0.0}
# Basis of worlds for measuring crawlers, in which nothing is forbidden or broken.
_BENCH: dict[str, Any] = _SOUND | {
    "mean_pages": 500.0,
    "max_pages": 5000,
    "seed_share": 1.0,
    "restricting": 0.0,
    "crawl_delays": 0.0,
    "errors": 0.0,
    "redirects": 0.0,
    "duplicates": 0.0,
    "odd_charsets": 0.0,
}

PRESETS: dict[str, dict[str, Any]] = {
    # Follows figures 6 to 8 of the Mercator paper, with every kind of fault.
    "mercator": {},
    # HTML with a mean of 240 kB, sent with gzip, mostly over HTTPS.
    "today": {"profile": "today", "https_share": 0.8},
    # No faults, endless spaces or delays, so a single crawl reaches every reachable page. There are
    # still robots.txt rules, redirects, dead links and duplicates.
    "clean": _SOUND | {"crawl_delays": 0.0},
    # The same, but three in ten hosts refuse crawlers: 401, 402, 403, 429, or a challenge.
    "guarded": _SOUND | {"crawl_delays": 0.0, "faults": replace(Faults.none(), guarded=0.3)},
    # Every host allows all pages, and says in its own way what they may be used for.
    "rights": _BENCH
    | {"profile": "bench", "preferences": True, "hosts": 15, "mean_pages": 3.0, "max_pages": 4},
    # Small sites of all kinds that need a browser, or seem to. Only guides are without scripts.
    "rendered": _SOUND
    | {"hosts": 48, "rendered": 1.0, "restricting": 0.3, "crawl_delays": 0.0, "max_pages": 60},
    # Like "clean", but a tenth of the HTML pages need a browser.
    "partly-rendered": _SOUND | {"rendered": 0.27, "crawl_delays": 0.0},
    # One million pages of 20 kB with 40 links each, plain HTTP.
    "bench": _BENCH | {"profile": "bench", "https_share": 0.0},
    # Many large hosts with all kinds of titles, for crawls that fetch only a few pages of each host
    # and keep finding new links.
    "broad": _BENCH
    | {
        "profile": "broad",
        "hosts": 20_000,
        "mean_pages": 2000.0,
        "max_pages": 2000,
        "https_share": 0.0,
    },
    # A hundred small pages per host.
    "graph": _BENCH
    | {"profile": "graph", "mean_pages": 100.0, "max_pages": 100, "https_share": 0.0},
    # One million pages with a mean of 240 kB, sent with gzip over HTTPS. Each page closes its
    # connection, because a broad crawl returns to a host only long after servers close connections.
    "bench-today": _BENCH
    | {"profile": "bench-today", "https_share": 1.0, "pages_per_connection": 1},
}


def preset(name: str, **changes: Any) -> World:
    """Return the World called *name*, a key of PRESETS; *changes* override its parameters.

    Raises SimWebError for an unknown name or invalid parameters.
    """
    try:
        values = PRESETS[name]
    except KeyError:
        known = ", ".join(PRESETS)
        raise SimWebError(f"unknown kind of world {name!r}: use one of {known}") from None
    return World(**values | changes)
