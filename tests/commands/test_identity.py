"""The command that makes, shows and checks what site owners see of the crawler."""

from __future__ import annotations

import json
import re
import ssl
from datetime import timedelta
from types import SimpleNamespace

import pytest
import trustme
import warm
from http_message_signatures import HTTPMessageVerifier, MappingKeyResolver, algorithms
from http_site import HttpSite, serving
from scrapy.settings import Settings
from verifying import Verifier, public_key

from webcrawl.identity.keys import read_key
from webcrawl.identity.signatures import DIRECTORY_PATH
from webcrawl.jobs.identity import check
from webcrawl.jobs.identity.published import sign_directory

GIVEN = {"CRAWL_PURPOSE": "search", "CRAWLER_CONTACT": "bot@a.test"}
TYPE = "application/http-message-signatures-directory+json"


def identity(*words, **given):
    options = [word for name, value in given.items() for word in ("-s", f"{name}={value}")]
    return warm.scrapy("identity", *words, *options)


class Bot:
    """An identity in *directory*, and the https site that publishes it as nginx would."""

    def __init__(self, directory):
        self.directory = directory
        self.verifier = None  # of the page /signed
        self.type = TYPE
        self.site = HttpSite(self._answer)
        self.url = f"https://localhost:{self.site.server_port}"
        self.settings = {
            **GIVEN,
            "CRAWLER_SIGNATURE_AGENT": self.url,
            "CRAWLER_KEY_FILE": str(directory / "key.pem"),
            "POLITENESS_MIN_DELAY": "0.01",
        }

    def run(self, *words, **more):
        return identity(*words, **{**self.settings, **more})

    @property
    def key(self):
        return read_key(self.directory / "key.pem")

    def signed(self):
        """The fields that nginx adds to the answer with the directory."""
        text = (self.directory / "nginx-signature.conf").read_text()
        return dict(re.findall(r"^add_header ([\w-]+) '([^']*)';$", text, re.MULTILINE))

    def checked(self, *addresses, **more):
        """The findings about it, those that have failed first."""
        settings = Settings({"USER_AGENT": "webcrawl/0.3", **self.settings, **more})
        found = check.check_identity(settings, list(addresses))
        return sorted(found, key=lambda finding: finding.verdict != check.FAILED)

    def _answer(self, request):
        if request.path == "/signed":
            fields = {
                name.lower().encode(): value.encode() for name, value in request.headers.items()
            }
            if self.verifier(fields):
                return 200, {}, b"welcome"
            return 401, {"Accept-Signature": 'sig1=("@authority");tag="web-bot-auth"'}, b""
        body = (self.directory / f"public{request.path}").read_bytes()
        return 200, {"Content-Type": self.type, **self.signed()}, body


@pytest.fixture
def bot(tmp_path, monkeypatch):
    made = Bot(tmp_path / "bot")
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(tls)
    made.site.socket = tls.wrap_socket(made.site.socket, server_side=True)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    run = made.run("init", made.directory, "--address", "192.0.2.0/28", "--address", "2001:db8::1")
    assert run.returncode == 0, run.stderr
    with serving(made.site):
        yield made


def test_init_writes_a_private_key_and_what_is_published(bot):
    assert (bot.directory / "key.pem").stat().st_mode & 0o777 == 0o600
    public = bot.directory / "public"
    published = {str(path.relative_to(public)) for path in public.rglob("*") if path.is_file()}
    assert published == {DIRECTORY_PATH[1:], "card.json", "ips.json", "contact.html"}
    assert json.loads((public / DIRECTORY_PATH[1:]).read_text()) == {"keys": [bot.key.jwk]}
    card = json.loads((public / "card.json").read_text())
    assert card["client_id"] == f"{bot.url}/card.json"
    assert card["jwks_uri"] == bot.url + DIRECTORY_PATH
    assert card["web_bot_auth"]["rfc9309-product-token"] == "webcrawl-search"
    assert card["web_bot_auth"]["purpose"] == "search"
    prefixes = json.loads((public / "ips.json").read_text())["prefixes"]
    assert prefixes == [{"ipv4Prefix": "192.0.2.0/28"}, {"ipv6Prefix": "2001:db8::1/128"}]
    page = (public / "contact.html").read_text()
    for text in ("Purpose: search", "webcrawl-search", f"{bot.url}/ips.json", "Where to complain"):
        assert text in page
    nginx = (bot.directory / "nginx.conf").read_text()
    assert f"root {public};" in nginx
    assert f"default_type {TYPE};" in nginx
    secret = (bot.directory / "key.pem").read_text().splitlines()[1]
    for path in bot.directory.rglob("*"):
        assert path.name == "key.pem" or not path.is_file() or secret not in path.read_text()


def test_what_is_published_passes_the_check(bot):
    found = bot.checked("127.0.0.1")
    assert not [finding for finding in found if finding.verdict == check.FAILED]
    text = "\n".join(finding.text for finding in found)
    assert f"has the key {bot.key.id} and is signed with it" in text
    assert "webcrawl-search or webcrawl" in text
    assert "127.0.0.1 is called localhost, which has this address" in text
    run = bot.run("check")
    assert run.returncode == 0
    assert "not checked  which sites verify signatures" in run.stdout
    shown = bot.run("show")
    assert "behaviour Search" in shown.stdout
    assert bot.key.id in shown.stdout


def test_what_is_wrong_with_it_fails_the_check(bot, monkeypatch):
    def failure(*addresses, **more):
        first, second = bot.checked(*addresses, **more)[:2]
        assert (first.verdict, second.verdict) == (check.FAILED, check.OK)
        return first.text

    assert "CRAWL_PURPOSE is not set" in failure(CRAWL_PURPOSE="")
    assert "CRAWLER_CONTACT is not set" in failure(CRAWLER_CONTACT="")
    assert "CRAWLER_KEY_FILE is not set" in failure(CRAWLER_KEY_FILE="")
    assert "nowhere.invalid has no name in DNS" in failure("nowhere.invalid")
    signed = (bot.directory / "nginx-signature.conf").read_text()
    (bot.directory / "nginx-signature.conf").write_text("")
    assert "is missing or wrong" in failure()
    (bot.directory / "nginx-signature.conf").write_text(signed.replace("created=1", "created=2"))
    assert "is missing or wrong" in failure()
    sign_directory(bot.directory, Settings(bot.settings), clock=lambda: 1_700_000_000)
    assert "has expired" in failure()
    bot.type = "application/json"
    assert "with type application/json, not" in failure()
    bot.type = TYPE
    (bot.directory / f"public{DIRECTORY_PATH}").write_text('{"keys":[]}')
    assert f"does not have the key {bot.key.id}" in failure()
    monkeypatch.delenv("SSL_CERT_FILE")
    assert "CERTIFICATE_VERIFY_FAILED" in failure()
    assert bot.run("check").returncode == 1


def test_both_keys_are_published_and_sign_after_a_rotation(bot):
    old = bot.key
    assert bot.run("init", bot.directory, "--rotate").returncode == 0
    body = (bot.directory / f"public{DIRECTORY_PATH}").read_bytes()
    assert json.loads(body)["keys"] == [bot.key.jwk, old.jwk]
    assert bot.key.id != old.id
    keys = {key.id: public_key(key) for key in (bot.key, old)}
    answer = SimpleNamespace(
        status_code=200,
        headers=bot.signed(),
        request=SimpleNamespace(method="GET", url=bot.url + DIRECTORY_PATH, headers={}),
    )
    verifier = HTTPMessageVerifier(
        signature_algorithm=algorithms.ED25519,
        key_resolver=MappingKeyResolver(public_keys=keys, private_keys={}),
    )
    verified = verifier.verify(
        answer,
        max_age=timedelta(minutes=5),
        expect_tag="http-message-signatures-directory",
        require_components=('"@authority";req', '"content-digest"'),
        body=body,
    )
    assert {result.parameters["keyid"] for result in verified} == set(keys)
    assert not [one for one in bot.checked() if one.verdict == check.FAILED]


@pytest.mark.parametrize("wanted", ["string", "dictionary"])
def test_check_says_which_form_a_site_accepts(bot, wanted):
    agent = bot.url + (DIRECTORY_PATH if wanted == "dictionary" else "")
    bot.verifier = Verifier({agent: {bot.key.id: public_key(bot.key)}}, form=wanted)
    run = bot.run("check", f"{bot.url}/signed")
    *refused, accepted = run.stdout.splitlines()
    assert f"ok  {wanted} form: 200 OK: accepted" in accepted
    assert [line.split()[:2] for line in refused] == [["failed", "string"]] * (wanted != "string")
    for line in refused:
        assert "does not know the key" in line
        assert 'it asks for sig1=("@authority")' in line
    assert run.returncode == len(refused)


def test_check_of_a_url_needs_a_key_and_https(bot):
    for url, more, sentence in (
        ("http://a.test/", {}, "must be an https URL"),
        ("https://a.test/", {"CRAWLER_KEY_FILE": ""}, "CRAWLER_KEY_FILE is not set"),
    ):
        run = bot.run("check", url, **more)
        assert run.returncode == 2
        assert sentence in run.stderr


def test_init_refuses_what_it_cannot_do_and_changes_nothing(bot, tmp_path):
    (tmp_path / "job/shards").mkdir(parents=True)
    (tmp_path / "job/CURRENT").write_text("1\n")
    before = sorted(tmp_path.rglob("*"))
    key = bot.key.id
    for words, more, sentence in (
        ([bot.directory], {}, "exists: choose a new directory, or use --rotate."),
        ([tmp_path], {}, "exists: choose a new directory"),
        ([tmp_path / "new", "--rotate"], {}, "has no key: leave out --rotate."),
        ([tmp_path / "job/bot"], {}, "is in a job, which may be copied and shared"),
        ([tmp_path / "new", "--address", "here"], {}, "--address cannot be used: 'here' does not"),
        ([tmp_path / "new"], {"CRAWL_PURPOSE": ""}, "CRAWL_PURPOSE is not set"),
        ([tmp_path / "new"], {"CRAWLER_CONTACT": ""}, "CRAWLER_CONTACT is empty"),
        ([tmp_path / "new"], {"CRAWLER_SIGNATURE_AGENT": ""}, "CRAWLER_SIGNATURE_AGENT must be"),
    ):
        run = bot.run("init", *words, **more)
        assert (run.returncode, run.stderr.count("\n")) == (2, 1), run.stderr
        assert sentence in run.stderr
    assert sorted(tmp_path.rglob("*")) == before
    assert bot.key.id == key


def test_a_bad_key_is_one_sentence_in_tools_of_scrapy_too(tmp_path):
    key = tmp_path / "key.pem"
    key.write_text("nonsense")
    key.chmod(0o600)
    words = ["-s", f"CRAWLER_KEY_FILE={key}", "-s", "CRAWLER_SIGNATURE_AGENT=https://bot.test"]
    run = warm.scrapy("fetch", "http://a.invalid/", *words)
    assert run.returncode == 2
    assert run.stderr.count("CRAWLER_KEY_FILE") == 1 or run.stdout.count("CRAWLER_KEY_FILE") == 1
    assert "Traceback" not in run.stderr + run.stdout
