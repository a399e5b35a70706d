"""Gopher: the download handler, and the parser of menus."""

from webcrawl.net.gopher.handler import GopherDownloadHandler
