"""Sites that need a browser: the URLs of their scripts and data.

``HostSpec.rendering`` says what kind of site a host is. A share of the scripts lies in directories
that robots.txt may forbid, and the modules lie on another host, which is a guide. Every fourth host
adds a cache-buster to the URLs of its scripts; the others send headers for caches.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from webcrawl.simweb.host_spec import HostSpec, Rendering
from webcrawl.simweb.pages import DIRECTORIES, PageSpec
from webcrawl.simweb.scripts import HOSTILE

if TYPE_CHECKING:
    from webcrawl.simweb.world import World

# The target of a script, and that of a batch of the data of a page.
SCRIPT = re.compile(r"/[a-z-]+/([a-z]+(?:-\d+)?)\.js(?:\?_=\d+)?", re.ASCII)
DATA = re.compile(r"/api/(\d{1,9})(/.*)", re.ASCII)
_BUSTER = 1_700_000_000_000  # looks like a time in milliseconds


def script_of(world: World, page: PageSpec) -> tuple[HostSpec, str]:
    """Return the host and the target of the script of *page*, which ``is_scripted``."""
    host = page.host
    kind = page.host.rendering
    owner = world.guide(host.index) if kind is Rendering.MODULES else host
    variant = f"-{(host.index + page.number) % len(HOSTILE)}" if kind is Rendering.HOSTILE else ""
    target = f"/{DIRECTORIES[host.index & 7]}/{kind}{variant}.js"
    # The documents of the kind HISTORY are the same at every URL.
    if kind is not Rendering.HISTORY and not owner.index % 4:
        target += f"?_={_BUSTER + page.number}"
    return owner, target
