"""Seen before or not: the duplicate URL eliminator and the content-seen test."""

from webcrawl.seen.bloom import BloomEliminator
from webcrawl.seen.content import ContentSeen
from webcrawl.seen.eliminator import DiskEliminator
from webcrawl.seen.interface import Eliminator

__all__ = ["BloomEliminator", "ContentSeen", "DiskEliminator", "Eliminator"]
