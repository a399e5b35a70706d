"""Checks of an identity, as others see it: names, published keys, addresses, answers of sites."""

from __future__ import annotations

import re
import socket
import time
from contextlib import closing
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from webcrawl.clock import wall_time
from webcrawl.configuration.values import number
from webcrawl.errors import FatalError
from webcrawl.hosts.robots.rules import RobotsRules
from webcrawl.identity.keys import SigningKey, key_of
from webcrawl.identity.names import contact_of, product_tokens, user_agent_of
from webcrawl.identity.signatures import DIRECTORY_PATH, FORMS, signature_agent_of, signed_fields
from webcrawl.jobs.arguments import url as read_url
from webcrawl.jobs.arguments import wrong
from webcrawl.jobs.identity.published import directory_fields
from webcrawl.rights.purposes import purpose_of
from webcrawl.wording import COMMAND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.settings import BaseSettings

_MEDIA_TYPE = "application/http-message-signatures-directory+json"
#: Result of a check: "ok", "failed" or "not checked", and a sentence about it.
Finding: TypeAlias = tuple[str, str]
OK = "ok"
FAILED = "failed"
UNKNOWN = "not checked"
_TIMEOUT_SECS = 15
_MAX_BYTES = 1 << 20
# In a Signature-Input field: when the signature was made and when it expires, in epoch seconds.
_SIGNED_AT = re.compile(r"created=(\d{1,12});.*?;expires=(\d{1,12})")
_MEANINGS = {
    400: "the site cannot read the signature in this form",
    401: "the site has read the signature, but does not know the key, or asks for another",
    403: "the site refuses the crawler, signed or not",
    429: "the site got too many requests, or one signature too often",
}


def shown_identity(settings: BaseSettings) -> dict[str, str]:
    """Return what *settings* say about the crawler, by what it is, as text."""
    key = key_of(settings)
    facts = {
        "User-Agent": user_agent_of(settings),
        # The names whose rules the crawler follows: the first of them that a file has.
        "robots.txt": ", or else ".join((*product_tokens(settings), "*")),
        "purpose": purpose_of(settings) or "not stated: set CRAWL_PURPOSE",
        "signatures": "none: set CRAWLER_KEY_FILE",
    }
    if key is not None:
        facts["signatures"] = f"in the {settings['CRAWLER_SIGNATURE_FORM']} form"
        facts["key"] = key.id
        facts["published"] = signature_agent_of(settings) + DIRECTORY_PATH
    return facts


def check_identity(settings: BaseSettings, addresses: list[str]) -> Iterator[Finding]:
    """Yield what could be verified of the identity of *settings*, and what could not.

    *addresses* are those from which requests are sent, whose names in DNS are checked. Raises
    FatalError for an unusable setting or key.
    """
    yield OK, f"the User-Agent is {user_agent_of(settings)}"
    yield _run_check(_check_robots, product_tokens(settings))
    key = key_of(settings)
    needed = {
        "CRAWL_PURPOSE is not set, so owners do not learn the purpose": purpose_of(settings),
        "CRAWLER_CONTACT is not set, so owners cannot ask or complain": contact_of(settings),
        "CRAWLER_KEY_FILE is not set, so requests are not signed": key,
    }
    yield from ((FAILED, text) for text, value in needed.items() if not value)
    if key is not None:
        yield _run_check(_check_directory, signature_agent_of(settings), key)
    yield from (_run_check(_check_dns, address) for address in addresses)
    if not addresses:
        yield UNKNOWN, "the names of your addresses in DNS: give each with --address"
    # Nobody can find this out from here, so every report says it.
    yield UNKNOWN, "which sites verify signatures and know this key, and what proxies change"


def check_answer(settings: BaseSettings, url: str) -> Iterator[Finding]:
    """Send a signed request for *url*, and yield what the answer means.

    If it is refused, a second request in the other form follows after POLITENESS_MIN_DELAY. Raises
    FatalError if *url* is not for https, or without a key.
    """
    url = read_url(url)
    if not url.startswith("https:"):
        raise wrong(url, "an https URL: other requests are not signed")
    key = key_of(settings)
    if key is None:
        raise FatalError(f"CRAWLER_KEY_FILE is not set: {COMMAND} identity init makes a key.")
    # A signature covers the authority without the default port.
    authority = urlsplit(url).netloc.lower().removesuffix(":443").encode()
    agent = signature_agent_of(settings)
    own_form = settings["CRAWLER_SIGNATURE_FORM"]

    # The form in the settings comes first, because False sorts before True.
    for form in sorted(FORMS, key=lambda form: form != own_form):
        if form != own_form:
            time.sleep(number(settings, "POLITENESS_MIN_DELAY", at_least=0))
        fields = signed_fields(authority, key, agent=agent, form=form, created=int(wall_time()))
        headers: dict[Any, Any] = {"User-Agent": user_agent_of(settings), **dict(fields)}
        finding = _run_check(_check_form, url, form, headers)
        yield finding
        if finding[0] == OK:
            return


def _run_check(check: Callable[..., str], *values: object) -> Finding:
    """Return what *check* says of *values*: its result, or its FatalError, which says why not."""
    try:
        return OK, check(*values)
    except FatalError as error:
        return FAILED, str(error)


def _check_form(url: str, form: str, headers: dict[Any, Any]) -> str:
    """Request *url* with *headers*, signed in this *form*; return a sentence about the answer.

    Raises FatalError with that sentence if the request is refused.
    """
    answer, _ = _get(url, headers)
    is_accepted = 200 <= answer.status < 400
    meaning = "accepted, unless the site does not verify signatures at all"
    if not is_accepted:
        meaning = _MEANINGS.get(answer.status, "the answer says nothing about the signature")
    if wanted := answer.getheader("Accept-Signature"):
        meaning += f"; it asks for {wanted}"
    text = f"{form} form: {answer.status} {answer.reason}: {meaning}"
    if not is_accepted:
        raise FatalError(text)
    return text


def _check_robots(tokens: tuple[str, ...]) -> str:
    """Check that owners can exclude the crawler by each of its *tokens*."""
    for token in tokens:
        # A file that allows everybody but this crawler. It is understood if it forbids us a URL.
        file = f"User-agent: *\nAllow: /\n\nUser-agent: {token}\nDisallow: /\n".encode()
        if RobotsRules.parse(file, tokens=tokens).decide("https://example.org/").allow:
            raise FatalError(f"robots.txt files cannot name the crawler as {token}")
    return f"robots.txt files can name the crawler as {' or '.join(tokens)}"


def _check_directory(site: str, key: SigningKey) -> str:
    """Check the key directory of *site*: TLS, media type, that it has *key*, its signature."""
    url = site + DIRECTORY_PATH
    answer, body = _get(url, {})
    kind = answer.getheader("Content-Type")
    if answer.status != 200 or kind != _MEDIA_TYPE:
        raise FatalError(f"{url} answered {answer.status} with type {kind}, not {_MEDIA_TYPE}")
    if key.id.encode() not in body:
        raise FatalError(f"{url} does not have the key {key.id} of CRAWLER_KEY_FILE")

    problem = _signature_problem(answer, body, site.removeprefix("https://"), key)
    if problem:
        raise FatalError(
            f"the signature of {url} {problem}: run {COMMAND} identity sign-directory DIR"
        )
    return f"{url} has the key {key.id} and is signed with it"


def _signature_problem(answer: HTTPResponse, body: bytes, authority: str, key: SigningKey) -> str:
    """Return what is wrong with the signature by *key* of a key directory, or "".

    Ed25519 is deterministic, so the right signature is the one that we make ourselves.
    """
    match = _SIGNED_AT.search(answer.getheader("Signature-Input", ""))
    if match is None:
        return "is missing or wrong"
    created, expires = map(int, match.groups())
    # For some time after a rotation, the fields also contain the signature by the old key.
    fields = directory_fields(body, [key], authority=authority, created=created)
    if any(value not in answer.getheader(name, "") for name, value in fields.items()):
        return "is missing or wrong"
    return "has expired" if expires < wall_time() else ""


def _check_dns(address: str) -> str:
    """Check that the name of *address* in DNS has this address."""
    try:
        name = socket.gethostbyaddr(address)[0]
        found = {info[4][0] for info in socket.getaddrinfo(name, None)}
    except (OSError, ValueError) as error:
        raise FatalError(f"{address} has no name in DNS: {error}") from error
    if address not in found:
        raise FatalError(f"{address} is called {name}, which has other addresses in DNS")
    return f"{address} is called {name}, which has this address"


def _get(url: str, headers: dict[Any, Any]) -> tuple[HTTPResponse, bytes]:
    """Fetch the https *url* once, without redirects, and check its certificate.

    At most 1 MiB is read.
    """
    parts = urlsplit(url)
    # Without a query, there is no question mark.
    path = f"{parts.path or '/'}?{parts.query}".rstrip("?")
    try:
        with closing(HTTPSConnection(parts.netloc, timeout=_TIMEOUT_SECS)) as connection:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer, answer.read(_MAX_BYTES)
    except (OSError, ValueError, HTTPException) as error:
        raise FatalError(f"{url} gave no answer: {error}") from error
