"""More kinds of small applications, in the manner of ``applications``."""

# ruff: noqa: E501  # the lines are those of scripts

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from applications import boot

if TYPE_CHECKING:
    from applications import Application

_PATHS = (
    *("/l/a b", "/l/ü", "/l/%E4", "/l/a%2Fb", "//other.test/l/", "/l/../l/x", "/l/\\y", " /l/s "),
    *("?only", "/l/{x}", "/l/%zz", "/l/a^b", "/l/'q'"),
)
_DEAD = ("javascript:void(0)", "mailto:a@b.test", "tel:1", "app:open", "data:,x")


def slots(app: Application) -> str:
    """Web components with slots, one in another."""
    define = f"customElements.define('x-in', class extends HTMLElement {{ constructor() {{ super(); this.attachShadow({{mode: 'open'}}).innerHTML = `<slot name=a></slot>{app.anchor()}` }} }}); customElements.define('x-out', class extends HTMLElement {{ connectedCallback() {{ const r = this.attachShadow({{mode: '{app.pick('open', 'closed')}'}}); r.innerHTML = `<x-in><b slot=a>{app.word()}</b></x-in><slot>{app.anchor()}</slot>` }} }})"
    return f"<x-out>{app.pick('', app.anchor())}</x-out><script>{define}</script>"


def went_back(app: Application) -> str:
    """Routers that go back, and show what the earlier state says."""
    step = app.pick("history.back()", "history.go(-1)")
    return boot(
        app,
        f"addEventListener('popstate', e => show(out, e.state?.list ?? {app.items()})); history.replaceState({{list: {app.items()}}}, '', '/one/'); history.pushState({{}}, '', '/two/'); {step}",
    )


def inner_frames(app: Application) -> str:
    """Frames in frames, which scripts of the inner ones fill."""
    inner = f"<p>{app.word()}</p><script>document.body.insertAdjacentHTML('beforeend', &quot;{app.anchor()}&quot;)</script>"
    ask = "<script>fetch('/data.json').then(r => r.json()).then(d => d.forEach(([u, w]) => { const a = document.createElement('a'); a.href = u; a.textContent = w; document.body.append(a, ' ') }))</script>"
    escaped = ask.replace("</", "<\\/")
    app.file("/data.json", app.items())
    return app.pick(
        f'<iframe srcdoc="{inner}"></iframe>',
        f'<iframe srcdoc="{ask}"></iframe>',
        boot(
            app,
            f"const f = document.createElement('iframe'); f.srcdoc = `{escaped}`; document.body.append(f)",
        ),
        f'<iframe srcdoc="{app.word()}" name=inner></iframe><a href=/l/{app.word()} target=inner>x</a>',
    )


def waiting_requests(app: Application) -> str:
    """XMLHttpRequest that blocks."""
    app.file("/data.json", app.items())
    kind = app.pick("document.write(`<a href=${u}>${w}</a>`)", "show(out, [[u, w]])")
    return boot(
        app,
        f"const x = new XMLHttpRequest(); x.open('GET', '/data.json', false); x.send(); JSON.parse(x.responseText).forEach(([u, w]) => {kind})",
    )


def bare_names(app: Application) -> str:
    """Import maps with prefixes and scopes."""
    app.file("/js/list.js", f"export default {app.items()}")
    app.file("/js/lib/index.js", "export {default as list} from 'other/list.js'")
    maps = '<script type=importmap>{"imports": {"lib": "/js/lib/index.js", "other/": "/js/"}, "scopes": {"/js/lib/": {"other/": "/js/"}}}</script>'
    use = app.pick(
        "import {list} from 'lib'; show(out, list)",
        "const {list} = await import('lib'); show(out, list)",
        "import(import.meta.resolve('other/list.js')).then(m => show(out, m.default))",
    )
    return maps + boot(app, "") + f"<script type=module>{use}</script>"


def templates(app: Application) -> str:
    """Nested templates, cloned."""
    template = f"<template id=t><li><template><a></a></template></li></template><ul id=u></ul><template>{app.anchor()}</template>"
    fill = f"for (const [url, word] of {app.items()}) {{ const li = document.importNode(t.content, true); const a = li.querySelector('template').content.cloneNode(true); a.firstChild.href = url; a.firstChild.textContent = word; u.append(li); u.lastChild.append(a) }}"
    return template + boot(app, fill)


def late_writes(app: Application) -> str:
    """document.write when the document is there already."""
    html = f"<p>{app.word()}</p>{app.anchor()}"
    write = app.pick(
        f"document.write(`{html}`); document.close()",
        f"document.write(`{html}`)",
        f"document.open(); document.write(`<base href=/b/>{app.anchor('rel/')}`); document.close()",
        f"document.write(`{html}<script>document.write('{app.word()}')<\\/script>`); document.close()",
    )
    return app.anchor() + f"<script>onload = () => setTimeout(() => {{ {write} }}, 50)</script>"


def observers(app: Application) -> str:
    app.file("/data.json", app.items())
    load = "fetch('/data.json').then(r => r.json()).then(d => show(out, d))"
    return boot(
        app,
        app.pick(
            f"new MutationObserver((all, one) => {{ one.disconnect(); {load} }}).observe(out, {{childList: true, subtree: true}}); out.append('x')",
            f"new ResizeObserver((all, one) => {{ one.disconnect(); {load} }}).observe(out)",
            f"requestIdleCallback(() => {{ {load} }}, {{timeout: 2000}})",
            f"new PerformanceObserver((all, one) => {{ one.disconnect(); {load} }}).observe({{type: 'navigation', buffered: true}})",
            f"scheduler.postTask(() => {{ {load} }}, {{delay: 100, priority: 'background'}})",
            f"document.addEventListener('visibilitychange', () => 0); if (document.visibilityState === 'visible') {load}",
        ),
    )


def scrollers(app: Application) -> str:
    """Observers whose root is a box that scrolls."""
    app.file("/data.json", app.items())
    margin = app.pick("0px", "200px")
    return (
        f"<div id=box style='height: 300px; overflow: auto'><div style='height: {app.random.choice((100, 250))}px'></div><p id=end>{app.word()}</p></div>"
        + boot(
            app,
            f"new IntersectionObserver(([one], o) => {{ if (one.isIntersecting) {{ o.disconnect(); fetch('/data.json').then(r => r.json()).then(d => show(out, d)) }} }}, {{root: box, rootMargin: '{margin}'}}).observe(end)",
        )
    )


def module_workers(app: Application) -> str:
    app.file("/js/list.js", f"export const list = {app.items()}")
    app.file(
        "/js/worker.js",
        app.pick(
            "import {list} from './list.js'; postMessage(list)",
            "import('./list.js').then(m => postMessage(m.list))",
        ),
    )
    plain = "importScripts('${location.origin}/js/plain.js')"
    app.file("/js/plain.js", f"postMessage({app.items()})")
    made = app.pick(
        "new Worker('/js/worker.js', {type: 'module'})",
        "new Worker(new URL('/js/worker.js', location), {type: 'module'})",
        "new Worker(URL.createObjectURL(new Blob(['import(\"' + location.origin + '/js/list.js\").then(m => postMessage(m.list))'])), {type: 'module'})",
        f"new Worker(URL.createObjectURL(new Blob([`{plain}`])))",
    )
    return boot(app, f"{made}.onmessage = e => show(out, e.data)")


def requests(app: Application) -> str:
    """fetch with all its arguments."""
    data = app.file("/data.json", app.items())
    ask = app.pick(
        f"const c = new AbortController(); fetch('{data}?x').catch(() => 0); c.abort(); fetch('{data}', {{signal: new AbortController().signal}})",
        f"fetch(new Request('{data}', {{headers: new Headers({{accept: 'application/json'}}), cache: 'no-store', credentials: 'include'}}))",
        f"fetch('{data}', {{signal: AbortSignal.timeout(4000), keepalive: true, priority: 'high'}})",
        f"(() => {{ const c = new AbortController(); const p = fetch('{data}', {{signal: c.signal}}); c.abort(); return p.catch(() => fetch('{data}')) }})()",
        f"fetch('{data}', {{mode: 'same-origin', redirect: 'error', referrerPolicy: 'no-referrer'}})",
    )
    return boot(app, f"{ask}.then(r => r.clone().json()).then(d => show(out, d))")


def streams(app: Application) -> str:
    data = app.file("/data.json", app.items())
    read = app.pick(
        "const reader = r.body.pipeThrough(new TextDecoderStream()).getReader(); let text = ''; for (;;) { const {value, done} = await reader.read(); if (done) break; text += value } show(out, JSON.parse(text))",
        "const [one, two] = r.body.tee(); show(out, await new Response(two).json())",
        "let text = ''; const d = new TextDecoder(); for await (const part of r.body) text += d.decode(part, {stream: true}); show(out, JSON.parse(text))",
        "show(out, JSON.parse(await (await r.blob()).text()))",
        "const gz = new Blob([await r.text()]).stream().pipeThrough(new CompressionStream('gzip')); show(out, await new Response(gz.pipeThrough(new DecompressionStream('gzip'))).json())",
    )
    return boot(app, f"fetch('{data}').then(async r => {{ {read} }})")


def queries(app: Application) -> str:
    """What forms and URLSearchParams make of names with odd signs."""
    app.file("/data.json", app.items())
    value = app.pick("a b", "ü&=", "50%", "x+y", "[1]", "日本")
    ask = app.pick(
        f"'/data.json?' + new URLSearchParams({{q: '{value}', page: 1}})",
        f"(() => {{ const u = new URL('/data.json', location); u.searchParams.append('q', '{value}'); return u }})()",
        "'/data.json?' + new URLSearchParams(new FormData(f))",
        f"'/data.json?q={value}'",
        f"`/data.json?q=${{encodeURIComponent('{value}')}}#part`",
    )
    return f"<form id=f action=/l/x><input name=q value='{value}'></form>" + boot(
        app, f"fetch({ask}).then(r => r.json()).then(d => show(out, d))"
    )


def get_forms(app: Application) -> str:
    """Forms that scripts make and send."""
    to = app.item()[0]
    field = app.pick("a b", "ü", "1&2")
    send = app.pick("f.submit()", "f.requestSubmit()", "f.querySelector('button').click()")
    return (
        app.anchor()
        + f"<script>const f = document.createElement('form'); f.action = '{to}'; f.innerHTML = '<input name=q value=\"{field}\"><button name=b value=1>x</button>'; document.body.append(f); {send}</script>"
    )


def bases(app: Application) -> str:
    """<base> with and without a target, also by script."""
    return app.pick(
        f"<base target=_blank>{app.anchor('rel/')}",
        f"<base href=/b/ target=_top>{app.anchor('rel/')}",
        boot(
            app,
            f"const b = document.createElement('base'); b.href = '/made/'; document.head.append(b); show(out, [['rel', '{app.word()}']])",
        ),
        "<base href=/first/><base href=/second/>"
        + boot(
            app, f"show(out, [['rel', '{app.word()}']]); document.querySelector('base').remove()"
        ),
        boot(
            app,
            f"show(out, [['rel', '{app.word()}']]); const b = document.createElement('base'); b.href = '/late/'; document.body.append(b); setTimeout(() => b.href = '/later/', 100)",
        ),
    )


def made_refreshes(app: Application) -> str:
    """A refresh that a script makes."""
    to = app.item()[0]
    wait = app.pick("0", "1", "0.5")
    return app.anchor() + app.pick(
        f"<script>const m = document.createElement('meta'); m.httpEquiv = 'refresh'; m.content = '{wait}; url={to}'; document.head.append(m)</script>",
        f"<script>document.write('<meta http-equiv=refresh content=\"{wait};url={to}\">')</script>",
        f"<script>setTimeout(() => document.head.insertAdjacentHTML('beforeend', '<meta http-equiv=refresh content=\"{wait}; {to}\">'), 100)</script>",
    )


def inner_roots(app: Application) -> str:
    """Shadow roots in shadow roots, of both modes."""
    one, two = app.pick("open", "closed"), app.pick("open", "closed")
    return f"<div id=d></div>{app.anchor()}<script>const r = d.attachShadow({{mode: '{one}'}}); r.innerHTML = `<p>{app.word()}</p><section></section>`; const s = r.querySelector('section').attachShadow({{mode: '{two}'}}); s.innerHTML = `{app.anchor()}<iframe></iframe>`; s.querySelector('iframe').contentDocument.body.innerHTML = `{app.anchor()}`</script>"


def odd_urls(app: Application) -> str:
    """Links with odd signs, and those that lead nowhere."""
    paths = app.random.sample(_PATHS, 5) + app.random.sample(_DEAD, 2)
    return boot(app, f"show(out, {json.dumps([[path, app.word()] for path in paths])})")


def own_schemes(app: Application) -> str:
    """Pages that try to open applications."""
    go = app.pick(
        "location = 'intent://x'",
        "location.href = 'mailto:a@b.test'",
        "location = 'myapp:open'",
        "location = 'javascript:void 0'",
        "window.open('tel:1')",
        "const f = document.createElement('iframe'); f.src = 'myapp:open'; document.body.append(f)",
    )
    return boot(app, f"{go}; setTimeout(() => show(out, {app.items()}), 300)")


def failures(app: Application) -> str:
    """What is shown when something fails."""
    more = f"show(out, {app.items()})"
    return boot(
        app,
        app.pick(
            f"onerror = () => {{ {more}; return true }}; setTimeout(() => {{ throw new Error('x') }}, 10)",
            f"addEventListener('unhandledrejection', () => {more}); Promise.reject(new Error('x'))",
            f"const s = document.createElement('script'); s.src = '/none.js'; s.onerror = () => {more}; document.head.append(s)",
            f"import('/none.js').catch(() => {more})",
            f"const l = document.createElement('link'); l.rel = 'stylesheet'; l.href = '/none.css'; l.onerror = () => {more}; document.head.append(l)",
            f"fetch('http://nowhere.invalid/').catch(() => {more})",
            f"new Worker('/none.js').onerror = () => {more}",
        ),
    )


def awaited(app: Application) -> str:
    """Modules with await at the top, in a graph."""
    app.file("/data.json", app.items())
    app.file("/js/data.js", "export const list = await fetch('/data.json').then(r => r.json())")
    app.file(
        "/js/pause.js",
        f"await new Promise(r => setTimeout(r, {app.random.choice((10, 900))})); export const ok = true",
    )
    app.file(
        "/js/main.js",
        "import {ok} from './pause.js'; import {list} from './data.js'; show(out, list)",
    )
    return boot(app, "") + app.pick(
        "<script type=module src=/js/main.js></script>",
        "<script type=module>import '/js/main.js'</script>",
        "<script type=module async>await import('/js/main.js')</script>",
        "<script>import('/js/main.js')</script>",
    )


def navigators(app: Application) -> str:
    """The navigation API, and view transitions."""
    return boot(
        app,
        app.pick(
            f"navigation.addEventListener('navigate', e => e.intercept({{handler: async () => show(out, {app.items()})}})); navigation.navigate('/next/')",
            f"navigation.addEventListener('navigate', e => e.intercept({{handler: async () => show(out, {app.items()})}})); document.querySelector('a').click()",
            f"document.startViewTransition(() => show(out, {app.items()}))",
            f"addEventListener('hashchange', () => show(out, {app.items()})); location.hash = '/next'",
            f"addEventListener('pageshow', () => show(out, {app.items()}))",
        ),
    )


def json_modules(app: Application) -> str:
    """Modules that are JSON or style sheets."""
    app.file("/data.json", app.items())
    app.file("/style.css", f"#out {{ --list: '{app.word()}' }}")
    return boot(app, "") + app.pick(
        "<script type=module>import list from '/data.json' with {type: 'json'}; show(out, list)</script>",
        "<script type=module>const m = await import('/data.json', {with: {type: 'json'}}); show(out, m.default)</script>",
        f"<script type=module>import sheet from '/style.css' with {{type: 'css'}}; document.adoptedStyleSheets = [sheet]; show(out, {app.items()})</script>",
    )


def islands(app: Application) -> str:
    """Parts that wait for idle time, for sight, or for a width of the window."""
    app.file("/part.js", f"show(out, {app.items()})")
    start = (
        "const s = document.createElement('script'); s.src = '/part.js'; document.body.append(s)"
    )
    return boot(
        app,
        app.pick(
            f"matchMedia('(min-width: 800px)').matches && (() => {{ {start} }})()",
            f"const m = matchMedia('(max-width: 5000px)'); m.matches && (() => {{ {start} }})()",
            f"new IntersectionObserver(([e], o) => {{ if (e.isIntersecting) {{ o.disconnect(); {start} }} }}, {{rootMargin: '100px'}}).observe(document.querySelector('a'))",
            f"document.readyState === 'complete' ? 0 : addEventListener('load', () => requestIdleCallback(() => {{ {start} }}))",
            f"innerWidth > 700 && screen.width > 0 && navigator.onLine && (() => {{ {start} }})()",
        ),
    )


def animations(app: Application) -> str:
    """What is shown when an animation is over."""
    more = f"show(out, {app.items()})"
    wait = app.random.choice((200, 1000, 3000))
    return "<style>@keyframes k { to { opacity: 0.5 } } .k { animation: k 300ms }</style>" + boot(
        app,
        app.pick(
            f"let b; const f = t => t - (b ??= t) > {wait} ? {more} : requestAnimationFrame(f); requestAnimationFrame(f)",
            f"const b = Date.now(); const f = () => Date.now() - b > {wait} ? {more} : requestAnimationFrame(f); f()",
            f"let n = 0; const f = () => ++n === 30 ? {more} : requestAnimationFrame(f); f()",
            f"out.animate([{{opacity: 0}}, {{opacity: 1}}], {wait}).finished.then(() => {more})",
            f"out.addEventListener('animationend', () => {more}); out.textContent = 'x'; out.className = 'k'",
        ),
    )


def busy_waits(app: Application) -> str:
    """Loops that wait for the time."""
    wait = app.random.choice((50, 500, 1500))
    clock = app.pick("Date.now()", "performance.now()", "+new Date", "new Date().getTime()")
    loop = f"const t = {clock}; while ({clock} - t < {wait});"
    return boot(
        app,
        app.pick(
            f"{loop} show(out, {app.items()})",
            f"let ok; setTimeout(() => ok = 1, {wait}); const c = new MessageChannel(); c.port1.onmessage = () => ok ? show(out, {app.items()}) : c.port2.postMessage(1); c.port2.postMessage(1)",
            # Chromium may put timers off for ever while a loop yields.
            f"(async () => {{ const t = {clock}; while ({clock} - t < {wait}) await scheduler.yield(); show(out, {app.items()}) }})()",
            f"setTimeout(() => {{ {loop} show(out, {app.items()}) }}, 100)",
            f"new Worker(URL.createObjectURL(new Blob(['{loop} postMessage(1)']))).onmessage = () => show(out, {app.items()})",
        ),
    )


WAYS = (
    slots, went_back, inner_frames, waiting_requests, bare_names, templates, late_writes, observers,
    scrollers, module_workers, requests, streams, queries, get_forms, bases, made_refreshes,
    inner_roots, odd_urls, own_schemes, failures, awaited, navigators, json_modules, islands,
    animations, busy_waits,
)  # fmt: skip
