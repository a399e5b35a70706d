"""Settings as they may be shown: what is hidden, and what is not."""

from hypothesis import given
from hypothesis import strategies as st
from scrapy.settings import BaseSettings, default_settings
from text_tables import each

from webcrawl import settings
from webcrawl.configuration.secrets import mask, masked_error

SECRET = (
    "FTP_PASSWORD MAIL_PASS AWS_ACCESS_KEY_ID MONITOR_TOKEN OUTPUT_STORE_OPTIONS REDIS_PARAMS "
    "SLACK_WEBHOOK authorization Set-Cookie X-Api-Key accessKey sig pw X-Amz-Signature"
)
SHOWN = "FTP_PASSIVE_MODE COOKIES_ENABLED POLITENESS_KEY REDIS_ITEMS_KEY KEYWORDS a.TokenPipeline"
# With $ in place of the secret.
PLACES = {
    "redis://:$@h.test/0": "redis://***@h.test/0",
    "redis+cluster://me:$@a.test:1,b.test:2": "redis+cluster://***@a.test:1,b.test:2",
    "s3://x?a=1&key=$&b=2#c": "s3://x?a=1&key=***&b=2#c",
    "me:$@h.test:3128": "***@h.test:3128",
    "(ftp://me:$@h.test/x) is gone": "(ftp://***@h.test/x) is gone",
    '{"a": {"b": ["http://me:$@h.test"]}}': '{"a": {"b": ["http://***@h.test"]}}',
    "{'X-Key': '$'}": "***",
}


@each("place", *PLACES)
@given(secret=st.text("aA0!%()*+,-.:=@^_`|~", min_size=1))
def test_a_secret_is_hidden_wherever_it_stands(place, secret):
    text, shown = place.replace("$", secret), PLACES[place]
    assert mask("X", text) == shown
    deep = BaseSettings({text: 1, "a": [({"Authorization": secret}, 2, text), ("Cookie", secret)]})
    hidden = [[{"Authorization": "***"}, 2, shown], ["Cookie", "***"]]
    assert mask("FEEDS", deep) == {shown: 1, "a": hidden}


def test_names_say_what_is_secret():
    assert {mask(name, "x") for name in SECRET.split()} == {"***"}
    assert {mask(name, "x") for name in SHOWN.split()} == {"x"}


def test_what_is_no_secret_is_shown_as_it_is():
    for value in ("http://a.test:80/@me?x=a@b", "mailto:me@a.test", "[?&]sid=", 1, int):
        assert mask("X", value) == value
    for name, value in {**vars(default_settings), **vars(settings)}.items():
        if name.isupper() and isinstance(value, (str, dict)):
            assert mask(name, value) == value


@each("url", "redis://:pa/ss@h", "redis://:1#pa@h", "redis://me:pa?ss@h")
def test_a_password_that_is_not_escaped_is_hidden_and_not_quoted(url):
    assert mask("REDIS_URL", url) == "redis://***@h"
    assert masked_error(ValueError("no port: 'pa'"), url) == "no port: '***'"
