"""The command that makes, shows and checks what site owners see of the crawler."""

import json
import re
import ssl
import sys
from types import SimpleNamespace

import pytest
import trustme
import warm
from http_site import HttpSite, serving
from scrapy.settings import Settings
from text_tables import each, table
from verifying import Verifier, verifier_of

from webcrawl.identity.keys import read_key
from webcrawl.identity.signatures import DIRECTORY_PATH
from webcrawl.jobs.identity.published import sign_directory

TYPE = "application/http-message-signatures-directory+json"
# Rotates the key, but ends with 9 as soon as a file is changed while the key is not there.
WATCHED = """
import os, sys
from pathlib import Path
from scrapy.cmdline import execute

key, directory, *words = sys.argv[1:]
path = Path(key)

def watch(event, args):
    if event in {"open", "os.rename", "os.remove"} and not (path.exists() and path.stat().st_size):
        os._exit(9)

sys.addaudithook(watch)
execute(["scrapy", "identity", "init", directory, "--rotate", *words])
"""


class Bot:
    """An identity in *path*, and the https site that publishes it as nginx would.

    *verifier* judges requests for /signed.
    """

    def __init__(self, path, tls):
        self.path = path
        self.type = TYPE
        self.site = HttpSite(self._answer)
        self.site.socket = tls.wrap_socket(self.site.socket, server_side=True)
        self.url = f"https://localhost:{self.site.server_port}"
        self.settings = {
            "CRAWL_PURPOSE": "search",
            "CRAWLER_CONTACT": "bot@a.test",
            "CRAWLER_SIGNATURE_AGENT": self.url,
            "CRAWLER_KEY_FILE": f"{path}/key.pem",
            "POLITENESS_MIN_DELAY": 0,
        }

    def run(self, *words, **more):
        given = (f"{name}={value}" for name, value in {**self.settings, **more}.items())
        return warm.scrapy("identity", *words, *(word for one in given for word in ("-s", one)))

    def signed(self):
        """The fields that nginx adds to the answer with the directory."""
        text = (self.path / "nginx-signature.conf").read_text()
        return dict(re.findall(r"^add_header ([\w-]+) '([^']*)';$", text, re.MULTILINE))

    def published(self, name):
        return (self.path / f"public/{name}").read_text()

    def _answer(self, request):
        if request.path == "/signed":
            fields = {
                name.lower().encode(): text.encode() for name, text in request.headers.items()
            }
            wanted = {"Accept-Signature": 'sig1=("@authority")'}
            return (200 if self.verifier(fields) else 401), wanted, b""
        return (
            200,
            {"Content-Type": self.type, **self.signed()},
            self.published(request.path).encode(),
        )


@pytest.fixture
def bot(tmp_path, monkeypatch):
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(tls)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    made = Bot(tmp_path / "bot", tls)
    run = made.run("init", made.path, "--address", "192.0.2.0/28", "--address", "2001:db8::1")
    assert run.returncode == 0, run.stderr
    with serving(made.site):
        yield made


def test_init_writes_a_private_key_and_what_is_published(bot):
    key = bot.path / "key.pem"
    assert key.stat().st_mode & 0o777 == 0o600
    card = json.loads(bot.published("card.json"))
    assert card["jwks_uri"] == bot.url + DIRECTORY_PATH
    assert card["web_bot_auth"]["rfc9309-product-token"] == "webcrawl-search"
    (v4, v6) = json.loads(bot.published("ips.json"))["prefixes"]
    assert (v4, v6) == ({"ipv4Prefix": "192.0.2.0/28"}, {"ipv6Prefix": "2001:db8::1/128"})
    assert f"{bot.url}/ips.json" in bot.published("contact.html")
    assert f"default_type {TYPE};" in (bot.path / "nginx.conf").read_text()
    texts = (path.read_text() for path in bot.path.rglob("*") if path.is_file())
    assert sum(key.read_text().splitlines()[1] in text for text in texts) == 1


@pytest.mark.cures("the signature of {} {}: run scrapy identity sign-directory DIR")
def test_check_passes_what_is_published_and_names_what_is_wrong(bot, monkeypatch):
    def check(*words, **more):
        run = bot.run("check", *words, **more)
        failures = re.findall(r"failed  (.*)", run.stdout)
        assert run.returncode == len(failures) <= 1
        return failures[0] if failures else run.stdout

    passed = check("--address", "127.0.0.1")
    key = read_key(bot.path / "key.pem")
    for text in (
        f"has the key {key.id} and is signed with it",
        "webcrawl-search or webcrawl",
        "127.0.0.1 is called localhost, which has this address",
        "not checked  which sites verify signatures",
    ):
        assert text in passed
    for name in ("CRAWL_PURPOSE", "CRAWLER_CONTACT", "CRAWLER_KEY_FILE"):
        assert f"{name} is not set" in check(**{name: ""})
    assert "192.0.2.1 has no name in DNS" in check("--address", "192.0.2.1")
    run = bot.run("check", f"https://{'a' * 80}/")
    assert run.stdout.count(f"https://{'a' * 80}/ gave no answer") == 2
    sign_directory(bot.path, Settings(bot.settings), clock=lambda: 1_700_000_000)
    assert "has expired: run scrapy identity sign-directory DIR" in check()
    assert bot.run("sign-directory", bot.path).returncode == 0
    assert f"has the key {key.id} and is signed with it" in check()
    (bot.path / "nginx-signature.conf").write_text("")
    assert "is missing or wrong" in check()
    (bot.path / f"public{DIRECTORY_PATH}").write_text('{"keys":[]}')
    assert f"does not have the key {key.id}" in check()
    bot.type = "application/json"
    assert f"with type application/json, not {TYPE}" in check()
    monkeypatch.delenv("SSL_CERT_FILE")
    assert "CERTIFICATE_VERIFY_FAILED" in check()
    assert f"key  {key.id}" in bot.run("show").stdout


def test_both_keys_are_published_and_sign_after_a_rotation(bot):
    others = ("ips.json", "contact.html", "card.json")
    before = {name: bot.published(name) for name in others}
    # A page as the contact needs --mail, but not here.
    contact = {"CRAWLER_CONTACT": f"{bot.url}/contact.html"}
    assert bot.run("init", bot.path, "--rotate", **contact).returncode == 0
    assert {name: bot.published(name) for name in others} == before
    keys = [read_key(bot.path / name) for name in ("key.pem", "key.old.pem")]
    body = bot.published(DIRECTORY_PATH)
    assert json.loads(body)["keys"] == [key.jwk for key in keys]
    request = SimpleNamespace(method="GET", url=bot.url + DIRECTORY_PATH, headers={})
    verified = verifier_of(*keys).verify(
        SimpleNamespace(status_code=200, headers=bot.signed(), request=request),
        expect_tag="http-message-signatures-directory",
        require_components=('"@authority";req', '"content-digest"'),
        body=body.encode(),
    )
    assert {result.parameters["keyid"] for result in verified} == {key.id for key in keys}
    assert bot.run("check").returncode == 0
    given = ("--rotate", "--address", "192.0.2.9", "--mail", "owners@a.test")
    assert bot.run("init", bot.path, *given).returncode == 0
    assert "192.0.2.9/32" in bot.published("ips.json")
    assert "192.0.2.9" in bot.published("contact.html")
    assert "owners@a.test" in bot.published("contact.html")


def test_the_key_is_there_at_every_instant_of_a_rotation(bot):
    given = [word for name, value in bot.settings.items() for word in ("-s", f"{name}={value}")]
    command = [sys.executable, "-c", WATCHED, str(bot.path / "key.pem"), str(bot.path), *given]
    key = read_key(bot.path / "key.pem")
    (bot.path / "key.pem.tmp").write_text("left by a run that was killed")
    run = warm.run(command)
    assert run.returncode == 0, run.stderr
    assert read_key(bot.path / "key.old.pem").id == key.id
    assert {path.name for path in bot.path.iterdir()} == {
        *("key.pem", "key.old.pem", "nginx.conf", "nginx-signature.conf", "public")
    }


@each("wanted", "string", "dictionary")
def test_check_says_which_form_a_site_accepts(bot, wanted):
    bot.verifier = Verifier(read_key(bot.path / "key.pem"), agent=bot.url, form=wanted)
    run = bot.run("check", f"{bot.url}/signed")
    *refused, accepted = run.stdout.splitlines()
    assert f"ok  {wanted} form: 200 OK: accepted" in accepted
    assert run.returncode == len(refused) == (wanted != "string")
    for line in refused:
        assert "failed  string form: 401" in line
        assert "does not know the key" in line
        assert 'it asks for sig1=("@authority")' in line


REFUSED = table("""
    init {dir}/bot | | exists: choose a new directory, or use --rotate.
    init {dir}/new --rotate | | has no key: leave out --rotate.
    init {dir}/job/bot | | is in a job, which may be copied and shared
    init {dir}/bot --rotate --mail b@a.test | | --rotate writes --mail only together with
    init {dir}/bot --rotate | CRAWLER_SIGNATURE_AGENT | CRAWLER_SIGNATURE_AGENT must be
    init {dir}/new | CRAWL_PURPOSE | CRAWL_PURPOSE is not set
    init {dir}/new | CRAWLER_CONTACT | CRAWLER_CONTACT is empty
    init {dir}/new | CRAWLER_SIGNATURE_AGENT | CRAWLER_SIGNATURE_AGENT must be
    check http://a.test/ | | is not an https URL
    check https://[::1 | | is not a URL
    check https://127.0.0.1:99999/ | | is not a URL
    check https://a.test/ | CRAWLER_KEY_FILE | CRAWLER_KEY_FILE is not set
""")


def test_what_cannot_be_done_is_a_sentence_and_changes_nothing(bot, tmp_path):
    (tmp_path / "job").mkdir()
    (tmp_path / "job/CURRENT").write_text("1\n")
    before = sorted(tmp_path.rglob("*"))
    for words, settings, sentence in REFUSED:
        run = bot.run(*words.format(dir=tmp_path).split(), **dict.fromkeys(settings.split(), ""))
        assert (run.returncode, run.stderr.count("\n")) == (2, 1), run.stderr
        assert sentence in run.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_a_bad_key_is_one_sentence_in_tools_of_scrapy_too(tmp_path):
    run = warm.scrapy("fetch", "http://a.invalid/", "-s", f"CRAWLER_KEY_FILE={tmp_path}")
    assert run.returncode == 2
    assert run.stderr.count("CRAWLER_KEY_FILE") == 1
    assert "Traceback" not in run.stderr
