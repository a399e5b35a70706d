"""Shows which settings of the crawl differ from the defaults.

Scrapy's own message also shows passwords. This one masks credentials. What `scrapy report --bundle`
shows to strangers is in the stats: there, only values that cannot say anything private are spelled
out.
"""

from __future__ import annotations

import logging
import re
from pprint import pformat
from typing import TYPE_CHECKING, Self

from scrapy import signals
from scrapy.settings import overridden_settings

from webcrawl import settings as own_settings
from webcrawl.configuration.changed import UNKNOWN, changed_settings
from webcrawl.configuration.secrets import mask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

#: Settings whose values are one of a few words.
CHOICES = re.compile(
    r"CRAWLER_SIGNATURE_FORM=(?:string|dictionary)|LOG_LEVEL=(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)"
    r"|CRAWL_PURPOSE=(?:search|agent|train|archive|research)|POLITENESS_KEY=(?:host|domain|address)"
    r"|POLITENESS_LONG_CRAWL_DELAY=(?:skip|cap|obey)|POLITENESS_PROFILE=(?:mercator|nielsen|mischel)"
    r"|RENDER=(?:0|auto|all)|RIGHTS_POLICY=(?:use|strict|record)|TEXT_FORMAT=(?:parquet|jsonl)"
    r"|URL_SCOPE=(?:open|seeds|domain)"
)
_NUMBER = re.compile(r"-?\d[\d.]*(?: ?(?:[kMGT]i?B|ms|s|min|h|d))?|True|False|true|false")


class ShownSettings:
    """Extension that logs the settings that differ from Scrapy's defaults, at DEBUG.

    The stats ``settings/...`` have those that differ from the defaults of webcrawl.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Replace Scrapy's message, which also shows passwords in settings."""
        # Hide Scrapy's message, which is logged as soon as all extensions are created.
        logging.getLogger("scrapy.crawler").addFilter(
            lambda record: not str(record.msg).startswith("Overridden settings")
        )

        def show() -> None:
            overridden = overridden_settings(crawler.settings)
            shown = {name: mask(name, value) for name, value in overridden}
            logger.debug("Overridden settings:\n%s", pformat(shown))
            for name, value in public_settings(crawler.settings):
                crawler.stats.set_value(f"settings/{name}", value)

        crawler.signals.connect(show, signal=signals.spider_opened, weak=False)
        return cls()


def public_settings(settings: BaseSettings) -> Iterator[tuple[str, str]]:
    """Yield the settings that differ from the defaults, with values that anyone may see.

    These are numbers, flags and the words of CHOICES. All other values are replaced with "set".
    Settings that only the user's code knows are left out, because their names may be private.
    """
    for name, value, default in changed_settings(settings):
        if default is UNKNOWN:
            continue
        # Webcrawl's own settings without a default are numbers. Those of Scrapy may be keys.
        may_be_shown = isinstance(default, (int, float)) or (
            default is None and hasattr(own_settings, name)
        )
        is_number = may_be_shown and _NUMBER.fullmatch(str(value))
        is_public = is_number or CHOICES.fullmatch(f"{name}={value}")
        yield name, str(value) if is_public else "set"
