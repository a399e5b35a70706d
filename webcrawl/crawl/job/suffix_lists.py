"""The public suffix list of a crawl: which list a new job uses, and the copy that it saves.

A new job uses SUFFIX_LIST_FILE, or the list in the package, and keeps using it even if the file
changes: each of its checkpoints has a copy, compressed to 90 kB. With another list a host could
belong to another domain than the one it was counted for. With POLITENESS_KEY "domain" it could even
have two queues, and get two requests at the same time.
"""

from __future__ import annotations

import logging
import zlib
from pathlib import Path

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from webcrawl.crawl.job.jobdir import Job
from webcrawl.crawl.job.state_directory import SavedState
from webcrawl.errors import FatalError, read_file
from webcrawl.urls.registered_domain import SuffixList, bundled_list, site_of, use_list

logger = logging.getLogger(__name__)

_SOURCE = "https://publicsuffix.org/list/public_suffix_list.dat"

_PART = "suffixes"


def suffix_list_of(settings: BaseSettings) -> SuffixList:
    """Return the list in SUFFIX_LIST_FILE, or that of the package if the default file is missing.

    Raises FatalError for a file that cannot be read or contains no list.
    """
    name = "SUFFIX_LIST_FILE"
    path = Path(settings.get(name) or "")
    # Only a file that the user has named must exist.
    is_users_choice = (settings.getpriority(name) or 0) > SETTINGS_PRIORITIES["project"]
    if not settings.get(name) or not (is_users_choice or path.exists()):
        return bundled_list()

    data = read_file(path, name)
    try:
        return SuffixList(data.decode())
    except ValueError as error:
        reason = "is not UTF-8" if isinstance(error, UnicodeError) else error
        raise FatalError(f"{name} {path} {reason}: download it from {_SOURCE}.") from error


def open_suffix_list(job: Job, present: SuffixList) -> None:
    """Use the list saved in *job*, which must be open; if it has none, use and save *present*."""
    saved = job.own.saved_snapshot(_PART)
    crawl_list = present if saved is None else _decompress(saved)
    if crawl_list.text != present.text:
        logger.info(
            "This crawl keeps the public suffix list that it started with (%s); a new crawl would "
            "use the present one (%s)",
            crawl_list.version,
            present.version,
        )
    use_list(crawl_list)
    site_of("")  # loads the list, so that no page has to wait for that
    if saved is None:
        job.own.keep(_PART, zlib.compress(crawl_list.text.encode("utf-8")))


def use_suffix_list_of(state: SavedState) -> None:
    """Use the list saved in *state*, the state of a job, to answer questions about its crawl."""
    saved = state.snapshots.get(_PART)
    if saved is not None:
        use_list(_decompress(saved))


def _decompress(saved: bytes) -> SuffixList:
    """Return the list that is compressed in *saved*."""
    return SuffixList(zlib.decompress(saved).decode("utf-8"))
