"""Signatures of requests, and of the key directory (RFC 9421).

Requests are signed as in draft-ietf-webbotauth-httpsig-protocol-01, in one of two forms:

``string``
    ``Signature-Agent`` is a string, the origin of the key directory, as in earlier drafts (see
    "Legacy Signature-Agent" in the appendix). The deployed verifiers accept this form.
``dictionary``
    ``Signature-Agent`` is a dictionary whose value is the URL of the key directory, and the
    signature covers the member by its key. The draft requires this form.

`signed_fields` alone makes the fields, so another draft changes only that function.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field

from scrapy.settings import BaseSettings

from webcrawl.clock import TimeSource, wall_time
from webcrawl.configuration.values import choice
from webcrawl.errors import FatalError
from webcrawl.identity.keys import SigningKey, key_of

Fields = tuple[tuple[bytes, bytes], ...]

#: Path of the key directory (section "Directory Format").
DIRECTORY_PATH = "/.well-known/http-message-signatures-directory"
FORMS = ("string", "dictionary")
_LABEL = "sig1"
# Seconds for which the signature of a request is valid, and those that must be left when it is sent
# again. Reuse saves most signatures, as robots.txt and the first pages of a host share one.
_VALID_SECS = 300
_MIN_LEFT_SECS = 60
_MAX_AUTHORITIES = 10_000


@dataclass(repr=False, eq=False)
class Signer:
    """Signs requests; called with the authority of a request, it returns the fields to add.

    *agent* is the origin of the key directory. The signature covers only the authority and *agent*,
    so it is reused for the same authority while at least a minute is left.
    """

    key: SigningKey
    agent: str
    form: str
    clock: TimeSource = wall_time
    _made: dict[bytes, tuple[int, Fields]] = field(default_factory=dict)

    def __call__(self, authority: bytes) -> Fields:
        """Return the fields for a request to *authority*: host in lower case, port if unusual."""
        now = self.clock()
        made, fields = self._made.get(authority, (0, ()))
        # A signature from the future was made before the clock was set back.
        if made <= now < made + _VALID_SECS - _MIN_LEFT_SECS:
            return fields
        if len(self._made) >= _MAX_AUTHORITIES:
            self._made.clear()
        fields = signed_fields(
            authority, self.key, agent=self.agent, form=self.form, created=int(now)
        )
        self._made[authority] = int(now), fields
        return fields


def signer_of(settings: BaseSettings) -> Signer | None:
    """Return the signer for requests as *settings* say, or None without CRAWLER_KEY_FILE.

    Raises FatalError for an unusable key, CRAWLER_SIGNATURE_AGENT or CRAWLER_SIGNATURE_FORM.
    """
    key = key_of(settings)
    if key is None:
        return None
    form = choice(settings, "CRAWLER_SIGNATURE_FORM", FORMS)
    return Signer(key, agent=signature_agent_of(settings), form=form)


def signature_agent_of(settings: BaseSettings) -> str:
    """Return CRAWLER_SIGNATURE_AGENT, an https origin. Raises FatalError if it is anything else."""
    agent = str(settings.get("CRAWLER_SIGNATURE_AGENT") or "")
    origin = agent.rstrip("/").lower()
    if not re.fullmatch(r"https://[a-z0-9.-]+(:[0-9]+)?", origin):
        raise FatalError(
            "CRAWLER_SIGNATURE_AGENT must be the https site that publishes your key, such as "
            f"https://bot.example.org, without a path, not {agent!r}."
        )
    return origin


def signed_fields(
    authority: bytes, key: SigningKey, *, agent: str, form: str, created: int
) -> Fields:
    """Return the header fields that sign a request to *authority* at *created*, epoch seconds.

    The module's docstring describes the two forms.
    """
    # The component that is signed, its value, and the header field that is sent.
    value = f'"{agent}"'
    component = '"signature-agent"'
    sent = value
    if form == "dictionary":
        value = f'"{agent}{DIRECTORY_PATH}"'
        component += f';key="{_LABEL}"'
        sent = f"{_LABEL}={value}"
    covered = {'"@authority"': authority.decode("latin-1"), component: value}
    given, signature = signature_of(
        covered, key, label=_LABEL, created=created, expires=created + _VALID_SECS
    )
    return (
        (b"Signature-Agent", sent.encode()),
        (b"Signature-Input", given.encode()),
        (b"Signature", signature.encode()),
    )


def signature_of(
    covered: Mapping[str, str],
    key: SigningKey,
    *,
    label: str,
    created: int,
    expires: int,
    tag: str = "web-bot-auth",
) -> tuple[str, str]:
    """Return the values of ``Signature-Input`` and ``Signature`` (RFC 9421, sections 2.5 and 4).

    *covered* are the identifiers of the covered components with their values. *created* and
    *expires* are epoch seconds.
    """
    parameters = (
        f'({" ".join(covered)});created={created};keyid="{key.id}";alg="ed25519"'
        f';expires={expires};tag="{tag}"'
    )
    lines = (f"{name}: {value}" for name, value in covered.items())
    base = "\n".join((*lines, f'"@signature-params": {parameters}'))
    signature = b64encode(key.sign(base.encode("latin-1"))).decode()
    return f"{label}={parameters}", f"{label}=:{signature}:"
