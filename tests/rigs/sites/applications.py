"""Small applications by seed, one a host, as frameworks and people write them.

Each links to paths below /l/ and shows words like ``w12q3``, in one of the ways below. What they
link to and show is for a browser to say.
"""

# ruff: noqa: E501  # the lines are those of scripts

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

from linked_site import Answer, Sites

if TYPE_CHECKING:
    from collections.abc import Callable

CDN = "cdn.test"
_TYPES = {
    "js": "text/javascript",
    "json": "application/json",
    "css": "text/css",
    "html": "text/html",
}
_SHOW = "window.show = (at, list) => list.forEach(([url, word]) => { const a = document.createElement('a'); a.href = url; a.textContent = word; at.append(a, ' ') });"


class Application:
    """The application *number*: its front page is ``/`` of ``host``.

    ``answers`` by host and path; ``needs`` are words that a request's head must have for some.
    """

    def __init__(self, number: int, kind: str, way: Callable[[Application], str]) -> None:
        self.host = f"app{number}.test"
        self.kind = kind
        self.random = random.Random(number)
        self.answers: dict[str, Answer] = {}
        self.needs: dict[str, str] = {}
        self._number = number
        self._words = 0
        body = way(self)
        html = body if body.startswith("<!") else f"<!DOCTYPE html><html><body>{body}</body></html>"
        self.file("/", html, kind="html")

    def word(self) -> str:
        self._words += 1
        return f"w{self._number}q{self._words}"

    def item(self, path: str = "/l/") -> list[str]:
        word = self.word()
        return [f"{path}{word}", word]

    def items(self, most: int = 4) -> str:
        return json.dumps([self.item() for _ in range(self.random.randint(1, most))])

    def anchor(self, path: str = "/l/") -> str:
        url, word = self.item(path)
        return f"<a href='{url}'>{word}</a>"

    def file(
        self,
        path: str,
        body: str,
        *,
        host: str = "",
        kind: str = "",
        needs: str = "",
        status: int = 200,
    ) -> str:
        """Serve *body* at *path*, and return its URL as the page has it."""
        name = (host or self.host) + path
        media = _TYPES[kind or path.rpartition(".")[2]]
        headers = ("Access-Control-Allow-Origin: *",) if host else ()
        self.answers[name] = Answer(body.encode(), media, headers, status)
        if needs:
            self.needs[name] = needs.lower()
        return f"http://{host}:{{port}}{path}" if host else path

    def pick(self, *values: str) -> str:
        return self.random.choice(values)


def boot(app: Application, script: str) -> str:
    return f"<div id=out></div>{app.anchor()}<script>{_SHOW}{script}</script>"


def navigation(app: Application) -> str:
    to = app.item()[0]
    go = app.pick(
        f"location = '{to}'", f"location.href = '{to}'", f"location.replace('{to}')",
        f"location.assign('{to}')", f"setTimeout(() => location = '{to}', 300)",
        f"open('{to}', '_self')", "document.querySelector('a').click()",
    )  # fmt: skip
    script, text = f"<script>{go}</script>", f"<p>{app.word()} {app.anchor()}</p>"
    return text + script if "querySelector" in go else app.pick(script + text, text + script)


def reload(app: Application) -> str:
    keep = app.pick(
        "document.cookie = 'seen=1'", "sessionStorage.seen = 1", "localStorage.setItem('seen', 1)"
    )
    seen = "document.cookie.includes('seen') || sessionStorage.seen || localStorage.seen"
    again = app.pick("location.reload()", "location = location.href", "location.replace('/')")
    return boot(app, f"if ({seen}) show(out, {app.items()}); else {{ {keep}; {again} }}")


def stopped(app: Application) -> str:
    stop = app.pick("stop()", "document.write(''); stop()", "throw new Error('x')", "window.stop()")
    return f"<script>{stop}</script><p>{app.word()} {app.anchor()}</p>"


def sent_form(app: Application) -> str:
    name = app.word()
    call = app.pick("submit", "requestSubmit")
    return f"<form action=/l/{name}><input name=q value={name}></form>{app.anchor()}<script>document.forms[0].{call}()</script>"


def history(app: Application) -> str:
    to = app.pick("/deep/er/page", "/other", "?view=1", "#part", "below/")
    call = app.pick("pushState", "replaceState")
    relative = app.pick("rel-", "./rel-", "../rel-")
    return boot(
        app, f"history.{call}({{}}, '', '{to}'); show(out, [['{relative}x', '{app.word()}']])"
    )


def own_fields(app: Application) -> str:
    name, value = app.pick(
        "X-Requested-With: XMLHttpRequest", "Accept: application/json", "X-Api-Key: k1",
        "Accept: application/vnd.api+json", "Accept-Version: 2", "X-CSRF-Token: t",
    ).split(": ")  # fmt: skip
    data = app.file("/data.json", app.items(), needs=f"{name}: {value}")
    ask = f"fetch('{data}', {{headers: {{'{name}': '{value}'}}}}).then(r => r.ok ? r.json() : [])"
    return boot(app, f"{ask}.then(list => show(out, list))")


def referers(app: Application) -> str:
    kind = app.pick("js", "json")
    policy = app.pick(
        "", "<meta name=referrer content=origin>", "<meta name=referrer content=same-origin>"
    )
    needs = f"Referer: http://{app.host}"
    if kind == "js":
        app.file("/guarded.js", f"show(out, {app.items()})", needs=needs)
        return policy + boot(app, "") + "<script src=/guarded.js></script>"
    app.file("/guarded.json", app.items(), needs=needs)
    return policy + boot(app, "fetch('/guarded.json').then(r => r.json()).then(d => show(out, d))")


def accepts(app: Application) -> str:
    app.file(
        "/style.css",
        f"#out::after {{ content: '' }} #out {{ --list: '{app.word()}' }}",
        needs="Accept: text/css,*/*;q=0.1",
    )
    show = f"getComputedStyle(out).getPropertyValue('--list') && show(out, {app.items()})"
    return "<link rel=stylesheet href=/style.css>" + boot(
        app, f"addEventListener('load', () => {show})"
    )


def chain(app: Application) -> str:
    """A file that names the next one, up to eight."""
    length = app.random.randint(1, 8)
    last = f"show(out, {app.items()})"
    for number in range(length, 0, -1):
        way = app.pick("script", "module", "json", "xhr")
        if way == "script":
            app.file(f"/{number}.js", last)
            last = f"{{ const s = document.createElement('script'); s.src = '/{number}.js'; document.head.append(s) }}"
        elif way == "module":
            app.file(f"/{number}.js", last)
            last = f"import('/{number}.js')"
        elif way == "json":
            app.file(f"/{number}.json", json.dumps({"run": last}))
            last = f"fetch('/{number}.json').then(r => r.json()).then(d => eval(d.run))"
        else:
            app.file(f"/{number}.js", last)
            last = f"{{ const x = new XMLHttpRequest(); x.open('GET', '/{number}.js'); x.onload = () => eval(x.responseText); x.send() }}"
    return boot(app, last)


def viewport(app: Application) -> str:
    """Lists that load what is in sight, below the window."""
    app.file("/more.json", app.items())
    above = app.random.randint(100, 12000)
    load = "fetch('/more.json').then(r => r.json()).then(d => show(out, d))"
    see = f"new IntersectionObserver((all, one) => {{ if (all[0].isIntersecting) {{ one.disconnect(); {load} }} }}).observe(end)"
    return f"<div style='height: {above}px'></div><p id=end>{app.word()}</p>" + boot(app, see)


def lazy_images(app: Application) -> str:
    rows = "".join(
        f"<section style='min-height: 700px' data-n={n}></section>"
        for n in range(app.random.randint(2, 9))
    )
    fill = f"const all = {json.dumps([app.item() for _ in range(9)])}; const o = new IntersectionObserver(seen => seen.forEach(one => {{ if (one.isIntersecting) {{ o.unobserve(one.target); show(one.target, [all[one.target.dataset.n]]) }} }})); document.querySelectorAll('section').forEach(s => o.observe(s))"
    return rows + boot(app, fill)


def frames(app: Application) -> str:
    inner = f"<p>{app.word()}</p>{app.anchor(app.pick('/l/', 'rel/'))}"
    return app.pick(
        f'<iframe srcdoc="{inner}"></iframe>' + app.anchor(),
        boot(
            app,
            f"const f = document.createElement('iframe'); document.body.append(f); f.contentDocument.body.innerHTML = `{inner}`",
        ),
        boot(
            app,
            f"const f = document.createElement('iframe'); document.body.append(f); f.contentDocument.write(`{inner}`); f.contentDocument.close()",
        ),
        f'<iframe srcdoc="<base href=/b/>{inner}"></iframe>' + app.anchor(),
    )


def roots(app: Application) -> str:
    mode = app.pick("open", "closed")
    inner = f"{app.anchor()}<slot></slot>"
    return app.pick(
        f"<x-a>{app.anchor()}</x-a><script>customElements.define('x-a', class extends HTMLElement {{ connectedCallback() {{ this.attachShadow({{mode: '{mode}'}}).innerHTML = `{inner}` }} }})</script>",
        f"<x-a><template shadowrootmode={mode}>{inner}</template>{app.anchor()}</x-a>",
        f"<div id=d></div>{app.anchor()}<script>const r = d.attachShadow({{mode: '{mode}'}}); r.append(document.createElement('p')); r.firstChild.innerHTML = `{inner}`</script>",
    )


def random_names(app: Application) -> str:
    app.file("/data.json", app.items())
    salt = app.pick("Math.random()", "Date.now()", "performance.now()", "crypto.randomUUID()")
    return boot(app, f"fetch('/data.json?_=' + {salt}).then(r => r.json()).then(d => show(out, d))")


def storage(app: Application) -> str:
    app.file("/data.json", app.items())
    keep = app.pick("localStorage", "sessionStorage")
    ask = f"fetch('/data.json').then(r => r.json()).then(d => {keep}.list = JSON.stringify(d))"
    return boot(
        app,
        f"({keep}.list ? Promise.resolve() : {ask}).then(() => show(out, JSON.parse({keep}.list)))",
    )


def database(app: Application) -> str:
    put = f"d.transaction('s', 'readwrite').objectStore('s').put({app.items()}, 1)"
    get = "d.transaction('s').objectStore('s').get(1)"
    return boot(
        app,
        f"const o = indexedDB.open('x', 1); o.onupgradeneeded = () => o.result.createObjectStore('s'); o.onsuccess = () => {{ const d = o.result; {put}.onsuccess = () => {{ const g = {get}; g.onsuccess = () => show(out, g.result) }} }}",
    )


def form_fields(app: Application) -> str:
    """Names of fields hide the form's own properties."""
    hidden = "".join(
        f"<input name={name}>"
        for name in ("children", "childNodes", "nodeType", "outerHTML", "querySelectorAll")
    )
    return f"<form id=f>{hidden}</form>" + boot(app, f"show(f, {app.items()})")


def hydration(app: Application) -> str:
    """A page from the server, which a script builds again."""
    first = app.anchor()
    html = app.pick("''", f"'<p>{app.word()}</p>'", f"`{app.anchor()}`")
    state = f"<script type=application/json id=state>{app.items()}</script>"
    return f"<main id=m><p>{app.word()} {first}</p></main>{state}" + boot(
        app, f"m.innerHTML = {html}; show(m, JSON.parse(state.textContent))"
    )


def emptied(app: Application) -> str:
    """Scripts that take the page away."""
    empty = app.pick(
        "document.body.innerHTML = ''",
        "document.documentElement.remove()",
        "document.write('')",
        "document.open()",
        "document.querySelector('a').remove()",
    )
    return f"<p>{app.word()}</p>{app.anchor()}<script>setTimeout(() => {{ {empty} }}, 10)</script>"


def server_errors(app: Application) -> str:
    status = app.random.choice((404, 500, 403, 410))
    app.file("/data.json", app.items(), status=status)
    app.file("/spare.json", app.items())
    return boot(
        app,
        app.pick(
            "fetch('/data.json').then(r => r.json()).then(d => show(out, d))",
            "fetch('/data.json').then(r => r.ok ? r : fetch('/spare.json')).then(r => r.json()).then(d => show(out, d))",
            "fetch('/none.json').then(r => r.ok ? r.json() : Promise.reject()).catch(() => fetch('/spare.json').then(r => r.json())).then(d => show(out, d))",
        ),
    )


def foreign_modules(app: Application) -> str:
    part = app.file(f"/{app.host}/part.js", f"export const list = {app.items()}", host=CDN)
    main = app.file(
        f"/{app.host}/main.js", "import {list} from './part.js'; show(out, list)", host=CDN
    )
    return app.pick(
        boot(app, "") + f"<script type=module src='{main}'></script>",
        boot(app, f"import('{part}').then(m => show(out, m.list))"),
        f'<script type=importmap>{{"imports": {{"part": "{part}"}}}}</script>'
        + boot(app, "import('part').then(m => show(out, m.list))"),
        boot(app, f"fetch('{part}').then(r => r.text()).then(t => show(out, eval(t.slice(20))))"),
        boot(app, "")
        + f"<script src='{app.file(f'/{app.host}/plain.js', f'show(out, {app.items()})', host=CDN)}'></script>",
    )


def workers(app: Application) -> str:
    app.file("/data.json", app.items())
    app.file("/worker.js", "fetch('/data.json').then(r => r.json()).then(postMessage)")
    kind = app.pick("", ", {type: 'module'}")
    return boot(app, f"new Worker('/worker.js'{kind}).onmessage = e => show(out, e.data)")


def timers(app: Application) -> str:
    wait = app.random.randint(1, 1500)
    later = app.pick(
        f"setTimeout(() => show(out, {app.items()}), {wait})",
        f"let n = 0; const list = {app.items(6)}; const t = setInterval(() => n < list.length ? show(out, [list[n++]]) : clearInterval(t), 100)",
        f"requestAnimationFrame(() => requestAnimationFrame(() => show(out, {app.items()})))",
        f"requestIdleCallback(() => show(out, {app.items()}))",
        f"new MutationObserver(() => show(out, {app.items()})).observe(document.body, {{attributes: true}}); document.body.id = 'x'",
    )
    return boot(app, later)


def routes(app: Application) -> str:
    """A router: what it shows goes by the path."""
    return boot(
        app, f"const pages = {{'/': {app.items()}}}; show(out, pages[location.pathname] ?? [])"
    )


WAYS = (
    navigation, reload, stopped, sent_form, history, own_fields, referers, accepts, chain, viewport,
    lazy_images, frames, roots, random_names, storage, database, form_fields, hydration, emptied,
    server_errors, foreign_modules, workers, timers, routes,
)  # fmt: skip


def applications(count: int, ways: tuple[Callable[[Application], str], ...]) -> list[Application]:
    """The first *count* applications, which show things in all *ways* in turn."""
    turns = (ways[number % len(ways)] for number in range(count))
    return [Application(number, way.__name__, way) for number, way in enumerate(turns)]


class ApplicationSites(Sites):
    """Serves *applications*; only to who asks as the page would in a browser."""

    def __init__(self, applications: list[Application]) -> None:
        pages = {
            f"{app.host}/robots.txt": Answer(b"User-agent: *\nDisallow: /l/\n", "text/plain")
            for app in applications
        }
        self.needs: dict[str, str] = {}
        for app in applications:
            pages |= app.answers
            self.needs |= app.needs
        super().__init__(pages)

    def answer_to(self, name: str, head: str) -> Answer:
        name = name.partition("?")[0]
        if self.needs.get(name, "") not in head.lower():
            return Answer(b"no", "text/plain", status=406)
        answer = self.pages.get(name, Answer(b"not found", status=404))
        return answer._replace(body=answer.body.replace(b"{port}", str(self.port).encode()))
