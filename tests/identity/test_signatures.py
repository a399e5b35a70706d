"""Signatures of requests and of the key directory: vectors of the drafts, and a real verifier."""

from __future__ import annotations

import base64
import re
import time

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from http_message_signatures import InvalidSignature
from scrapy.settings import Settings
from verifying import Verifier, public_key

from webcrawl.errors import FatalError
from webcrawl.identity.keys import SigningKey, read_key, write_new_key
from webcrawl.identity.signatures import (
    DIRECTORY_PATH,
    FORMS,
    Signer,
    signature_of,
    signed_fields,
    signer_of,
)

AGENT = "https://bot.test"
SITE = "site.test"
NAMED = {"string": AGENT, "dictionary": AGENT + DIRECTORY_PATH}
# RFC 9421, appendix B.1.4: the Ed25519 key of its and of the drafts' vectors.
RFC_KEY = SigningKey(
    Ed25519PrivateKey.from_private_bytes(
        base64.urlsafe_b64decode("n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU=")
    )
)
# RFC 9421, appendix B.2.6.
RFC_BASE = """\
"date": Tue, 20 Apr 2021 02:07:55 GMT
"@method": POST
"@path": /foo
"@authority": example.com
"content-type": application/json
"content-length": 18
"@signature-params": ("date" "@method" "@path" "@authority" "content-type" "content-length")\
;created=1618884473;keyid="test-key-ed25519"\
"""
RFC_SIGNATURE = (
    "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw=="
)
OURS, OTHER, FORGED = (SigningKey(Ed25519PrivateKey.generate()) for _ in range(3))
FORGED.id = OURS.id


def fields_of(form, **changed):
    """The fields of a request, by name in lower case, as a server has them."""
    given = {"key": OURS, "agent": AGENT, "form": form, "created": int(time.time()), **changed}
    made = signed_fields(SITE.encode(), given.pop("key"), **given)
    return {"host": SITE} | {name.decode().lower(): value.decode() for name, value in made}


def verifier(form):
    keys = {NAMED[form]: {OURS.id: public_key(OURS)}, "https://other.test": {}}
    return Verifier(keys, form=form)


def test_the_key_has_the_thumbprint_and_the_signature_of_the_rfc():
    assert RFC_KEY.id == "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"
    assert base64.b64encode(RFC_KEY.sign(RFC_BASE.encode())).decode() == RFC_SIGNATURE


@pytest.mark.parametrize(
    ("component", "expires", "nonce", "signature"),
    [
        (  # draft-ietf-webbotauth-httpsig-protocol-01, Ed25519, dictionary
            '"signature-agent";key="agent2"', 4889289600,
            "n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA==",
            "RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==",
        ),
        (  # the same, "Legacy Signature-Agent, sf-string"
            '"signature-agent"', 1735693200,
            "e8N7S2MFd/qrd6T2R3tdfAuuANngKI7LFtKYI/vowzk4lAZYadIX6wW25MwG7DCT9RUKAJ0qVkU0mEeLElW1qg==",
            "jdq0SqOwHdyHr9+r5jw3iYZH6aNGKijYp/EstF4RQTQdi5N5YYKrD+mCT1HA1nZDsi6nJKuHxUi/5Syp3rLWBA==",
        ),
    ],
)  # fmt: skip
def test_requests_are_signed_as_in_the_vectors_of_the_draft(component, expires, nonce, signature):
    covered = {'"@authority"': "example.com", component: '"https://signature-agent.test"'}
    # The vectors have a nonce, which we do not send, after "expires".
    times = {"created": 1735689600, "expires": f'{expires};nonce="{nonce}"'}
    assert signature_of(covered, RFC_KEY, label="sig2", **times)[1] == f"sig2=:{signature}:"


def test_the_directory_is_signed_as_in_the_vector_of_the_draft():
    digest = "sha-256=:CADMT2aBdV/rqQr/NIru64ERQkCobVvllA4V0fLFDu0=:"
    covered = {'"@authority";req': "signature-agent.test", '"content-digest"': digest}
    given, signature = signature_of(
        covered, RFC_KEY, label="binding0", created=1735689600, expires=4889289600,
        tag="http-message-signatures-directory",
    )  # fmt: skip
    assert given == (
        'binding0=("@authority";req "content-digest");created=1735689600'
        ';keyid="poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";alg="ed25519";expires=4889289600'
        ';tag="http-message-signatures-directory"'
    )
    assert signature == (
        "binding0=:yiHq0TXrbpzbmlttAQMpYoAufitFJUWuNsakB7QQMoN0EHbo5o51bZRVR8az/ptTWCwllix9clrKXfGK"
        "wdPzBg==:"
    )


@pytest.mark.parametrize("form", FORMS)
def test_both_forms_are_verified_and_neither_passes_for_the_other(form):
    fields = fields_of(form)
    verifier(form).check(fields)
    (other,) = set(FORMS) - {form}
    with pytest.raises(InvalidSignature):
        verifier(other).check(fields)


def test_the_string_form_has_what_deployed_verifiers_want():
    fields = fields_of("string", created=1_000)
    assert fields["signature-agent"] == f'"{AGENT}"'
    assert fields["signature-input"] == (
        f'sig1=("@authority" "signature-agent");created=1000;keyid="{OURS.id}";alg="ed25519"'
        ';expires=1300;tag="web-bot-auth"'
    )


def edited(name, pattern, text):
    def edit(fields):
        new = re.sub(pattern, text, fields[name], count=1)
        assert new != fields[name]
        return {**fields, name: new}

    return edit


def without(name):
    return lambda fields: {key: value for key, value in fields.items() if key != name}


NOW = int(time.time())
# What is wrong: other values to sign with, and a change after signing.
WRONG = {
    "expired": ({"created": NOW - 400}, dict),
    "from the future": ({"created": NOW + 1000}, dict),
    "other authority": ({}, lambda fields: {**fields, "host": "other.test"}),
    "other port": ({}, lambda fields: {**fields, "host": f"{SITE}:8443"}),
    "other key under our id": ({"key": FORGED}, dict),
    "unknown key": ({"key": OTHER}, dict),
    "agent without our key": ({"agent": "https://other.test"}, dict),
    "agent changed": ({}, edited("signature-agent", "bot.test", "not.test")),
    "agent by http": ({"agent": "http://bot.test"}, dict),
    "agent without quotes": ({}, edited("signature-agent", '"(.*)"', r"\1")),
    "agent with a parameter": ({}, edited("signature-agent", "$", ";x=1")),
    "no agent": ({}, without("signature-agent")),
    "no input": ({}, without("signature-input")),
    "no signature": ({}, without("signature")),
    "signature cut": ({}, edited("signature", "......:$", ":")),
    "signature changed": ({}, edited("signature", ":.", lambda m: ":B" if m[0] == ":A" else ":A")),
    "signature not bytes": ({}, edited("signature", ":(.*):", r'"\1"')),
    "other tag": ({}, edited("signature-input", "web-bot-auth", "web-bot")),
    "no tag": ({}, edited("signature-input", ";tag=.*", "")),
    "later expiry": ({}, edited("signature-input", r"expires=\d+", f"expires={NOW + 900}")),
    "valid for a week": ({}, edited("signature-input", r"expires=\d+", f"expires={NOW + 604_800}")),
    "earlier creation": ({}, edited("signature-input", r"created=\d+", f"created={NOW - 100}")),
    "no creation": ({}, edited("signature-input", r"created=\d+;", "")),
    "no key id": ({}, edited("signature-input", r'keyid="[^"]*";', "")),
    "other algorithm": ({}, edited("signature-input", "ed25519", "hmac-sha256")),
    "authority not covered": ({}, edited("signature-input", '"@authority" ', "")),
    "agent not covered": ({}, edited("signature-input", r'("@authority").*?\)', r"\1)")),
    "component twice": ({}, edited("signature-input", '"@authority"', '"@authority" "@authority"')),
    "other order": ({}, edited("signature-input", "(created=[0-9]+);(keyid=[^;]*)", r"\2;\1")),
    "other label": ({}, edited("signature", "sig1", "sig2")),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_server_refuses_what_was_not_signed_so(form, wrong):
    given, edit = WRONG[wrong]
    with pytest.raises(InvalidSignature):
        verifier(form).check(edit(fields_of(form, **given)))


def test_a_signature_is_reused_for_its_authority_while_a_minute_is_left(steady_clock):
    clock = steady_clock
    signer = Signer(OURS, agent=AGENT, form="string", clock=clock)
    first = signer(b"a.test")
    assert signer(b"b.test") != first
    clock.now += 239
    assert signer(b"a.test") is first
    clock.now += 2
    second = signer(b"a.test")
    assert second != first
    clock.now -= 100  # the clock was set back: a signature must not be from the future
    assert signer(b"a.test") not in (first, second)


def test_the_table_of_signatures_is_bounded(steady_clock):
    signer = Signer(OURS, agent=AGENT, form="string", clock=steady_clock)
    for number in range(10_001):
        signer(b"%d.test" % number)
    assert len(signer._made) == 1


@pytest.fixture
def steady_clock():
    class Clock:
        now = 1_800_000_000.0

        def __call__(self):
            return self.now

    return Clock()


@pytest.fixture
def key_path(tmp_path):
    path = tmp_path / "key.pem"
    write_new_key(path)
    return path


def test_a_key_file_is_private_and_read_as_written(key_path):
    assert key_path.stat().st_mode & 0o777 == 0o600
    assert read_key(key_path).jwk == read_key(key_path).jwk
    assert read_key(key_path).id != RFC_KEY.id
    with pytest.raises(FileExistsError):
        write_new_key(key_path)


def test_unusable_keys_and_settings_are_a_sentence(key_path):
    def refusal(**values):
        settings = {"CRAWLER_KEY_FILE": str(key_path), "CRAWLER_SIGNATURE_AGENT": AGENT, **values}
        with pytest.raises(FatalError) as caught:
            signer_of(Settings(settings))
        return str(caught.value)

    assert signer_of(Settings({"CRAWLER_SIGNATURE_AGENT": "nonsense"})) is None
    for agent in (
        "",
        "http://bot.test",
        "https://",
        "bot.test",
        f"{AGENT}/keys",
        "https://bücher.test",
    ):
        assert refusal(CRAWLER_SIGNATURE_AGENT=agent).startswith(
            "CRAWLER_SIGNATURE_AGENT must be the https site that publishes your key"
        )
    assert "must be string or dictionary, not 'both'" in refusal(CRAWLER_SIGNATURE_FORM="both")
    assert "must not be in JOBDIR" in refusal(JOBDIR=str(key_path.parent))
    assert "cannot be read: No such file" in refusal(CRAWLER_KEY_FILE="/nowhere/key.pem")
    key_path.chmod(0o640)
    assert f"must be private: run chmod 600 {key_path}" in refusal()
    key_path.chmod(0o600)
    secret = key_path.read_text()
    for text in ("", "nonsense", secret[:60], secret.replace("M", "N", 1)):
        key_path.write_text(text)
        sentence = refusal()
        assert "must contain an Ed25519 key in PEM format" in sentence
        assert secret.splitlines()[1] not in sentence
