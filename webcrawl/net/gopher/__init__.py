"""Gopher: download handler, menus."""

from webcrawl.net.gopher.handler import GopherDownloadHandler

__all__ = ["GopherDownloadHandler"]
