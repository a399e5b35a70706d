"""Walls: recognizes answers that a server sends instead of a page, and computes a page's shape.

A *wall* is a challenge, a login page or a consent page. The rules are in two tables; the source of
each rule is given. hosts/politeness/walls.py stores which walls hosts have shown before.

Invariants: everything takes linear time for every input. A body of more than MAX_BODY
bytes is not examined.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote, unquote_to_bytes

from scrapy.http import Response
from xxhash import xxh3_64_digest, xxh3_64_intdigest

from webcrawl.urls.extraction.visible_words import TAG, VARYING, split_visible, words_in

CHALLENGED = "challenged"
WALLED = "walled"
SOFT_ERROR = "soft_error"
#: Answers that are not documents, in the order in which hosts count them.
WALLS = (CHALLENGED, WALLED, SOFT_ERROR)
#: Flag of a response with the same shape as the pages of three unlike URLs of its host.
ALIKE = "alike"

#: Larger bodies are not examined. Challenges have 1 to 30 kB.
MAX_BODY = 1 << 16


class HeaderRule(NamedTuple):
    """A rule about a header field that only walls have.

    *name* is the field's name as Scrapy spells it, and *value* is a pattern for its value.
    """

    outcome: str
    name: bytes
    value: re.Pattern[bytes]


class BodyRule(NamedTuple):
    """A rule about the body of a wall: it contains all of the byte strings *marks*."""

    outcome: str
    marks: tuple[bytes, ...]


# The source of each rule is above it.
HEADER_RULES = (
    # developers.cloudflare.com/cloudflare-challenges/challenge-types/challenge-pages
    HeaderRule(CHALLENGED, b"Cf-Mitigated", re.compile(rb"challenge")),
    # docs.aws.amazon.com/waf/latest/developerguide/waf-captcha-and-challenge-actions.html
    HeaderRule(CHALLENGED, b"X-Amzn-Waf-Action", re.compile(rb"challenge|captcha")),
    # Vercel Firewall; github.com/glizzykingdreko/Vercel-Attack-Mode-Solver
    HeaderRule(CHALLENGED, b"X-Vercel-Mitigated", re.compile(rb"challenge")),
    # docs.datadome.co
    HeaderRule(CHALLENGED, b"X-Dd-B", re.compile(rb"[12]")),
    # github.com/TecharoHQ/anubis: TestCookieName. RenderIndex sets it with the value of a
    # challenge; an empty value deletes it.
    HeaderRule(
        CHALLENGED,
        b"Set-Cookie",
        re.compile(rb"techaro\.lol-anubis-cookie-verification[^=;]*=[^;]"),
    ),
)

# Fields that may decide alone; most answers have none of them.
_DECISIVE_FIELDS = {b"Location", *(rule.name for rule in HEADER_RULES)}

BODY_RULES = (
    # developers.cloudflare.com/cloudflare-challenges
    BodyRule(CHALLENGED, (b"/cdn-cgi/challenge-platform/", b"/orchestrate/chl_page/")),
    # github.com/TecharoHQ/anubis: web/index
    BodyRule(CHALLENGED, (b'id="anubis_challenge"',)),
    # docs.datadome.co
    BodyRule(CHALLENGED, (b"captcha-delivery.com/", b"var dd=")),
    # docs.humansecurity.com; github.com/EnableSecurity/wafw00f
    BodyRule(CHALLENGED, (b"window._pxAppId", b"px-captcha")),
    # github.com/EnableSecurity/wafw00f: Imperva Incapsula
    BodyRule(CHALLENGED, (b"_Incapsula_Resource", b"Incapsula incident ID")),
    # consent.google.com, consent.youtube.com
    BodyRule(WALLED, (b'action="https://consent.',)),
    # html.spec.whatwg.org/#password-state-(type=password)
    BodyRule(WALLED, (b'type="password"',)),
)

# A word in the host or path of a URL to which visitors are sent to log in or consent. Examples,
# each with the URL to return to: Django's LOGIN_URL?next=, wp-login.php?redirect_to=,
# consent.google.com/ml?continue=, guce.yahoo.com/consent?done=, zeit.de/zustimmung?url=
# (docs.djangoproject.com, developer.wordpress.org).
_GATE = re.compile(
    rb"(?i:(?:[/._-]|^)(?:log-?in|sign[-_]?in|sso|consent|guce|zustimmung|myprivacy)(?=[/._?-]))"
)
# SAML 2.0 bindings, section 3.4 (HTTP Redirect); RFC 6749, section 4.1.1.
_SIGN_ON = re.compile(
    rb"[?&]SAMLRequest=|[?&]client_id=.*[?&]response_type=|"
    rb"[?&]response_type=.*[?&]client_id="
)

# A slug, a date, a price and a UUID are one term each.
_TERM = re.compile(rb"[a-z0-9_%\x80-\xff]++(?:[.-]++[a-z0-9_%\x80-\xff]++)*+")
_MIXED = re.compile(rb"(?=[^0-9]*[0-9])(?=[^a-z]*[a-z])")
_TITLE = re.compile(rb"[^<>]{0,20}>([^<>]{0,300})")
_ELEMENT = re.compile(rb"</?([a-z][a-z0-9]*)")
_HREF = re.compile(rb"\bhref=[\"']?([^\"'<>]*)")
# Images, players, frames; without the query, which may only be there to avoid caches.
_EMBEDDED = re.compile(rb"(?:\b(?:src|data|poster)=|\burl\()[\"']?([^\"'<>?)]*)")
# A number that is unique to one answer, as error pages show it: hexadecimal digits, fewer than in a
# checksum, or a UUID.
_NUMBER = re.compile(rb"[0-9a-f]{8,31}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Complete words at the beginning of a text that is longer than a label.
_SAMPLE = re.compile(rb">([A-Za-z\x80-\xff ]{16,40})[ .,:<]")
_EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}$")
_MAX_LOCATION = 1 << 12
# A wall has few links: a page with more is not one, and is not examined further.
_MAX_LINKS = 40
# The title is searched for in this many bytes from the beginning.
_HEAD = 1 << 12
# Error pages of one host, which show the URL, rarely differ in length by more than this many bytes.
_STEP = 1 << 7
# Number of bytes that are searched for a text, starting in the middle.
_SEARCHED_BYTES = 1 << 12
# With fewer terms there is not enough text to say that two pages share it.
_LEAST_TERMS = 3
# On a page with scripts, fewer terms may only be the frame for text that the scripts load.
_FEW_TERMS = 100
# A term of letters and digits of at least this length is a token that differs in each answer.
_TOKEN = 8
_MAX_WORDS = 12


# Answers with these statuses refuse a request, and these fields say what the site asks for instead:
# draft-ietf-webbotauth-httpsig-protocol-01; developers.cloudflare.com/ai-crawl-control, "Pay per
# crawl".
_REFUSING = frozenset({401, 402, 403, 429})
_DEMANDS = {b"Accept-Signature": "_with_accept_signature", b"Crawler-Price": "_with_price"}


def refusal(response: Response, wall: str) -> str:
    """Return how *response*, which shows *wall*, refuses the crawler: "none" if it does not.

    For example "403", "402_with_price" or "challenged".
    """
    if wall == CHALLENGED:
        return wall
    if response.status not in _REFUSING:
        return "none"
    demands = [words for name, words in _DEMANDS.items() if name in response.headers]
    return "".join([f"{response.status}", *demands])


def header_wall(url: str, response: Response) -> str:
    """Return which wall the header of *response* to *url* shows by itself; "" if none. 1 us."""
    fields = response.headers
    if _DECISIVE_FIELDS.isdisjoint(fields):
        return ""
    for rule in HEADER_RULES:
        # The methods of Headers would normalize the name again.
        for value in dict.get(fields, rule.name, ()):
            if rule.value.match(value):
                return rule.outcome
    for target in dict.get(fields, b"Location", ()):
        location = target[:_MAX_LOCATION]
        place, _, query = location.partition(b"?")
        if _SIGN_ON.search(location) or (_GATE.search(place + b"?") and _has_way_back(query, url)):
            return WALLED
    return ""


def _has_way_back(query: bytes, url: str) -> bool:
    """Return whether *query* contains the path of *url*, to return to it after a login."""
    path = "/" + url.partition("://")[2].partition("/")[2]
    return path in unquote(unquote(query.decode("latin-1")))


def body_wall(body: bytes) -> str:
    """Return which wall *body* has the marks of; "" if none. 0.2 ms for 64 kB, usually 10 us."""
    if len(body) > MAX_BODY or body.count(b"href=") > _MAX_LINKS:
        return ""
    for rule in BODY_RULES:
        if rule.marks[0] in body and all(mark in body for mark in rule.marks):
            return rule.outcome
    return ""


def outline_of(body: bytes) -> bytes:
    """Return a fingerprint of 4 bytes of the title and the rounded length of *body*.

    Words with digits are left out of the title.
    """
    start = body.find(b"<title", 0, _HEAD)
    if start < 0:
        start = body.find(b"<TITLE", 0, _HEAD)
    match = _TITLE.match(body, start + len(b"<title")) if start >= 0 else None
    title = VARYING.sub(b"", match[1].lower()) if match else b""
    return xxh3_64_digest(b"%b<%d" % (title, len(body) // _STEP))[:4]


def sample_of(body: bytes, url: str) -> bytes:
    """Return a text of 16 to 40 bytes from the middle of *body*, the page of *url*, or b"".

    It contains no digit and no word of the URL, so that pages of the same shape have it in common.
    """
    # Pages with one outline have the same rounded length, and differ near the beginning. Half of
    # that length, counted from the end, is therefore the same place in all of them.
    rounded_length = (len(body) // _STEP + 1) * _STEP
    middle = len(body) - rounded_length // 2
    decoded_url = (unquote_to_bytes(url) if "%" in url else url.encode()).lower()
    for match in _SAMPLE.finditer(body, middle, middle + _SEARCHED_BYTES):
        for word in match[1].lower().split():
            # For bytes, find is faster than "in", which tries a number first.
            if len(word) > 2 and decoded_url.find(word) >= 0:
                break
        else:
            return match[1]
    return b""


class Shape(NamedTuple):
    """The shape of a page, which is the same for pages that differ only in URLs and tokens.

    *fingerprint* has 32 bits. *has_text* tells whether there is text for readers, most of which is
    neither the URL nor a token. *source* is a fingerprint of 34 bits of the whole source, without
    the URL and without a unique number that the page shows.
    """

    fingerprint: int
    has_text: bool
    source: int


def shape_of(body: bytes, url: str, *, scripts: bool = True) -> Shape:
    """Return the shape of *body*, the page of *url*.

    It is computed from the elements, the terms of the text and of the links, and embedded
    resources. With *scripts*, the words of the scripts are included, as they may contain the text
    that an application shows. Terms of the URL and tokens are left out, and from scripts words with
    digits. Text for browsers without scripts does not count.

    The source includes the links as they are, unless the text shows the path of the page, as error
    pages do. It includes the URL if a script may load a different text for each page.
    """
    page, code = split_visible(body)
    path = url.partition("://")[2].partition("/")[2].lower()
    url_terms = {*_TERM.findall(unquote_to_bytes(path)), *_TERM.findall(path.encode())}

    # The shape: elements, text, links, embedded resources and scripts.
    text = TAG.sub(b" ", page)
    terms = _TERM.findall(text)
    kept_terms = _without_tokens(terms, url_terms)
    links = _without_tokens(_TERM.findall(b" ".join(_HREF.findall(page))), url_terms)
    words = words_in(code) if scripts else []
    embedded = _EMBEDDED.findall(page)
    parts = [*_ELEMENT.findall(page), b"", *kept_terms, b"", *links, b"", *embedded, b""]
    parts += [word for word in words if word not in url_terms]
    has_text = len(kept_terms) >= max(_LEAST_TERMS, 2 * len(terms) // 3)

    # The source: everything except the terms of the URL and a unique number.
    numbers = {*filter(_NUMBER.fullmatch, terms)}
    number = numbers.pop() if len(numbers) == 1 else b""
    source_text = _ELEMENT.sub(b"", body.lower().replace(number, b""))
    source = [term for term in _TERM.findall(source_text) if term not in url_terms]
    if b"/" + path.encode() not in text:
        source += _HREF.findall(page)
    code_terms = _TERM.findall(code.replace(number, b""))
    # If there is little text, scripts may load a different text for each URL.
    may_load_text = code_terms and len(kept_terms) < _FEW_TERMS
    source += [*code_terms, url.encode()] if may_load_text else code_terms
    # The additional bit tells it from the marks of a URL, which are stored in the same list.
    source_bits = 1 << 33 | _fingerprint(b" ".join(source))
    return Shape(_fingerprint(b" ".join(parts)), has_text, source_bits)


def _without_tokens(terms: list[bytes], url_terms: set[bytes]) -> list[bytes]:
    """Return *terms* without those of the URL and without tokens."""
    return [term for term in terms if term not in url_terms and not _is_token(term)]


def _is_token(term: bytes) -> bool:
    """Return whether *term* may be a token that differs in each answer."""
    return len(term) >= _TOKEN and not term.isalpha() and bool(_MIXED.match(term))


def _fingerprint(data: bytes) -> int:
    """Return 32 bits of the hash of *data*."""
    return xxh3_64_intdigest(data) & 0xFFFFFFFF


def words_below(url: str) -> list[int]:
    """Return hashes of the first twelve words of *url* below its first directory, 16 bits each.

    The extension and words with digits are left out. URLs are *unlike* if they have no word in
    common; a URL without any word is like all others.
    """
    path, mark, query = url.partition("://")[2].partition("/")[2].partition("?")
    first, slash, below = path.partition("/")
    rest = _EXTENSION.sub("", below if slash else first) + mark + query
    words = words_in(rest.lower().encode())
    return sorted({xxh3_64_intdigest(word) & 0xFFFF for word in words[:_MAX_WORDS]})
