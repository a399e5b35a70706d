"""Scripts that run in the engine's browser, each in a file of this package.

    steady    before all scripts of pages and workers, so that each pass asks for the same URLs. The
              clock goes in steps, because passes differ by a few hundredths of a second. It also
              goes on by being read, because virtual time stands still in a loop that waits.
    reporter  then in pages. Reports attempts that ``Fetch`` does not see. A page can evade this,
              but gains nothing by it, because it has no network.
    guard     in an isolated world, where the page cannot have changed any functions. ``Fetch``
              sees navigations by HTTP, but no others.
    snapshot  in the world of ``guard``, at the end. Names of elements hide properties of forms and
              documents, but not those of prototypes. Nodes in frames are not instances of the
              window's classes.
    attempts  as the hostile page that each crawl tries first, with ``worker``, its service worker

A script that takes values is a function expression, and Python appends its arguments.
"""

from __future__ import annotations

from importlib.resources import files


def read_script(name: str) -> str:
    """Return the text of the script in the file *name*."""
    return files(__name__).joinpath(name).read_text("utf-8")
