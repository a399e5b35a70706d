"""Signatures of requests and of the key directory: vectors of the drafts, and a real verifier."""

import base64
import re
import time

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scrapy.settings import Settings
from text_tables import each, table
from verifying import Verifier

from webcrawl.errors import FatalError
from webcrawl.identity import signatures
from webcrawl.identity.keys import SigningKey, read_key, write_new_key
from webcrawl.identity.signatures import FORMS, Signer, signature_of, signed_fields, signer_of

AGENT = "https://bot.test"
# A key on secp224k1.
UNKNOWN_CURVE = """-----BEGIN PRIVATE KEY-----
MHkCAQAwEAYHKoZIzj0CAQYFK4EEACAEYjBgAgEBBB0AMppYj6IIFcNENqkCqBvR
kE6xE3gobmuYSS8RoqE8AzoABHPosl6HhOApfklT2lJ/mru+//ecd2sQuwkzdBkX
OBfIX2SjxADcks1mBa6hTAFsjNWgfFuCm+sz
-----END PRIVATE KEY-----
"""
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


def fields_of(form, key=OURS, agent=AGENT, age=0):
    """The fields of a request, by name in lower case, as a server has them."""
    created = int(time.time()) - age
    made = signed_fields(b"site.test", key, agent=agent, form=form, created=created)
    return {b"host": b"site.test"} | {name.lower(): value for name, value in made}


def passes(fields, form):
    return Verifier(OURS, agent=AGENT, form=form)(fields)


def test_the_key_has_the_thumbprint_and_the_signature_of_the_rfc():
    assert RFC_KEY.id == "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"
    assert base64.b64encode(RFC_KEY.sign(RFC_BASE.encode())).decode() == RFC_SIGNATURE


# The Ed25519 vectors of draft-ietf-webbotauth-httpsig-protocol-01: the dictionary, and "Legacy
# Signature-Agent, sf-string".
@each(
    "component expires nonce signature",
    *table("""
        "signature-agent";key="agent2" | 4889289600
        | n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA==
        | RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==
        "signature-agent" | 1735693200
        | e8N7S2MFd/qrd6T2R3tdfAuuANngKI7LFtKYI/vowzk4lAZYadIX6wW25MwG7DCT9RUKAJ0qVkU0mEeLElW1qg==
        | jdq0SqOwHdyHr9+r5jw3iYZH6aNGKijYp/EstF4RQTQdi5N5YYKrD+mCT1HA1nZDsi6nJKuHxUi/5Syp3rLWBA==
    """),
)
def test_requests_are_signed_as_in_the_vectors_of_the_draft(component, expires, nonce, signature):
    covered = {'"@authority"': "example.com", component: '"https://signature-agent.test"'}
    # The vectors have a nonce after "expires", which we do not send.
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


def test_both_forms_are_verified_and_neither_passes_for_the_other():
    passed = {(form, other) for form in FORMS for other in FORMS if passes(fields_of(form), other)}
    assert passed == {(form, form) for form in FORMS}
    # What deployed verifiers want: no parameters of components, the agent in double quotes.
    fields = fields_of("string")
    assert fields[b"signature-agent"] == b'"https://bot.test"'
    assert fields[b"signature-input"].startswith(b'sig1=("@authority" "signature-agent");created=1')


# What is wrong, the field to change after signing, the pattern to replace in it, the replacement.
CHANGED = table(r"""
    other authority | host | site | other
    agent changed | signature-agent | bot | not
    no signature | signature | .* |
    signature changed | signature | :.. | :..
    other tag | signature-input | -auth | -auto
    no expiry | signature-input | expires=\d+; |
    other algorithm | signature-input | ed25519 | hmac-sha256
    authority not covered | signature-input | "@authority" |
    agent not covered | signature-input | ("@authority").*?\) | \1)
""")
# What is wrong, and values to sign with.
SIGNED = {
    "expired": {"age": 400},
    "from the future": {"age": -1000},
    "other key under our id": {"key": FORGED},
    "unknown key": {"key": OTHER},
    "agent without our key": {"agent": "https://other.test"},
    "agent by http": {"agent": "http://bot.test"},
}


@each("form", *FORMS)
@each("wrong name pattern text", *CHANGED)
def test_a_server_refuses_what_was_changed(form, wrong, name, pattern, text):
    fields = fields_of(form)
    old = fields[name.encode()]
    fields[name.encode()] = re.sub(pattern.encode(), text.encode(), old, count=1)
    assert fields[name.encode()] != old
    assert not passes(fields, form), wrong


@each("form", *FORMS)
@each("wrong", *SIGNED)
def test_a_server_refuses_what_was_signed_wrongly(form, wrong):
    assert not passes(fields_of(form, **SIGNED[wrong]), form)


def test_a_signature_is_reused_for_its_authority_while_a_minute_is_left(monkeypatch):
    now = 1_800_000_000.0
    signer = Signer(OURS, agent=AGENT, form="string", clock=lambda: now)
    first = signer(b"a.test")
    assert signer(b"b.test") != first
    now += 239
    assert signer(b"a.test") is first
    now += 2
    second = signer(b"a.test")
    assert second != first
    now -= 100  # the clock was set back: a signature must not be from the future
    assert signer(b"a.test") not in (first, second)
    monkeypatch.setattr(signatures, "_MAX_AUTHORITIES", 10)
    for number in range(100):
        signer(b"%d.test" % number)
        assert len(signer._made) <= 10


@each(
    "setting value sentence",
    *table("""
        SIGNATURE_AGENT | | CRAWLER_SIGNATURE_AGENT must be the https site that publishes your key
        SIGNATURE_AGENT | http://bot.test | CRAWLER_SIGNATURE_AGENT must be the https site
        SIGNATURE_AGENT | https:// | CRAWLER_SIGNATURE_AGENT must be the https site
        SIGNATURE_AGENT | bot.test | CRAWLER_SIGNATURE_AGENT must be the https site
        SIGNATURE_AGENT | https://bot.test/keys | CRAWLER_SIGNATURE_AGENT must be the https site
        SIGNATURE_AGENT | https://bücher.test | CRAWLER_SIGNATURE_AGENT must be the https site
        SIGNATURE_FORM | both | CRAWLER_SIGNATURE_FORM must be string or dictionary, not 'both'.
        KEY_FILE | /nowhere/key.pem | CRAWLER_KEY_FILE /nowhere/key.pem cannot be read: No such file
        KEY_FILE | /etc/passwd | CRAWLER_KEY_FILE /etc/passwd must be private: run chmod 600
        KEY_FILE | {dir}/bad.pem | must contain an Ed25519 key in PEM format
        KEY_FILE | {dir}/curve.pem | must contain an Ed25519 key in PEM format
        KEY_FILE | {dir}/job/key.pem | must not be in JOBDIR: move it elsewhere.
    """),
)
def test_unusable_keys_and_settings_are_a_sentence(tmp_path, setting, value, sentence):
    path, bad = tmp_path / "key.pem", tmp_path / "bad.pem"
    assert write_new_key(path).id == read_key(path).id
    secret = path.read_text()
    bad.touch(0o600)
    bad.write_text(secret[:60])
    (tmp_path / "curve.pem").touch(0o600)
    (tmp_path / "curve.pem").write_text(UNKNOWN_CURVE)
    settings = Settings({"CRAWLER_KEY_FILE": str(path), "CRAWLER_SIGNATURE_AGENT": AGENT})
    settings["JOBDIR"] = str(tmp_path / "job")
    assert signer_of(settings) is not None
    settings[f"CRAWLER_{setting}"] = value.format(dir=tmp_path)
    with pytest.raises(FatalError) as caught:
        signer_of(settings)
    assert sentence in str(caught.value)
    assert secret[40:60] not in str(caught.value)
