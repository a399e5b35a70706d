"""Kinds of ordinary sites whose pages have one title and nearly one text, and are documents all."""

import hashlib
from typing import NamedTuple

from wire_text import table

_TABLE = table("sound_sites")
NAMES, KINDS = _TABLE["names"], _TABLE["kinds"]
# Where pages of a kind are. A name is the only thing that tells their URLs apart.
PATHS = ("/{name}", "/show/{name}.html", "/en/library/{name}/")

_FRAME = (
    "<html><head><title>Library</title>{head}</head><body><ul><li><a href=/>Home</a><li>"
    "<a href=/about>About us</a><li><a href=/contact>Contact</a></ul><h1>Library</h1>{main}"
    "<p>All that is here may be used by everybody, and nothing is asked for in return."
    "<p>Questions are answered by the people at the desk on all days of the week.</body></html>"
)


class SoundPage(NamedTuple):
    """A page of a sound site, and the paths of files of the site that it leads to."""

    path: str
    body: bytes


def pages_of(kind, path):
    """The thirty pages of *kind*, at *path*."""
    for number, name in enumerate(NAMES, 11):
        sha = hashlib.sha256(name.encode()).hexdigest()
        values = {
            "name": name,
            "other": NAMES[-number % len(NAMES)][::-1],
            "n": number,
            "key": f"{name[:2]}{sha[:9]}{number}",
            "code": f"ZX{number}QW{number + 7}",
            "md5": sha[:32],
            "sha": sha,
            "crc": sha[:8],
            "crc2": sha[8:16],
        }
        main = KINDS[kind].format(**values)
        yield SoundPage(path.format(name=name), _FRAME.format(head="", main=main).encode())
