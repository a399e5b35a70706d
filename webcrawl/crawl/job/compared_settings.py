"""Settings that decide how hosts see a crawl, as texts that the processes of a hive compare.

Those in ``FIXED`` must be equal in all processes, and so must the format of HIVE_STORE, which the
hive adds. The others may differ for some time, while the processes are restarted one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scrapy.settings import BaseSettings
from xxhash import xxh3_64_hexdigest

from webcrawl import __version__
from webcrawl.configuration.secrets import mask
from webcrawl.errors import read_file
from webcrawl.identity.keys import key_of
from webcrawl.identity.names import product_tokens, user_agent_of

FIXED = ("CRAWL_PURPOSE", "CRAWLER_NAME", "USER_AGENT", "HIVE_LEASE_SECS", "HIVE_STORE format")
# Key, politeness, scope, rights and rendering.
_COMPARED = re.compile(
    r"CRAWLER_.+|POLITENESS_(?!KEY).+|ROBOTS.+|NOFOLLOW_OBEY|CONTACTS_MAX|BANDWIDTH_MAX"
    r"|HOSTS_POLICY_FILE|EXCLUSION_FILE|BLOCKLISTS|URL_(?!TRACE).+|BUDGET_.+|REPUTATION_.+|TRAP_.+"
    r"|LINK_KINDS|ALLOW_PRIVATE_ADDRESSES|RIGHTS_.+|RENDER.*"
)
_MAX_CHARS = 80


def compared_settings(settings: BaseSettings) -> dict[str, str]:
    """Return the settings to compare, by name, without credentials. Blocks.

    A file and a long text are represented by a hash, the signing key by its ID. The version of
    webcrawl in the user agent may differ. Raises FatalError for a value that cannot be used.
    """
    key = key_of(settings)
    values = {name: settings[name] for name in (*FIXED, *filter(_COMPARED.fullmatch, settings))}
    # These are compared in the form that hosts see, or would differ without a reason.
    values |= {
        "CRAWLER_NAME": " ".join(product_tokens(settings)),
        "USER_AGENT": user_agent_of(settings).replace(f"/{__version__}", ""),
        "CRAWLER_KEY_FILE": key.id if key else None,
    }
    return {name: _as_text(name, value) for name, value in values.items()}


def _as_text(name: str, value: Any) -> str:
    """Return *value* of the setting *name* in the form in which it is compared and shown."""
    if value in (None, ""):
        return "not set"
    # The value of CRAWLER_KEY_FILE is the ID of the key here.
    if name.endswith("_FILE") and name != "CRAWLER_KEY_FILE":
        return f"content {xxh3_64_hexdigest(read_file(Path(value), name))}"
    try:
        return f"{float(value):.15g}"  # so that 1, "1" and 1.0 are equal
    except (TypeError, ValueError):
        text = str(mask(name, value))
        return text if len(text) <= _MAX_CHARS else f"{text[:20]}... {_hash_of(text)}"


def differences(own: Mapping[str, str], hive: Mapping[str, str], names: Iterable[str] = ()) -> str:
    """Describe how the settings of the *hive* differ from a drone's *own*, all or only *names*.

    Settings that only one of the two versions of webcrawl knows are left out.
    """
    return "; ".join(
        f"{name} {hive[name]}, not {own[name]}"
        for name in names or own
        if own[name] != hive.get(name, own[name])
    )


def digests(own: Mapping[str, str]) -> tuple[str, str]:
    """Return a hash of the settings that must be equal, and one of all."""
    fixed = _hash_of(str([own[name] for name in FIXED]))
    return fixed, _hash_of(str(sorted(own.items())))


def _hash_of(text: str) -> str:
    return xxh3_64_hexdigest(text.encode())
