"""Presets: worlds for common purposes, by name."""

from __future__ import annotations

from typing import Any

from webcrawl.simweb.world import Faults, SimWebError, World

_SOUND: dict[str, Any] = {"faults": Faults.none(), "endless": 0.0, "large_files": 0.0}
# To measure crawlers: nothing forbidden, nothing broken.
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
    # Figures 6 to 8 of the Mercator paper, with every kind of trouble.
    "mercator": {},
    # HTML of 240 kB in the mean, gzip on the wire, mostly HTTPS.
    "today": {"profile": "today", "https_share": 0.8},
    # No fault, no endless space, no delay: what is reachable is reached, in one go. There still
    # are robots.txt rules, redirects, dead links, duplicates.
    "clean": _SOUND | {"crawl_delays": 0.0},
    # One million pages of 20 kB with 40 links each, plain HTTP.
    "bench": _BENCH | {"profile": "bench", "https_share": 0.0},
    # Many hosts, whose links are new, with all kinds of titles, in a crawl of a few pages each.
    "broad": _BENCH
    | {
        "profile": "broad",
        "hosts": 20_000,
        "mean_pages": 2000.0,
        "max_pages": 2000,
        "https_share": 0.0,
    },
    # A hundred small pages a host.
    "graph": _BENCH
    | {"profile": "graph", "mean_pages": 100.0, "max_pages": 100, "https_share": 0.0},
    # One million pages of 240 kB in the mean, gzip on the wire, HTTPS. A connection ends with its
    # page: a broad crawl comes back to a host when the last one is long gone.
    "bench-today": _BENCH
    | {"profile": "bench-today", "https_share": 1.0, "pages_per_connection": 1},
}


def preset(name: str, **changes: Any) -> World:
    """The World called *name*, a key of PRESETS, with parameters *changes* of World.

    Raises SimWebError for an unknown name or parameters that make no web.
    """
    try:
        values = PRESETS[name]
    except KeyError:
        known = ", ".join(PRESETS)
        raise SimWebError(f"unknown kind of world {name!r}: use one of {known}") from None
    return World(**values | changes)
