"""Chromium that notes how each pass ended, for crawls that are judged by the bounds of passes."""

import math
import os
from pathlib import Path

import msgspec

from webcrawl.render import builder
from webcrawl.render.chromium import Chromium
from webcrawl.render.engine import Rendering  # msgspec reads it


class Noted(msgspec.Struct):
    """A pass over the page at ``url``."""

    url: str
    rendering: Rendering


class RecordingEngine(Chromium):
    """Engine that appends a line of JSON for each pass to the file that RENDERINGS names."""

    def __init__(self):
        super().__init__()

    def render(self, page, stored):
        result = super().render(page, stored)
        with Path(os.environ["RENDERINGS"]).open("ab") as file:
            file.write(msgspec.json.encode(Noted(page.url, result)) + b"\n")
        return result


class Unlimited:
    """Extension with which pages may ask for any number of scripts, in spite of RENDER_SHARE."""

    def __init__(self):
        builder._FREE_REQUESTS = math.inf


def noted_in(path):
    """All passes in the file *path*."""
    lines = Path(path).read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Noted) for line in lines]
