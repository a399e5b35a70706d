"""HTTP and HTTPS: download handler, connections, the exchange on the wire, decoding."""

from webcrawl.net.http.handler import HttpDownloadHandler

__all__ = ["HttpDownloadHandler"]
