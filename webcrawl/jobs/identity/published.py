"""Files that an operator publishes about the crawler, and the key that belongs to them.

A directory of an identity has:

``key.pem``
    The key. After a rotation ``key.old.pem`` is the one before, and both are published.
``public/``
    Files to serve at CRAWLER_SIGNATURE_AGENT: the key directory (a JSON Web Key Set), ``card.json``
    (draft-meunier-webbotauth-registry-04), ``ips.json`` (draft-illyes-webbotauth-jafar-00) and
    ``contact.html``, the page for site owners.
``nginx.conf``, ``nginx-signature.conf``
    Configuration that serves them, and the fields that sign the answer with the key directory
    (draft-ietf-webbotauth-httpsig-protocol-01, "Signed Directory Response"). They expire, so
    ``sign_directory`` makes them again.

The texts are templates, filled with the same facts from the settings.
"""

from __future__ import annotations

import hashlib
import html
import ipaddress
import json
from base64 import b64encode
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from webcrawl.clock import TimeSource, wall_time
from webcrawl.configuration.values import flag, positive_number
from webcrawl.errors import FatalError
from webcrawl.hive.launch.job_directories import is_crawl
from webcrawl.hosts.politeness.delays import PolitenessLimits, profile_of
from webcrawl.identity.keys import SigningKey, read_key, write_new_key
from webcrawl.identity.names import contact_of, is_page, product_tokens, user_agent_of
from webcrawl.identity.signatures import DIRECTORY_PATH, signature_agent_of, signature_of
from webcrawl.net.limits import page_max_bytes
from webcrawl.rights.purposes import purpose_of
from webcrawl.storage.atomic import replacement, write_atomic
from webcrawl.wording import iso_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scrapy.settings import BaseSettings

_TEMPLATES = Path(__file__).parents[2] / "templates"
_KEY = "key.pem"
_OLD_KEY = "key.old.pem"
# Twice the time between two runs of the daily job that signs again.
_SIGNED_SECS = 2 * 86_400


def write_identity(
    directory: Path,
    settings: BaseSettings,
    *,
    addresses: list[str],
    mail: str | None,
    rotate: bool,
) -> SigningKey:
    """Make *directory* with a new key and all files, and return the key.

    With *rotate* the directory exists already: its key becomes the old one, and the other files
    stay as they are, unless *addresses* are given: ips.json and contact.html cannot be written
    without them. *addresses* and *mail* as for ``contact_page``; an address may be a network.
    *directory* is absolute. Raises FatalError, and changes nothing, if a setting is missing or it
    cannot be used.
    """
    site = signature_agent_of(settings)
    files: dict[str, str] = {}
    if addresses or not rotate:
        facts = facts_of(settings, mail) | {"site": site, "directory": str(directory)}
        files = {
            "nginx.conf": _fill_template("identity-nginx.conf", facts, str),
            # The template has the quotes of the strings.
            "public/card.json": _fill_template(
                "signature-agent-card.json", facts, lambda text: json.dumps(text)[1:-1]
            ),
            "public/ips.json": json.dumps(_ip_ranges(addresses, wall_time()), indent=2),
            "public/contact.html": contact_page(settings, addresses, mail),
        }
    elif mail:
        raise FatalError("--rotate writes --mail only together with each --address: give both.")
    if not purpose_of(settings):
        raise FatalError("CRAWL_PURPOSE is not set: a key belongs to one purpose.")
    if any(map(is_crawl, (directory, *directory.parents))):
        raise FatalError(
            f"{directory} is in a job, which may be copied and shared: choose another."
        )
    if rotate and not (directory / _KEY).exists():
        raise FatalError(f"{directory} has no key: leave out --rotate.")
    if not rotate and directory.exists():
        raise FatalError(f"{directory} exists: choose a new directory, or use --rotate.")

    # Everything has been checked. From here on, files are changed.
    directory.mkdir(parents=True, exist_ok=rotate)
    if rotate:
        write_atomic(directory / _OLD_KEY, (directory / _KEY).read_bytes(), is_secret=True)
    with replacement(directory / _KEY) as new:
        new.unlink(missing_ok=True)  # left behind by a run that was killed
        key = write_new_key(new)
    keys = [one.jwk for one in _keys_in(directory)]
    files[f"public{DIRECTORY_PATH}"] = json.dumps({"keys": keys}, separators=(",", ":"))
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomic(directory / name, text.encode())
    sign_directory(directory, settings)
    return key


def sign_directory(
    directory: Path, settings: BaseSettings, *, clock: TimeSource = wall_time
) -> None:
    """Write the fields that sign the answer with the key directory, valid for two days."""
    body = (directory / f"public{DIRECTORY_PATH}").read_bytes()
    authority = signature_agent_of(settings).removeprefix("https://")
    fields = directory_fields(body, _keys_in(directory), authority=authority, created=int(clock()))
    lines = (f"add_header {name} '{value}';\n" for name, value in fields.items())
    write_atomic(directory / "nginx-signature.conf", "".join(lines).encode())


def directory_fields(
    body: bytes, keys: Sequence[SigningKey], *, authority: str, created: int
) -> dict[str, str]:
    """Return the fields of an answer with the key directory *body*, signed with each of *keys*."""
    digest = f"sha-256=:{b64encode(hashlib.sha256(body).digest()).decode()}:"
    signed = [
        signature_of(
            {'"@authority";req': authority, '"content-digest"': digest},
            key,
            label=f"binding{number}",
            created=created,
            expires=created + _SIGNED_SECS,
            tag="http-message-signatures-directory",
        )
        for number, key in enumerate(keys)
    ]
    # Each field lists the values of all keys.
    inputs, signatures = map(", ".join, zip(*signed, strict=True))
    return {"Content-Digest": digest, "Signature-Input": inputs, "Signature": signatures}


def _keys_in(directory: Path) -> list[SigningKey]:
    """Return the key in *directory*, and the old one if there is one."""
    paths = map(directory.joinpath, (_KEY, _OLD_KEY))
    return [read_key(path) for path in paths if path.exists()]


def _ip_ranges(addresses: list[str], now: float) -> dict[str, Any]:
    """Return *addresses* as the contents of ips.json."""
    return {
        "creationTime": iso_time(now),
        "prefixes": [
            {f"ipv{one.version}Prefix": str(one)} for one in map(ipaddress.ip_network, addresses)
        ],
    }


def facts_of(settings: BaseSettings, mail: str | None) -> dict[str, str]:
    """Return what all texts about the crawler say: its names, purpose, contact, shortest pause.

    Raises FatalError for a wrong setting, or without a mail address in *mail* or CRAWLER_CONTACT.
    """
    contact = contact_of(settings)
    if not contact:
        raise FatalError("CRAWLER_CONTACT is empty: the page must say whom to contact.")
    if is_page(contact) and not mail:
        raise FatalError(
            f"CRAWLER_CONTACT is {contact}, the page itself: give a mail address with "
            "--mail ADDRESS."
        )
    return {
        "token": product_tokens(settings)[0],
        "agent": user_agent_of(settings),
        "purpose": purpose_of(settings),
        "contact": mail or contact,
        "floor": f"{profile_of(settings).floor:g}",
    }


def contact_page(settings: BaseSettings, addresses: list[str], mail: str | None) -> str:
    """Return the contact page as HTML.

    *addresses* are those that the crawler uses. *mail* is the mail address to write to; None takes
    it from CRAWLER_CONTACT. Raises FatalError for a wrong setting or without a mail address.
    """
    profile = profile_of(settings)
    limits = PolitenessLimits.from_settings(settings)
    facts = facts_of(settings, mail)
    max_delay = f"{limits.crawl_delay:g} seconds"
    # A sentence for each value of the setting on what to do with a Crawl-delay that is too long.
    long_delays = {
        "skip": f"A host that asks for more than {max_delay} is not crawled.",
        "cap": f"If a host asks for more than {max_delay}, the crawler waits only {max_delay}.",
        "obey": "",
    }[limits.long_crawl_delay]
    # These two are HTML. The template puts *rules* into an item of a list.
    robots = "This crawl does not read robots.txt."
    rules = "It respects Retry-After."
    if flag(settings, "ROBOTSTXT_OBEY"):
        robots = (
            "The crawler follows robots.txt (RFC 9309). Add to it: "
            f"<code>User-agent: {html.escape(facts['token'])}</code>, <code>Disallow: /</code>."
        )
        hours = positive_number(settings, "ROBOTS_EXPIRE_SECS") / 3600
        rules = (
            f"It respects Crawl-delay in robots.txt, and Retry-After. {long_delays}</li>\n"
            f"<li>It fetches robots.txt before the first page, and again after {hours:g} hours."
        )

    signed = ""
    why = [facts["purpose"], settings["WARC_DESCRIPTION"]]
    if settings["CRAWLER_SIGNATURE_AGENT"]:
        agent = signature_agent_of(settings)
        signed = (
            f"Our requests for https URLs are signed (Web Bot Auth, RFC 9421). The keys are at "
            f"{agent}{DIRECTORY_PATH}, and our addresses at {agent}/ips.json."
        )
    facts |= {
        "signed": signed,
        "operator": settings["WARC_OPERATOR"] or "see the contact",
        "why": ": ".join(filter(None, why)) or "see the contact",
        "key": {"host": "A host", "domain": "A domain", "address": "An IP address"}[profile.key],
        "factor": f"{profile.factor:g} times the download time, " if profile.factor else "",
        "addresses": f"Ours come from {', '.join(addresses)}." if addresses else "",
        "size": f"{page_max_bytes(settings):,}",
    }
    return _fill_template("contact-page.html", facts, html.escape, robots=robots, rules=rules)


def _fill_template(
    name: str, facts: Mapping[str, str], escape: Callable[[str], str], **escaped_facts: str
) -> str:
    """Return the template *name* with *facts*, passed through *escape*, and *escaped_facts*."""
    values = {key: escape(value) for key, value in facts.items()} | escaped_facts
    return Template((_TEMPLATES / f"{name}.tmpl").read_text("utf-8")).substitute(values)
