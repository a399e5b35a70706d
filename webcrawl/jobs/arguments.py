"""Readers of the values that users give to commands: one for each kind of value.

As the type of an option, a reader is called before the command looks for its job.
"""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING

from webcrawl.configuration.values import MOST_SECS, convert_units
from webcrawl.errors import FatalError, require_file
from webcrawl.hosts.politeness.exclusions import host_in, purge_rules
from webcrawl.identity.names import is_mail
from webcrawl.urls import SCHEMES, host_of, normalize, normalize_seed

if TYPE_CHECKING:
    from collections.abc import Callable

# Number of characters of a wrong value that its error repeats.
_SHOWN_CHARS = 200


class WrongValueError(FatalError, ArgumentTypeError):
    """Raised for a value of the wrong kind; the parser of options shows its text."""


def wrong(text: str, kind: str) -> WrongValueError:
    """Return the error to raise because *text* is not *kind*."""
    return WrongValueError(f"{text[:_SHOWN_CHARS]!r} is not {kind}.")


def host(text: str) -> str:
    """Return the host, domain or address *text* in the form of ``host_of``."""
    name = text.strip().removesuffix(".")
    # An IPv6 address is in brackets in a URL.
    address = normalize(f"http://[{name.removeprefix('[').removesuffix(']')}]/")
    found = host_in(name) or host_of(address or "")
    if not found:
        raise wrong(text, "a host or domain, such as www.example.com")
    return found


def url(text: str, *, needs_scheme: bool = True) -> str:
    """Return the URL *text* in its normalized form; the default scheme is http."""
    found = normalize(text, schemes=SCHEMES) if needs_scheme else normalize_seed(text)
    if found is None:
        raise wrong(text, "a URL that this crawler can fetch, such as https://example.com/")
    return found


def mail(text: str) -> str:
    """Return the email address *text*."""
    if not is_mail(text):
        raise wrong(text, "an email address")
    return text


def network(text: str) -> str:
    """Return the address or network *text*."""
    try:
        ip_network(text)
    except ValueError as error:
        raise WrongValueError(f"{error}.") from error
    return text


def duration(text: str) -> float:
    """Return the seconds that *text* stands for; it may end with a unit."""
    with suppress(ValueError):
        secs = float(convert_units("AGE_SECS", text))
        if 0 <= secs <= MOST_SECS:
            return secs
    raise wrong(text, "a time, such as 90, 30min, 12h or 7d")


def age(text: str) -> float:
    """Return the seconds that *text* stands for; it must end with a unit."""
    if text.strip()[-1:].isalpha():
        with suppress(WrongValueError):
            return duration(text)
    raise wrong(text, "an age, such as 7d, 12h or 30min")


def whole(at_least: int, at_most: int = 10**12) -> Callable[[str], int]:
    """Return a reader of whole numbers from *at_least* to *at_most*."""

    def read(text: str) -> int:
        with suppress(ValueError):
            if at_least <= int(text) <= at_most:
                return int(text)
        raise wrong(text, f"a whole number from {at_least:,} to {at_most:,}")

    return read


def input_file(text: str) -> Path:
    """Return the path *text* of a file that can be read."""
    try:
        require_file(Path(text))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise WrongValueError(f"{text!r} cannot be read: {reason}.") from error
    return Path(text)


def rules_file(text: str) -> Path:
    """Return the path *text* of a file with rules as in EXCLUSION_FILE."""
    path = input_file(text)
    try:
        has_rules = len(purge_rules(path.read_text("utf-8", "replace"))) > 0
    except ValueError as error:
        raise WrongValueError(f"{text!r}: {error}.") from error
    if not has_rules:
        raise WrongValueError(f"{text!r} has no hosts or URLs.")
    return path


def output_file(text: str) -> Path:
    """Return the path *text* of a file that can be written."""
    path = Path(text)
    is_file = os.path.isfile(path) or not os.path.exists(path)  # noqa: PTH110, PTH113  # no name raises
    if not (is_file and os.path.isdir(path.parent)):  # noqa: PTH112  # as above
        raise WrongValueError(
            f"{text!r} cannot be written: name a file in a directory that exists."
        )
    return path
