"""An add-on of Scrapy by which visits are due within seconds: an hour of the due queues is one."""

from webcrawl.frontier import due
from webcrawl.revisit import visits


class ShortHours:
    """Made before anything else of the crawl."""

    def update_settings(self, settings):
        """See Scrapy's add-ons."""
        due._HOUR = visits._SHORTEST = 1.0
