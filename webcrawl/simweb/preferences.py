"""Preferences of site owners: what hosts of a World with ``preferences`` say about uses of pages.

Each host states one of FORMS. Nothing here is read by the crawler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from webcrawl.simweb.host_spec import HostSpec
    from webcrawl.simweb.world import World

TDM_PATH = "/.well-known/tdmrep.json"


class Preference(NamedTuple):
    """A preference, and the purposes that it refuses, separated by spaces.

    *robots* are lines of robots.txt, *header* is a line of each document, *head* an element of each
    HTML page, *tdm* the file TDM_PATH.
    """

    refused: str = ""
    robots: str = ""
    header: str = ""
    head: str = ""
    tdm: str = ""


_TDM = "train research"
_EVERYONE = "User-agent: *\n"
FORMS = (
    Preference(),
    Preference("train", robots=f"{_EVERYONE}Content-Usage: train-ai=n, search=y\n"),
    Preference("train", robots=f"{_EVERYONE}Content-Signal: ai-train=no, search=yes\n"),
    Preference("search", robots=f"{_EVERYONE}Content-Signal: search=no\n"),
    Preference("train", robots="User-agent: GPTBot\nUser-agent: CCBot\nDisallow: /\n"),
    Preference(robots="License: /licence.xml\n"),
    Preference(_TDM, tdm='[{"location": "/", "tdm-reservation": 1}]'),
    Preference(_TDM, header="tdm-reservation: 1"),
    Preference(_TDM, head='<meta name="tdm-reservation" content="1">'),
    Preference("train", header="Content-Usage: train-ai=n"),
    Preference("agent train", head='<meta name="robots" content="noai, unknown">'),
    Preference("search", header="X-Robots-Tag: noindex"),
    Preference("archive", head='<meta name="robots" content="noarchive">'),
    Preference(
        "agent train",
        head='<script type="application/rsl+xml"><license><permits type="usage">search</permits>'
        "</license></script>",
    ),
)


def preference_of(world: World, host: HostSpec) -> Preference:
    """Return what the owner of *host* says."""
    return FORMS[host.index % len(FORMS) if world.preferences else 0]
