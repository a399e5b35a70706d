"""Comparison form of URLs, which is the same for all spellings of a URL and is never fetched.

LARM: "the normalized form of a URL is used internally for comparisons, but to the outside (i.e. for
accessing the file), the original form is applied". So the URL from ``normalize`` is fetched, and
the eliminator uses the fingerprint of its ``Equivalence.comparison_form``. Of several spellings,
the one found first is fetched. A URL that is wrongly taken for another spelling is lost. So each
rule below has a name, can be switched on or off, and says what it risks.

The rules of the URL Standard (``STANDARD``: host_case, idn, default_port, dot_segments, empty_path,
fragment) have already been applied when a URL comes here. They cannot be switched off, as browsers
apply them, too. The other rules, in the order in which they are applied:

>>> def form(rule: str, url: str) -> str:
...     return Equivalence(frozenset({rule})).comparison_form(url)

percent_case: escapes in upper case (RFC 3986, section 6.2.2.1). Risks nothing.

>>> form("percent_case", "http://a.test/caf%c3%a9")
'http://a.test/caf%C3%A9'

unreserved: letters, digits and ``-._~`` are not escaped (RFC 3986, section 6.2.2.2). Risks nothing.
Escapes stay after a ``%`` that is not an escape, as a digit could turn it into one.

>>> form("unreserved", "http://a.test/%7Eme/%41%2f")
'http://a.test/~me/A%2f'

session_ids: drops ``;jsessionid=`` and the like in the path, ASP.NET's ``/(S(...))/``, and session
parameters by name. The value must look random: at least 16 letters and digits that alternate at
least twice, so numbers and words stay. ColdFusion's pair of numbers has its own rule. General names
(``sessionid``, ``sid``) stay if the path is about sessions, as they then identify the page. Risks
pages that differ only in such values.

>>> form("session_ids", "http://a.test/x;jsessionid=0A1B2C3D4E5F6A7B?id=3&PHPSESSID=44f3a9c08e1d72b5")
'http://a.test/x?id=3'
>>> form("session_ids", "http://a.test/?SessionID=1016")
'http://a.test/?SessionID=1016'
>>> form("session_ids", "http://a.test/SessionDetails.aspx?SessionID=44f3a9c08e1d72b5")
'http://a.test/SessionDetails.aspx?SessionID=44f3a9c08e1d72b5'

duplicate_slashes: ``//`` in a path becomes ``/``, as in file systems and most servers. Risks
servers that route by empty segments.

>>> form("duplicate_slashes", "http://a.test//x///y?u=http://b.test//")
'http://a.test/x/y?u=http://b.test//'

index_names: drops the name of the page that a server returns for a directory. Off by default: on
many old sites ``/index.html`` is a welcome page that links to ``/index.php``, and the whole site
would be lost to save one fetch. LARM drops ``index.*``; here only names of pages are dropped, as
``/index.xml`` is a feed.

>>> form("index_names", "http://a.test/docs/index.html")
'http://a.test/docs/'
>>> form("index_names", "http://a.test/Default.aspx?id=3")
'http://a.test/?id=3'

lower_case: paths in lower case, as on Windows servers. Off by default: it is wrong on all others,
where ``/README`` and ``/readme`` are two files, and for short links, which use both cases.

>>> form("lower_case", "http://a.test/Docs/%C3%89.HTM?Q=A")
'http://a.test/docs/%c3%89.htm?Q=A'

tracking: drops parameters that tell the site's operator where a visitor came from (utm_source,
gclid). Risks only pages that show them.

>>> form("tracking", "http://a.test/?utm_source=mail&id=3&fbclid=IwAR2")
'http://a.test/?id=3'

empty_query: drops a ``?`` with nothing after it, and empty parameters. It has no known risks.

>>> form("empty_query", "http://a.test/x?&a=1&")
'http://a.test/x?a=1'

sorted_query: sorts parameters by name; those with the same name keep their order. A query with a
parameter without ``=`` is left alone, as its order may matter. Risks other servers where it does.

>>> form("sorted_query", "http://a.test/?b=1&a=2&b=0")
'http://a.test/?a=2&b=1&b=0'
"""

from __future__ import annotations

import re
from functools import lru_cache, partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webcrawl.urls.filters.host_rules import UrlHostRules

STANDARD = frozenset({"host_case", "idn", "default_port", "dot_segments", "empty_path", "fragment"})
DEFAULT = frozenset(
    {
        *("percent_case", "unreserved", "session_ids", "duplicate_slashes"),
        *("tracking", "empty_query", "sorted_query"),
    }
)
RULES = STANDARD | DEFAULT | {"index_names", "lower_case"}

# Sizes of caches: of the canonical forms of origins, and of the names of parameters that matter.
_CACHED_ORIGINS = 1 << 14
_CACHED_NAMES = 1 << 12
_LONGEST_CACHED_NAME = 50
# A query with more parameters is compared unchanged: 2 kB of & alone would take 0.6 ms.
_MAX_PARAMETERS = 200

_PARTS = re.compile(r"(https?://[^/?#]+)(/[^?#]*)(?:\?([^#]*))?")
_ORIGIN = re.compile(r"([a-z]+://)([^:/@\[\]]+)((?::[0-9]+)?)")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
# Escapes that percent_case or unreserved may change: with a lower-case letter, or of 2D, 2E, 30 to
# 39, 41 to 5A, 5F, 61 to 7A, 7E.
_LOOSE_ESCAPE = re.compile(r"%(?:.?[a-f]|2[DE]|3[0-9]|[46][1-9A-F]|[57][0-9A]|5F|7E)", re.DOTALL)
_FREE_ESCAPE = re.compile(r"(?<!%)(?<!%[0-9A-Fa-f])%[0-9A-Fa-f]{2}")
_NO_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SLASHES = re.compile(r"//+")
_INDEX = re.compile(
    r"(?<=/)(?:index|default)\.(?:[xsp]?html?|php[3-8]?|aspx?|jspx?|jsf|cfm|cgi|pl|do)\Z",
    re.IGNORECASE,
)
_UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"

# Servlets, PHP and others put what should be a cookie after a semicolon.
_PATH_SESSION = re.compile(
    r";(?:jsessionid|phpsessid|sessionid|session_id|sid|s)=([^/;]*)", re.IGNORECASE
)
_ASP_NET_SESSION = re.compile(r"/\((?:[a-z]\(([0-9a-z_-]+)\))+\)(?=/)", re.IGNORECASE)
# Parameters of certain platforms, and general ones, which may instead identify a page.
_SESSION = frozenset(
    {
        *("jsessionid", "phpsessid", "phpsession", "aspsessionid", "asp.net_sessionid"),
        *("oscsid", "zenid", "xtcsid"),
    }
)
_MAYBE_SESSION = frozenset(
    {"sessionid", "session_id", "sessid", "sid", "s", "session", "sess", "sesskey", "psid"}
)
_COLD_FUSION = frozenset({"cfid", "cftoken"})
# A random token, perhaps followed by the name of a machine; also base64 and UUIDs.
_TOKEN = re.compile(r"[0-9a-z_-]{16,}(?=[.!~:%]|\Z)", re.IGNORECASE)
_CHANGE = re.compile(r"(?<=[0-9])[a-z]|(?<=[a-z])[0-9]", re.IGNORECASE)
# Names and titles with a year have one change from letters to digits.
_FEWEST_CHANGES = 2
_FEWEST_DIGITS = 8  # in a CFTOKEN
_TRACKING = frozenset(
    {
        # search engines and networks
        *("gclid", "gclsrc", "dclid", "gbraid", "wbraid", "srsltid", "fbclid", "msclkid"),
        *("yclid", "ysclid", "_openstat", "twclid", "ttclid", "li_fat_id", "igsh", "igshid"),
        *("epik", "rdt_cid", "s_kwcid", "ef_id", "zanpid", "irclickid", "wickedid"),
        # statistics of visitors
        *("_ga", "_gl", "piwik_campaign", "piwik_kwd", "piwik_keyword", "pk_campaign", "pk_kwd"),
        *("pk_keyword", "pk_source", "pk_medium", "pk_content", "pk_cid"),
        # mailings
        *("mc_cid", "mc_eid", "mkt_tok", "_hsenc", "_hsmi", "__hssc", "__hstc", "__hsfp"),
        *("hsctatracking", "vero_id", "vero_conv", "oly_enc_id", "oly_anon_id", "_kx"),
        *("ml_subscriber", "ml_subscriber_hash", "ck_subscriber_id", "dm_i"),
        # consent pages that send visitors back
        *("guccounter", "guce_referrer", "guce_referrer_sig"),
    }
)
_TRACKING_PREFIXES = ("utm_", "mtm_", "matomo_", "hsa_")


class Equivalence:
    """The form in which URLs are compared, by the rules named in *rules*.

    *hosts* adds LARM's host rules. They affect only the compared form: the true host is contacted,
    and politeness is kept for it. Raises ValueError for an unknown rule name.
    """

    def __init__(
        self, rules: frozenset[str] = DEFAULT, *, hosts: UrlHostRules | None = None
    ) -> None:
        unknown = ", ".join(sorted(rules - RULES))
        if unknown:
            known = ", ".join(sorted(RULES))
            raise ValueError(f"Unknown URL rule: {unknown}. The rules are {known}.")
        self._canonical = (
            None if hosts is None else lru_cache(_CACHED_ORIGINS)(partial(_canonical, hosts))
        )
        self._significant: set[str] = set()
        self._escapes = _escapes(case="percent_case" in rules, unreserved="unreserved" in rules)
        self._case = "percent_case" in rules
        self._sessions = "session_ids" in rules
        self._slashes = "duplicate_slashes" in rules
        self._index = "index_names" in rules
        self._lower = "lower_case" in rules
        self._empty = "empty_query" in rules
        self._sorted = "sorted_query" in rules
        self._dropped = _TRACKING if "tracking" in rules else frozenset()
        self._prefixes = _TRACKING_PREFIXES if "tracking" in rules else ()

    def comparison_form(self, url: str) -> str:
        """Return the form in which *url*, normalized, is compared.

        Never raises. Idempotent without host rules, which are also the only rules that change
        scheme, host or port. For schemes other than http and https only host rules apply: the parts
        of a Gopher selector, for example, have no general meaning.
        """
        if (
            ("%" in url and _LOOSE_ESCAPE.search(url) is not None)
            or ";" in url
            or url.find("//", 8) >= 0
            or "/(" in url
            or self._lower
            or (self._index and _is_index(url))
        ):
            url = self._rewritten(url)
        elif "?" in url and url.startswith("http"):
            before, _, query = url.partition("?")
            kept = self._query(query, before)
            if kept is not query:
                url = before if kept is None else f"{before}?{kept}"
        if self._canonical is None:
            return url
        end = url.find("/", url.find(":") + 3)
        return self._canonical(url[:end]) + url[end:]

    def _rewritten(self, url: str) -> str:
        parts = _PARTS.fullmatch(url)
        if parts is None:
            return url
        origin, path, query = parts.groups()
        if "%" in url:
            path = self._unescaped(path)
            query = query and self._unescaped(query)
        path = self._path(path)
        if query is None:
            return f"{origin}{path}"
        kept = self._query(query, path)
        return f"{origin}{path}" if kept is None else f"{origin}{path}?{kept}"

    def _unescaped(self, text: str) -> str:
        escapes = self._escapes
        text = _FREE_ESCAPE.sub(lambda escape: escapes[escape[0]], text)
        if self._case and _NO_ESCAPE.search(text) is not None:
            text = _ESCAPE.sub(lambda escape: escape[0].upper(), text)
        return text

    def _path(self, path: str) -> str:
        if self._sessions:
            if ";" in path:
                path = _PATH_SESSION.sub(_without_token, path)
            if "/(" in path:
                path = _ASP_NET_SESSION.sub(_without_token, path)
        if self._slashes and "//" in path:
            path = _SLASHES.sub("/", path)
        if self._index:
            path = _INDEX.sub("", path)
        if self._lower and path.isascii():
            path = path.lower()
            if self._case:
                path = _ESCAPE.sub(lambda escape: escape[0].upper(), path)
        return path

    def _query(self, query: str, before: str) -> str | None:
        """Return the part of *query* that is compared, None if nothing is left.

        *before* ends with the path.
        """
        if query.count("&") >= _MAX_PARAMETERS:
            return query
        parts = kept = query.split("&")
        names = [part.partition("=")[0] for part in parts]
        if not self._significant.issuperset(names):
            kept = [part for part in parts if not self._is_dropped(part, before)]
            if self._sessions:
                kept = _without_cold_fusion(kept)
        if self._empty and "" in kept:
            kept = [part for part in kept if part]
        if not kept:
            return None
        if len(kept) < len(parts):
            names = [part.partition("=")[0] for part in kept]
            query = "&".join(kept)
        if (
            self._sorted
            and len(kept) > 1
            and names != sorted(names)
            and all("=" in part for part in kept)
        ):
            query = "&".join(sorted(kept, key=lambda part: part.partition("=")[0]))
        return query

    def _is_dropped(self, part: str, before: str) -> bool:
        name, _, value = part.partition("=")
        lower = name.lower()
        if lower in self._dropped or lower.startswith(self._prefixes):
            return True
        if self._sessions:
            if lower in _SESSION or lower.startswith("aspsessionid"):
                return _is_random(value)
            if lower in _MAYBE_SESSION:
                about_sessions = "session" in before.rpartition("://")[2].partition("/")[2].lower()
                return not about_sessions and _is_random(value)
            if lower in _COLD_FUSION:
                return False
        if len(name) <= _LONGEST_CACHED_NAME:
            if len(self._significant) >= _CACHED_NAMES:
                self._significant.clear()
            self._significant.add(name)
        return False


def _canonical(hosts: UrlHostRules, origin: str) -> str:
    """Return *origin* with the canonical host in place of its own."""
    match = _ORIGIN.fullmatch(origin)
    return origin if match is None else match[1] + hosts.canonical(match[2]) + match[3]


def _is_random(value: str) -> bool:
    token = _TOKEN.match(value)
    return token is not None and len(_CHANGE.findall(token[0])) >= _FEWEST_CHANGES


def _without_token(found: re.Match[str]) -> str:
    return "" if _is_random(found[1]) else found[0]


def _without_cold_fusion(parts: list[str]) -> list[str]:
    """Return *parts* without CFID and CFTOKEN, which belong together; the second is random."""
    pair = {name.lower(): value for name, _, value in (part.partition("=") for part in parts)}
    token = pair.get("cftoken", "")
    is_random = len(token) >= _FEWEST_DIGITS if token.isdecimal() else _is_random(token)
    if "cfid" not in pair or not is_random:
        return parts
    return [part for part in parts if part.partition("=")[0].lower() not in _COLD_FUSION]


def _is_index(url: str) -> bool:
    url = url.lower()
    return "/index." in url or "/default." in url


def _escapes(*, case: bool, unreserved: bool) -> dict[str, str]:
    """Return the form of each escape, by all of its spellings."""
    table = {}
    digits = "0123456789abcdefABCDEF"
    for escape in (f"%{high}{low}" for high in digits for low in digits):
        char = chr(int(escape[1:], 16))
        if unreserved and char in _UNRESERVED:
            table[escape] = char
        else:
            table[escape] = escape.upper() if case else escape
    return table
