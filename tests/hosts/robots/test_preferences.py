"""Preferences in robots.txt and tdmrep.json: the statements that apply to a URL."""

from text_tables import each, table

from webcrawl.hosts.robots.rules import RobotsRules, data_mining_rules

TOKENS = ("me-train", "me")
# Lines of robots.txt, separated by "/" alone; a path; the statements.
CASES = table("""
    User-agent: * / Content-Usage: train-ai=n        | / | content-usage: train-ai=n -> refuse
    User-agent: * / Content-Usage: /a train-ai=n           | /  |
    User-agent: * / Content-Usage: /a train-ai=n / Content-Usage: train-ai=y
    | /ab | content-usage: train-ai=n -> refuse
    User-agent: * / Content-Usage: /a train-ai=n / Content-Usage: train-ai=y
    | /b  | content-usage: train-ai=y -> allow
    User-agent: * / Content-Usage: /a train-ai=y / Content-Usage: /a train-ai=n # x
    | /a  | content-usage: train-ai=y, train-ai=n -> refuse
    Content-Usage: train-ai=n / User-agent: * / Disallow:
    | /  | content-usage: train-ai=n -> refuse
    User-agent: them / Content-Usage: train-ai=n           | /  |
    User-agent: me / Allow: / / User-agent: * / Content-Usage: train-ai=n  | / |
    User-agent: me-train / Content-Usage: train-ai=n / User-agent: me / Disallow: /
    | /  | content-usage: train-ai=n -> refuse
    Content-Signal: ai-train=no / User-agent: them / Disallow: /
    | /  | content-signal: ai-train=no -> refuse
    User-agent: * / Content-Signal: search=no              | /  | content-signal: search=no ->
    User-agent: GPTBot / Disallow: /a                      | /a | gptbot: Disallow: /a -> refuse
    User-agent: GPTBot / Disallow: /a                      | /b |
    User-agent: GPTBot / Allow: / / User-agent: * / Disallow: /  | / |
    User-agent: GPTBot/1.2 / User-agent: CCBot / Disallow: /  | / | gptbot: Disallow: / -> refuse
    User-agent: Googlebot / Disallow: /                    | /  |
    License: https://a.test/l.xml                    | / | license: https://a.test/l.xml ->
""")
TDM = """[{"location": "/", "tdm-reservation": 0},
    {"location": "/a*", "tdm-reservation": 1, "tdm-policy": "/p", "more": {}}]"""


def shown(statements):
    return ", ".join(f"{one.source.split()[1]}: {one.text} -> {one.verdict}" for one in statements)


def said(rules, path):
    url = f"http://a.test{path}"
    return shown(rules.statements(url, at=1.0, purpose="train")).strip()


@each("lines path expected", *CASES)
def test_the_lines_that_apply_are_statements(lines, path, expected):
    body = lines.replace(" / / ", " /\n").replace(" / ", "\n").encode()
    assert said(RobotsRules.parse(body, tokens=TOKENS, purpose="train"), path) == expected
    assert said(RobotsRules.parse(body, tokens=TOKENS), path) == ""


def test_preferences_do_not_change_what_may_be_fetched():
    body = (
        b"User-agent: GPTBot\nDisallow: /\n\nUser-agent: *\nDisallow: /x\nContent-Usage: bots=n\n"
    )
    rules = RobotsRules.parse(body, tokens=TOKENS, purpose="train")
    assert rules.decide("http://a.test/y").allow
    assert not rules.decide("http://a.test/x").allow


@each(
    "status body expected",
    (200, TDM, "tdmrep: tdm-reservation=1, tdm-policy=/p -> refuse"),
    (200, TDM.replace("1", '"0"'), "tdmrep: tdm-reservation=0, tdm-policy=/p -> allow"),
    (200, '[{"location": "/b", "tdm-reservation": 1}]', ""),
    (200, '[{"tdm-reservation": 1}]', ""),
    (
        200,
        '[{"more": 1}, {"location": "/", "tdm-policy": null}]',
        "tdmrep: tdm-reservation= ->",
    ),
    (
        200,
        (
            '\ufeff[{"location": "/", "tdm-reservation": 0},'
            ' {"location": "/", "tdm-reservation": 1}]'
        ),
        "tdmrep: tdm-reservation=0, tdm-reservation=1 -> refuse",
    ),
    (200, '{"location": "/"}', ""),
    (200, "<html>", ""),
    (404, TDM, ""),
    (None, "", ""),
)
def test_the_longest_location_of_a_tdmrep_file_counts(status, body, expected):
    rules = data_mining_rules(status, body.encode())
    assert rules.decide("http://a.test/ab").allow
    assert said(rules, "/ab") == expected
