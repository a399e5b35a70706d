"""Masks credentials in settings, headers and URLs before they are shown.

Everything that shows a setting uses this module: the log, messages, reports, commands, and the
requests that are stored with pages. It hides

- values whose names match a list of words: settings, keys of their dictionaries, header fields,
  parameters of URLs
- user and password in URLs anywhere in a text: ``redis://***@host``
- JSON that cannot be parsed and contains such a name

Empty values are not hidden, so that users can see which are set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

#: Shown in place of a hidden value.
HIDDEN = "***"

_SECRET = re.compile(
    r"PASSWORD|PASSWD|PASSPHRASE|PASS(?![A-Z])|PWD|(?<![A-Z])PW(?![A-Z])|SECRET|TOKEN|CREDENTIAL"
    r"|AUTHORI[SZ]ATION|(?<![A-Z])AUTH\Z|COOKIE(?!S_)|KEYS?(?![A-Z])|(?<![A-Z])SIG(?![A-Z])"
    r"|SIGNATURE|WEBHOOK|CONNECTION.?STRING"
    # Only the client library of Redis or of a store knows which of the keys in these are secret.
    r"|REDIS_PARAMS|STORE_OPTIONS",
    re.IGNORECASE,
)
# Names that match the pattern but are not secret.
_NOT_SECRET = frozenset(
    {
        "POLITENESS_KEY",
        "CRAWLER_KEY_FILE",
        "CRAWLER_SIGNATURE_AGENT",
        "CRAWLER_SIGNATURE_FORM",
        # Header fields of signed requests.
        "Signature-Agent",
        "Signature-Input",
        "MONITOR_TOKEN_FILE",
        "REDIS_START_URLS_KEY",
        "REDIS_ITEMS_KEY",
        "SCHEDULER_QUEUE_KEY",
        "SCHEDULER_DUPEFILTER_KEY",
    }
)
# A dictionary key with one of these characters is a URL or the path of a component, not a name.
_NOT_A_NAME = re.compile(r"[.:/\s]")
# Matches up to the last @ before a slash. If the password has one of /?#, which makes the URL
# unusable, matches up to the very last @.
_USERINFO = re.compile(r"(?<=://)(?:[^/?#\s]*|:\S*|[^/?#\s@:\[]+:(?!\d*[/?#])\S*)@")
# The same for a proxy without a scheme.
_BARE_USERINFO = re.compile(r"\A(?!mailto:)[^\s/:@]*:[^\s/]*@(?=[^\s/@]+/?\Z)")
_PARAMETER = re.compile(r"([?&;]([^?&;=#\s]+)=)[^&#\s]+")
_QUOTED = re.compile(r"""(["']).*\1""", re.DOTALL)


@lru_cache(1024)
def is_secret(name: str | bytes) -> bool:
    """Return whether a value called *name* is a credential.

    >>> [is_secret(name) for name in ("FTP_PASSWORD", "FTP_PASSIVE_MODE", b"X-Api-Key")]
    [True, False, True]
    """
    text = name if isinstance(name, str) else name.decode("latin-1")
    return bool(_SECRET.search(text)) and text not in _NOT_SECRET and not _NOT_A_NAME.search(text)


def mask(name: object, value: Any) -> Any:
    """Return *value* of the setting, key or header *name* with all credentials hidden.

    Collections are copied; sets and tuples become lists.

    >>> mask("FEEDS", {"ftp://me:secret@a.test/x": {"format": "csv", "token": ""}})
    {'ftp://***@a.test/x': {'format': 'csv', 'token': ''}}
    """
    # True is no credential, but may be the value of a setting that switches one on.
    if isinstance(name, (str, bytes)) and is_secret(name) and value and value is not True:
        return HIDDEN

    match value:
        case str():
            return _masked_text(value)
        case Mapping():
            return {mask("", key): mask(key, item) for key, item in value.items()}
        case [first, second]:  # may be a header and its value
            return [mask("", first), mask(first, second)]
        case list() | tuple() | set() | frozenset():
            return [mask("", item) for item in value]
    masked_text = masked_url(repr(value))
    return value if masked_text == repr(value) else masked_text


def masked_url(text: str) -> str:
    """Return *text* with the credentials hidden in all URLs that it contains.

    >>> masked_url("no answer of s3://key:secret@bucket/x?part=1&token=secret")
    'no answer of s3://***@bucket/x?part=1&token=***'
    """
    text = _USERINFO.sub(f"{HIDDEN}@", text) if "@" in text else text
    return _PARAMETER.sub(
        lambda match: match[1] + HIDDEN if is_secret(match[2]) else match[0], text
    )


def masked_error(error: Exception, url: object) -> str:
    """Return the text of *error*, raised by a parser or client of *url*, with credentials hidden.

    If the URL has credentials, all quoted text is hidden, because it may be any part of the URL.
    """
    text = masked_url(str(error))
    if isinstance(error, ValueError) and masked_url(str(url)) != str(url):
        return _QUOTED.sub(f"'{HIDDEN}'", text)
    return text


def _masked_text(text: str) -> str:
    """Return *text*, which may be JSON, with all credentials hidden."""
    if text.startswith(("{", "[")):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return HIDDEN if _SECRET.search(text) else masked_url(text)
        masked_value = mask("", value)
        return text if masked_value == value else json.dumps(masked_value)
    return masked_url(_BARE_USERINFO.sub(f"{HIDDEN}@", text) if "@" in text else text)
