"""Seen before or not: the duplicate URL eliminator and the content-seen test."""

from webcrawl.seen.eliminator import DiskEliminator
from webcrawl.seen.interface import Eliminator

__all__ = ["DiskEliminator", "Eliminator"]
