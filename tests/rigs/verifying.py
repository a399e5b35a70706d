"""Web Bot Auth as a server checks it, by the package http-message-signatures."""

from __future__ import annotations

import base64
from datetime import timedelta
from types import SimpleNamespace

import http_sf
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from http_message_signatures import (
    HTTPMessageVerifier,
    InvalidSignature,
    MappingKeyResolver,
    algorithms,
)

TAG = "web-bot-auth"
DAY = 86_400


class Verifier:
    """Accepts requests signed by *keys*, by key id for each Signature-Agent, in the form *form*.

    *passed* counts what it let pass.
    """

    def __init__(self, keys, *, form):
        self.keys = keys
        self.form = form
        self.passed = 0

    def __call__(self, headers):
        """Whether the fields of a request, as simweb has them, are those of a signed one."""
        fields = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in headers.items()
        }
        try:
            self.check(fields)
        except InvalidSignature:
            return False
        self.passed += 1
        return True

    def check(self, fields):
        """Raise InvalidSignature unless *fields*, by name in lower case, are right."""
        agent, component = self._agent_of(fields)
        resolver = MappingKeyResolver(public_keys=self.keys.get(agent, {}), private_keys={})
        verifier = HTTPMessageVerifier(
            signature_algorithm=algorithms.ED25519, key_resolver=resolver
        )
        message = SimpleNamespace(method="GET", url=f"https://{fields['host']}/", headers=fields)
        (result,) = verifier.verify(
            message,
            max_age=timedelta(days=1),
            expect_tag=TAG,
            require_components=('"@authority"', component),
        )
        lifetime = result.parameters.get("expires", 1e99) - result.parameters["created"]
        if not 0 < lifetime <= DAY:
            raise InvalidSignature("it is valid for more than a day")

    def _agent_of(self, fields):
        """The URL in Signature-Agent, and the component that has to be covered."""
        value = fields.get("signature-agent", "")
        try:
            if self.form == "string":
                agent, parameters = http_sf.parse(value.encode(), tltype="item")
                component = '"signature-agent"'
            else:
                members = http_sf.parse(value.encode(), tltype="dictionary")
                ((label, (agent, parameters)),) = members.items()
                component = f'"signature-agent";key="{label}"'
        except ValueError as error:
            raise InvalidSignature(f"Signature-Agent: {error}") from error
        if parameters or type(agent) is not str or not agent.startswith("https://"):
            raise InvalidSignature(f"Signature-Agent {value}")
        return agent, component


def public_key(signing_key):
    """What the verifier needs of a `SigningKey`, from its published form."""
    raw = base64.urlsafe_b64decode(signing_key.jwk["x"] + "=")
    return Ed25519PublicKey.from_public_bytes(raw)
