"""Comparison form of URLs, which is the same for all spellings of a URL and is never fetched.

LARM: "the normalized form of a URL is used internally for comparisons, but to the outside (i.e. for
accessing the file), the original form is applied". So the URL from ``normalize`` is fetched, and
the eliminator uses the fingerprint of its ``Equivalence.comparison_form``. Of several spellings,
the one found first is fetched. A URL that is wrongly taken for a spelling of another URL is lost.
So each rule below has a name and can be switched on or off, and its risks are described.

The rules of the URL Standard (``STANDARD``: host_case, idn, default_port, dot_segments, empty_path,
fragment) have already been applied by ``normalize``. They cannot be switched off, because browsers
apply them, too. The other rules, in the order in which they are applied:

>>> def form(rule: str, url: str) -> str:
...     return Equivalence(frozenset({rule})).comparison_form(url)

percent_case: escapes in upper case (RFC 3986, section 6.2.2.1). Risks nothing.

>>> form("percent_case", "http://a.test/caf%c3%a9")
'http://a.test/caf%C3%A9'

unreserved: letters, digits and ``-._~`` are not escaped (RFC 3986, section 6.2.2.2). Risks nothing.
An escape right after a ``%`` that is not part of an escape stays, because a digit there could turn
that ``%`` into one.

>>> form("unreserved", "http://a.test/%7Eme/%41%2f")
'http://a.test/~me/A%2f'

session_ids: drops ``;jsessionid=`` and the like in the path, ASP.NET's ``/(S(...))/``, and session
parameters by name. The value must look random: at least 16 letters and digits that alternate at
least twice, so numbers and words stay. ColdFusion's pair of numbers has its own rule. Parameters
with general names (``sessionid``, ``sid``) stay if the path is about sessions, because they then
identify the page. Risks losing pages that differ only in such values.

>>> form("session_ids", "http://a.test/x;jsessionid=0A1B2C3D4E5F6A7B?id=3&PHPSESSID=44f3a9c08e1d72b5")
'http://a.test/x?id=3'
>>> form("session_ids", "http://a.test/?SessionID=1016")
'http://a.test/?SessionID=1016'
>>> form("session_ids", "http://a.test/SessionDetails.aspx?SessionID=44f3a9c08e1d72b5")
'http://a.test/SessionDetails.aspx?SessionID=44f3a9c08e1d72b5'

duplicate_slashes: ``//`` in a path becomes ``/``, as in file systems and most servers. Risks
losing pages of servers for which empty segments matter.

>>> form("duplicate_slashes", "http://a.test//x///y?u=http://b.test//")
'http://a.test/x/y?u=http://b.test//'

index_names: drops the name of the page that a server returns for a directory. Off by default: on
many old sites ``/index.html`` is a welcome page that links to ``/index.php``, and the whole site
would be lost to save one fetch. LARM drops ``index.*``; here only names of pages are dropped,
because ``/index.xml`` is a feed.

>>> form("index_names", "http://a.test/docs/index.html")
'http://a.test/docs/'
>>> form("index_names", "http://a.test/Default.aspx?id=3")
'http://a.test/?id=3'

lower_case: paths in lower case, as on Windows servers. Off by default: it is wrong on all other
servers, where ``/README`` and ``/readme`` are two files, and for short links, which use both cases.

>>> form("lower_case", "http://a.test/Docs/%C3%89.HTM?Q=A")
'http://a.test/docs/%c3%89.htm?Q=A'

tracking: drops parameters that tell the site's operator where a visitor came from (utm_source,
gclid). Risks losing only pages that display these values.

>>> form("tracking", "http://a.test/?utm_source=mail&id=3&fbclid=IwAR2")
'http://a.test/?id=3'

empty_query: drops a ``?`` with nothing after it, and empty parameters. It has no known risks.

>>> form("empty_query", "http://a.test/x?&a=1&")
'http://a.test/x?a=1'

sorted_query: sorts parameters by name; those with the same name keep their order. A query in
which a parameter has no ``=`` is left unchanged, because its order may matter. Risks losing pages
of other servers where the order matters.

>>> form("sorted_query", "http://a.test/?b=1&a=2&b=0")
'http://a.test/?a=2&b=1&b=0'
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache, partial

from webcrawl.urls.filters.host_rules import UrlHostRules

STANDARD = frozenset({"host_case", "idn", "default_port", "dot_segments", "empty_path", "fragment"})
DEFAULT = frozenset(
    {
        *("percent_case", "unreserved", "session_ids", "duplicate_slashes"),
        *("tracking", "empty_query", "sorted_query"),
    }
)
RULES = STANDARD | DEFAULT | {"index_names", "lower_case"}

# Sizes of caches: for the canonical forms of origins, and for names of parameters that are kept.
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

# Servlets, PHP and others put session ids that should be cookies after a semicolon.
_PATH_SESSION = re.compile(
    r";(?:jsessionid|phpsessid|sessionid|session_id|sid|s)=([^/;]*)", re.IGNORECASE
)
_ASP_NET_SESSION = re.compile(r"/\((?:[a-z]\(([0-9a-z_-]+)\))+\)(?=/)", re.IGNORECASE)
# Names of session parameters: those of certain platforms, and general ones, which may instead
# identify a page.
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
# A random token, which may be followed by the name of a machine. Includes base64 and UUIDs.
_TOKEN = re.compile(r"[0-9a-z_-]{16,}(?=[.!~:%]|\Z)", re.IGNORECASE)
_CHANGE = re.compile(r"(?<=[0-9])[a-z]|(?<=[a-z])[0-9]", re.IGNORECASE)
# Names and titles with a year have only one change from letters to digits.
_MIN_CHANGES = 2
_MIN_DIGITS = 8  # in a CFTOKEN
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
    """Computes the form in which URLs are compared, by the rules named in *rules*.

    *hosts* adds LARM's host rules. They affect only the comparison form: the host in the URL is the
    one that is contacted, and politeness applies to it. Raises ValueError for an unknown rule.
    """

    def __init__(
        self, rules: frozenset[str] = DEFAULT, *, hosts: UrlHostRules | None = None
    ) -> None:
        unknown = ", ".join(sorted(rules - RULES))
        if unknown:
            known = ", ".join(sorted(RULES))
            raise ValueError(f"Unknown URL rule: {unknown}. The rules are {known}.")
        # Returns the canonical form of an origin; None without host rules.
        self._canonical = (
            None if hosts is None else lru_cache(_CACHED_ORIGINS)(partial(_canonical, hosts))
        )
        # Cache of names of parameters that are kept whatever their value is.
        self._significant: set[str] = set()
        self._escapes = _escapes(case="percent_case" in rules, unreserved="unreserved" in rules)
        self._raises_escapes = "percent_case" in rules
        self._drops_sessions = "session_ids" in rules
        self._joins_slashes = "duplicate_slashes" in rules
        self._drops_index_names = "index_names" in rules
        self._lowers_paths = "lower_case" in rules
        self._drops_empty = "empty_query" in rules
        self._sorts_query = "sorted_query" in rules
        self._dropped_names = _TRACKING if "tracking" in rules else frozenset()
        self._dropped_prefixes = _TRACKING_PREFIXES if "tracking" in rules else ()

    def comparison_form(self, url: str) -> str:
        """Return the form in which *url*, which is normalized, is compared.

        Never raises. Without host rules, this is idempotent and does not change scheme, host or
        port. For schemes other than http and https only host rules apply: the parts
        of a Gopher selector, for example, have no general meaning.
        """
        return self.comparison_forms((url,))[0]

    def comparison_forms(self, urls: Sequence[str]) -> list[str]:
        """Return the ``comparison_form`` of each of *urls*.

        Only few URLs have a part that a rule for paths or escapes may change. So the links of a
        page are examined together; only if there is such a part, each is examined alone.
        """
        if not self._may_rewrite("\n".join(urls), len(urls)):
            forms = [self._with_query_form(url) if "?" in url else url for url in urls]
        elif len(urls) > 1:
            return [*map(self.comparison_form, urls)]
        else:
            forms = [*map(self._rewrite, urls)]
        return forms if self._canonical is None else [*map(self._with_canonical_host, forms)]

    def _may_rewrite(self, text: str, url_count: int) -> bool:
        """Return whether a rule for paths or escapes may change one of the URLs in *text*."""
        return (
            ("%" in text and _LOOSE_ESCAPE.search(text) is not None)
            or ";" in text
            or text.count("//") > url_count  # each scheme ends with one
            or "/(" in text
            or self._lowers_paths
            or (self._drops_index_names and _may_be_index(text))
        )

    def _with_canonical_host(self, url: str) -> str:
        """Apply the host rules to *url*."""
        assert self._canonical is not None
        origin_end = url.find("/", url.find(":") + 3)
        return self._canonical(url[:origin_end]) + url[origin_end:]

    def _rewrite(self, url: str) -> str:
        """Apply all rules to *url*: path, query and escapes."""
        parts = _PARTS.fullmatch(url)
        if parts is None:
            return url
        origin, path, query = parts.groups()
        if "%" in url:
            path = self._fix_escapes(path)
            query = query and self._fix_escapes(query)
        before_query = f"{origin}{self._path_form(path)}"
        return before_query if query is None else self._with_query_form(f"{before_query}?{query}")

    def _fix_escapes(self, text: str) -> str:
        """Apply percent_case and unreserved to *text*."""
        escapes = self._escapes
        text = _FREE_ESCAPE.sub(lambda escape: escapes[escape[0]], text)
        # Escapes after a % that is not part of an escape were left out above. Upper case is safe
        # for them, too.
        if self._raises_escapes and _NO_ESCAPE.search(text) is not None:
            text = _ESCAPE.sub(lambda escape: escape[0].upper(), text)
        return text

    def _path_form(self, path: str) -> str:
        """Apply the rules for paths to *path*."""
        if self._drops_sessions:
            if ";" in path:
                path = _PATH_SESSION.sub(_without_token, path)
            if "/(" in path:
                path = _ASP_NET_SESSION.sub(_without_token, path)
        if self._joins_slashes and "//" in path:
            path = _SLASHES.sub("/", path)
        if self._drops_index_names:
            path = _INDEX.sub("", path)
        if self._lowers_paths and path.isascii():
            path = path.lower()
            if self._raises_escapes:
                path = _ESCAPE.sub(lambda escape: escape[0].upper(), path)
        return path

    def _with_query_form(self, url: str) -> str:
        """Apply the rules for queries to *url*, which has one."""
        before_query, _, query = url.partition("?")
        if not url.startswith("http") or query.count("&") >= _MAX_PARAMETERS:
            return url
        parameters = query.split("&")
        kept = parameters
        names = [parameter.partition("=")[0] for parameter in parameters]
        # Usually the cache tells that all parameters are kept.
        if not self._significant.issuperset(names):
            kept = [part for part in parameters if not self._is_dropped(part, before_query)]
            if self._drops_sessions:
                kept = _without_cold_fusion(kept)
        if self._drops_empty and "" in kept:
            kept = [parameter for parameter in kept if parameter]
        if not kept:
            return before_query
        if len(kept) < len(parameters):
            names = [parameter.partition("=")[0] for parameter in kept]
        if (
            self._sorts_query
            and len(kept) > 1
            and names != sorted(names)
            and all("=" in parameter for parameter in kept)
        ):
            kept = sorted(kept, key=lambda parameter: parameter.partition("=")[0])
        return f"{before_query}?{'&'.join(kept)}"

    def _is_dropped(self, parameter: str, before: str) -> bool:
        """Return whether *parameter* is dropped, because of tracking or session_ids.

        *before* is the URL before the query.
        """
        name, _, value = parameter.partition("=")
        lower = name.lower()
        if lower in self._dropped_names or lower.startswith(self._dropped_prefixes):
            return True
        if self._drops_sessions:
            if lower in _SESSION or lower.startswith("aspsessionid"):
                return _is_random(value)
            if lower in _MAYBE_SESSION:
                path = before.rpartition("://")[2].partition("/")[2].lower()
                return "session" not in path and _is_random(value)
            if lower in _COLD_FUSION:
                return False  # ``_without_cold_fusion`` decides, which needs both parameters

        # Next time, the name alone decides, unless it is too long for the cache.
        if len(name) <= _LONGEST_CACHED_NAME:
            if len(self._significant) >= _CACHED_NAMES:
                self._significant.clear()
            self._significant.add(name)
        return False


def _canonical(host_rules: UrlHostRules, origin: str) -> str:
    """Return *origin* with its host replaced by the canonical one, according to *host_rules*."""
    match = _ORIGIN.fullmatch(origin)
    return origin if match is None else match[1] + host_rules.canonical(match[2]) + match[3]


def _is_random(value: str) -> bool:
    """Return whether *value* begins with a random token, such as a session id."""
    token = _TOKEN.match(value)
    return token is not None and len(_CHANGE.findall(token[0])) >= _MIN_CHANGES


def _without_token(match: re.Match[str]) -> str:
    """Return the text that replaces a session id in a path: nothing if it is random."""
    return "" if _is_random(match[1]) else match[0]


def _without_cold_fusion(parameters: list[str]) -> list[str]:
    """Return *parameters* without CFID and CFTOKEN, if both are there and CFTOKEN is random."""
    values = {name.lower(): value for name, _, value in (p.partition("=") for p in parameters)}
    token = values.get("cftoken", "")
    is_random = len(token) >= _MIN_DIGITS if token.isdecimal() else _is_random(token)
    if "cfid" not in values or not is_random:
        return parameters
    return [p for p in parameters if p.partition("=")[0].lower() not in _COLD_FUSION]


def _may_be_index(url: str) -> bool:
    """Return whether *url* may end with the name of an index page."""
    url = url.lower()
    return "/index." in url or "/default." in url


def _escapes(*, case: bool, unreserved: bool) -> dict[str, str]:
    """Return the comparison form of each escape, by all of its spellings.

    *case* and *unreserved* say whether the rules percent_case and unreserved are in use.
    """
    table = {}
    digits = "0123456789abcdefABCDEF"
    for escape in (f"%{high}{low}" for high in digits for low in digits):
        char = chr(int(escape[1:], 16))
        if unreserved and char in _UNRESERVED:
            table[escape] = char
        else:
            table[escape] = escape.upper() if case else escape
    return table
