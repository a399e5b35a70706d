"""The one error of this package."""

from __future__ import annotations


class SimWebError(Exception):
    """A world that cannot be, or cannot be served; the message is one sentence for the user."""
