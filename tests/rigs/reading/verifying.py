"""Web Bot Auth as a server checks it, by the package http-message-signatures."""

from base64 import urlsafe_b64decode
from types import SimpleNamespace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from http_message_signatures import (
    HTTPMessageVerifier,
    InvalidSignature,
    MappingKeyResolver,
    algorithms,
)

from webcrawl.identity.signatures import DIRECTORY_PATH


class Verifier:
    """Lets requests pass that are signed with *key*, published at the site *agent*, in *form*.

    *passed* counts them.
    """

    def __init__(self, key, *, agent, form):
        self.verifier = verifier_of(key)
        self.agent, self.component = f'"{agent}"', '"signature-agent"'
        if form == "dictionary":
            self.agent, self.component = (
                f'sig1="{agent}{DIRECTORY_PATH}"',
                f'{self.component};key="sig1"',
            )
        self.passed = 0

    def __call__(self, headers):
        """Whether the fields of a request, as simweb has them, are those of a signed one."""
        try:
            self.check({name.decode(): value.decode("latin-1") for name, value in headers.items()})
        except InvalidSignature:
            return False
        self.passed += 1
        return True

    def check(self, fields):
        """Raise InvalidSignature unless *fields*, by name in lower case, are right."""
        if fields.get("signature-agent") != self.agent:
            raise InvalidSignature("another agent, or another form")
        message = SimpleNamespace(method="GET", url=f"https://{fields['host']}/", headers=fields)
        components = ('"@authority"', self.component)
        (result,) = self.verifier.verify(
            message, expect_tag="web-bot-auth", require_components=components
        )
        if "expires" not in result.parameters:
            raise InvalidSignature("it never expires")


def verifier_of(*keys):
    """What verifies messages that were signed with any of *keys*, by their published forms."""
    public = {
        key.id: Ed25519PublicKey.from_public_bytes(urlsafe_b64decode(f"{key.jwk['x']}="))
        for key in keys
    }
    resolver = MappingKeyResolver(public_keys=public, private_keys={})
    return HTTPMessageVerifier(signature_algorithm=algorithms.ED25519, key_resolver=resolver)
