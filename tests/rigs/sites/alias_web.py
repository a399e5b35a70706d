"""A web in which hosts serve the same site under two names, and others only look as if they did."""

from hashlib import sha256
from itertools import islice
from typing import NamedTuple

_FANOUT = (
    9  # links of a page to pages below it, few enough to be followed on a duplicate front page
)
_ALIAS_KINDS = {
    # kind -> (name that leads, other name)
    "www": ("www.w{}.test", "w{}.test"),
    "country": ("firm{}.test", "firm{}.example"),
    "staging": ("site{}.test", "staging.site{}.test"),
    "documentation": ("docs{}.test", "mirror.docs{}.example"),
    "node": ("n{}.test", "node7.n{}.test"),
    "volatile": ("v{}.test", "copy.v{}.example"),
}


class Web(NamedTuple):
    """*pages* as for ``VirtualSites``, *hosts*, and the truth: *aliases* have the host that
    leads by the other name."""

    pages: dict[str, str]
    hosts: list[str]
    aliases: dict[str, str]

    def as_known_to_an_oracle(self):
        """The same web without the other names: whoever links to them links to the one that leads.

        A name may end another, so the longest are replaced first.
        """
        pages = {
            p: body for p, body in self.pages.items() if p.partition(":")[0] not in self.aliases
        }
        for other in sorted(self.aliases, key=len, reverse=True):
            leading = self.aliases[other]
            for page, body in pages.items():
                if f"//{other}/" in body:
                    pages[page] = body.replace(f"//{other}/", f"//{leading}/")
        hosts = [host for host in self.hosts if host not in self.aliases]
        return Web(pages, hosts, {})

    def lost(self, hits):
        """Texts that no page among *hits*, by host and path, has in any version."""
        found = {_text_of(self.pages.get(f"{host}:80{path}", "")) for host, path in hits}
        return {text[:30] for text in {*map(_text_of, self.pages.values())} - found}


def _text_of(body):
    return body.partition("<p>")[2].partition("<a ")[0].removeprefix("older ")


def _text(name, number):
    return f"<p>{name} {number} " + " ".join(f"{name}-{number * 7 + i}" for i in range(20))


def _links(urls):
    return "".join(f"<a href='{url}'>x</a>" for url in urls)


def _tree(paths, prefix=""):
    """The links of each of *paths*: to the front page, and to pages below it."""
    below = {path: paths[i * _FANOUT + 1 :][:_FANOUT] for i, path in enumerate(paths)}
    return {path: _links(f"{prefix}{to}" for to in ("/", *below[path])) for path in paths}


def _site(name, size, prefix=""):
    """Pages by path; their links begin with *prefix*."""
    paths = ["/", *(f"/{name}/{number}.html" for number in range(1, size))]
    tree = _tree(paths, prefix)
    return {path: _text(name, i) + tree[path] for i, path in enumerate(paths)}


def _sitemap(host, paths):
    entries = "".join(f"<url><loc>http://{host}{path}</loc></url>" for path in paths)
    return {
        "/robots.txt": f"User-agent: *\nDisallow:\nSitemap: http://{host}/sitemap.xml\n",
        "/sitemap.xml": f"<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>{entries}"
        "</urlset>",
    }


def _alias_site(kind, name, host, leading, size):
    """The site *name* as *host* serves it, of which *leading* is the main name."""
    if kind in {"www", "country"}:  # a content system writes the requested name into links
        return _site(name, size, f"http://{host}")
    if kind == "staging":
        head = f"<link rel=canonical href='http://{leading}%s'>"
        pages = _site(name, size, f"http://{host}")
        return {path: head % path + body for path, body in pages.items()}
    pages = _site(name, size)
    if kind == "volatile":
        return {path: _changing(host, i, body) for i, (path, body) in enumerate(pages.items())}
    return pages | (_sitemap(host, pages) if kind == "documentation" else {})


def _changing(host, number, body):
    """*body* with a clock, a token and a counter, as one request for it had them."""
    token = sha256(f"{host} {number}".encode()).hexdigest()
    seconds = int(token, 16) % 86_400
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    title = body.partition("<p>")[2][:30]
    return (
        f"<title>{title}</title><i>Mon, 30 Nov 2026 {clock} GMT</i>"
        f"<form><input type=hidden name=csrf value={token[:32]}></form>"
        f"{body}<i>You are visitor {seconds} today</i>"
    )


def _lagging(pages, is_front_older):
    """*pages* as of the day before: a thirtieth of them has changed since."""
    changed = [*pages][29::30] + ["/"] * is_front_older
    return {
        p: body.replace("<p>", "<p>older ") if p in changed else body for p, body in pages.items()
    }


def _shop(number):
    """A shop system: front page and 12 pages are the same in all shops. In half of them goods have
    addresses of their own, in the others they are numbered."""
    shell = ["/", *(f"/shell/{page}" for page in range(12))]
    pages = {path: _text("shell", i) + _tree(shell)[path] for i, path in enumerate(shell)}
    slug = "p" if number % 2 else f"goods-of-{number}"
    goods = [f"/{slug}/{page}" for page in range(60)]
    texts = {path: _text(f"goods{number}", i) for i, path in enumerate(goods)}
    return pages | texts, goods


def _parked_domain(_):
    paths = ["/", "/buy", "/privacy", "/contact"]
    return {path: _text("parked", i) + _tree(paths)[path] for i, path in enumerate(paths)}, []


def _language(number):
    """A version of a site: every third page is not translated."""
    paths = ["/", *(f"/page/{page}" for page in range(60))]
    texts = [_text("base" if i % 3 == 1 else f"language{number}", i) for i in range(len(paths))]
    tree = _tree(paths)
    return {path: text + tree[path] for path, text in zip(paths, texts, strict=True)}, paths


def _framework(number):
    """The default pages of a framework, with its manual, and pages that only this host has."""
    paths = ["/", *(f"/manual/{page}" for page in range(30))]
    tree = _tree(paths)
    pages = {path: _text("manual", i) + tree[path] for i, path in enumerate(paths)}
    own = {f"/app{number}/{page}": _text(f"app{number}", page) for page in range(40)}
    return pages | own, [*own]


def _template(number):
    """Eight pages are the same. Others have the same paths in all sites, but texts of their own; a
    directory links to one of them."""
    shell = ["/", *(f"/about/{page}" for page in range(7))]
    pages = {path: _text("template", i) + _tree(shell)[path] for i, path in enumerate(shell)}
    own = [f"/own/{page}" for page in range(60)]
    texts = {path: _text(f"template{number}", i) for i, path in enumerate(own)}
    return pages | texts | {own[0]: texts[own[0]] + _links(own)}, own[:1]


_LOOKALIKES = {
    "shop": _shop,
    "parked": _parked_domain,
    "language": _language,
    "framework": _framework,
    "template": _template,
}


def alias_web(*, hosts, aliases, mirrors, lookalikes, size):
    """Return a web of *hosts*: *aliases* second names of sites with *size* pages, *mirrors* that
    lag by a day, *lookalikes*, and ordinary sites."""
    sites = {}  # the pages of each host by path
    truth = {}
    deep = []  # URLs that a directory links to, as no page of the host does

    for number in range(aliases):
        kind = [*_ALIAS_KINDS][number % len(_ALIAS_KINDS)]
        leading, other = (name.format(number) for name in _ALIAS_KINDS[kind])
        truth[other] = leading
        for host in (leading, other):
            sites[host] = _alias_site(kind, f"{kind}{number}", host, leading, size)
        if kind == "node":  # its pages are known by links of others
            deep += [f"http://{other}{path}" for path in sites[other]]
    for number in range(mirrors):
        sites[f"m{number}.test"] = pages = _site(f"mirrored{number}", size // 4)
        sites[f"lag.m{number}.example"] = _lagging(pages, number % 2)
    for number in range(lookalikes):
        kind = [*_LOOKALIKES][number % len(_LOOKALIKES)]
        host = f"{kind}{number}.test"
        sites[host], listed = _LOOKALIKES[kind](number // len(_LOOKALIKES))
        deep += [f"http://{host}{path}" for path in listed]
    directory = {"/": _links(f"/{part}" for part in range(_FANOUT))}
    for part in range(_FANOUT):
        directory[f"/{part}"] = f"part {part}" + _links(islice(deep, part, None, _FANOUT))
    sites["directory.test"] = directory
    for number in range(hosts - len(sites)):
        sites[f"o{number}.test"] = _site(f"ordinary{number}", 3 + number % 12)

    pages = {
        f"{host}:80{path}": body for host, site in sites.items() for path, body in site.items()
    }
    return Web(pages, [*sites], truth)
