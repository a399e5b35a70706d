"""HTTP and HTTPS: the download handler, connections, requests and answers, and decoding."""

from webcrawl.net.http.handler import HttpDownloadHandler
