"""A URL filter that refuses print versions and takes the language out of paths."""

from webcrawl.urls.filters.table import RefusedUrlError


class NoPrintPages:
    def process_url(self, url, via):
        if "print=" in url:
            raise RefusedUrlError("a print version")
        return url.replace("/en-us/", "/")
