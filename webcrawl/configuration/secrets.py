"""Credentials in settings: one list of what they are, and settings as they may be shown.

All that shows a setting goes by it: the log, messages, reports, commands, and the requests that are
stored with pages. Secret are

- the values of names in the list: of settings, of keys of their dictionaries, of header fields, of
  parameters of URLs
- user and password in URLs, wherever they stand: ``redis://***@host``
- JSON that cannot be read and has such a name in it

Nothing is hidden that is not set, so that it shows what is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

#: In place of what is not shown.
HIDDEN = "***"

_SECRET = re.compile(
    r"PASSWORD|PASSWD|PASSPHRASE|PASS(?![A-Z])|PWD|(?<![A-Z])PW(?![A-Z])|SECRET|TOKEN|CREDENTIAL"
    r"|AUTHORI[SZ]ATION|(?<![A-Z])AUTH\Z|COOKIE(?!S_)|KEYS?(?![A-Z])|(?<![A-Z])SIG(?![A-Z])"
    r"|SIGNATURE|WEBHOOK|CONNECTION.?STRING"
    # What else is in these nobody knows but a client of Redis or of a store.
    r"|REDIS_PARAMS|STORE_OPTIONS",
    re.IGNORECASE,
)
# Names like these that stand for something else.
_SHOWN = frozenset(
    {
        "POLITENESS_KEY",
        "MONITOR_TOKEN_FILE",
        "REDIS_START_URLS_KEY",
        "REDIS_ITEMS_KEY",
    }
    | {"SCHEDULER_QUEUE_KEY", "SCHEDULER_DUPEFILTER_KEY"}
)
# In dictionaries these are URLs and paths of components.
_NO_NAME = re.compile(r"[.:/\s]")
# As far as the last @ before a slash; where a password has one of /?#, which makes the URL
# unusable, as far as the last @ of all.
_USERINFO = re.compile(r"(?<=://)(?:[^/?#\s]*|:\S*|[^/?#\s@:\[]+:(?!\d*[/?#])\S*)@")
# Of a proxy that is named without a scheme.
_BARE_USERINFO = re.compile(r"\A(?!mailto:)[^\s/:@]*:[^\s/]*@(?=[^\s/@]+/?\Z)")
_PARAMETER = re.compile(r"([?&;]([^?&;=#\s]+)=)[^&#\s]+")
_QUOTED = re.compile(r"""(["']).*\1""", re.DOTALL)


@lru_cache(1024)
def is_secret(name: str | bytes) -> bool:
    """Whether what has that *name* is a credential.

    >>> [is_secret(name) for name in ("FTP_PASSWORD", "FTP_PASSIVE_MODE", b"X-Api-Key")]
    [True, False, True]
    """
    text = name if isinstance(name, str) else name.decode("latin-1")
    return bool(_SECRET.search(text)) and text not in _SHOWN and not _NO_NAME.search(text)


def masked(name: object, value: Any) -> Any:
    """*value* of the setting, key or header *name* as it may be shown: a new one, in which sets and
    tuples are lists.

    >>> masked("FEEDS", {"ftp://me:secret@a.test/x": {"format": "csv", "token": ""}})
    {'ftp://***@a.test/x': {'format': 'csv', 'token': ''}}
    """
    if isinstance(name, (str, bytes)) and is_secret(name) and value and value is not True:
        return HIDDEN
    match value:
        case str():
            return _masked_text(value)
        case Mapping():
            return {masked("", key): masked(key, one) for key, one in value.items()}
        case [first, second]:  # may be a header and its value
            return [masked("", first), masked(first, second)]
        case list() | tuple() | set() | frozenset():
            return [masked("", one) for one in value]
    shown = masked_url(repr(value))
    return value if shown == repr(value) else shown


def masked_url(text: str) -> str:
    """*text*, a URL or with URLs in it, as it may be shown.

    >>> masked_url("no answer of s3://key:secret@bucket/x?part=1&token=secret")
    'no answer of s3://***@bucket/x?part=1&token=***'
    """
    text = _USERINFO.sub(f"{HIDDEN}@", text) if "@" in text else text
    return _PARAMETER.sub(lambda one: one[1] + HIDDEN if is_secret(one[2]) else one[0], text)


def masked_error(error: Exception, url: object) -> str:
    """The sentence of *error*, of a parser or client that was given *url*, as it may be shown: of a
    URL with credentials they may quote any part."""
    text = masked_url(str(error))
    if isinstance(error, ValueError) and masked_url(str(url)) != str(url):
        return _QUOTED.sub(f"'{HIDDEN}'", text)
    return text


def _masked_text(text: str) -> str:
    if text.startswith(("{", "[")):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return HIDDEN if _SECRET.search(text) else masked_url(text)
        shown = masked("", value)
        return text if shown == value else json.dumps(shown)
    return masked_url(_BARE_USERINFO.sub(f"{HIDDEN}@", text) if "@" in text else text)
