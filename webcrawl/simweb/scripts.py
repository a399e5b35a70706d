"""Scripts of the simulated sites that need a browser, one for each kind of site.

A script finds its page by ``location``: the data of the page at PATH is at ``/api/BATCH/PATH``.
``SCRIPTS`` has the text of each script by the name of its file, without ``.js``. The hostile
scripts loop, fill the memory, open windows or dialogs, or damage what an engine relies on.
"""

from __future__ import annotations

from webcrawl.simweb.host_spec import Rendering

# Imported by modules, and a part of all other scripts except the hostile ones.
_LIBRARY = """\
const app = document.getElementById("app");
const load = batch =>
  fetch("/api/" + batch + location.pathname + location.search).then(answer => answer.json());
const show = (root, data) => {
  const part = document.createElement("div");
  const items = data.links.map(link => `<li><a href="${link}">${link}</a></li>`);
  part.innerHTML = `<ul>${items.join("")}</ul><p>${data.text}</p>`;
  root.append(part);
};
"""
_SHOW = "load(0).then(data => show(app, data));\n"

# One script a line: loops, memory, the DOM, requests, windows and navigation, and what an engine
# relies on.
HOSTILE = r"""
for (;;);
setInterval(() => { for (;;); }, 10);
const f = () => Promise.resolve().then(f); f();
const f = () => setTimeout(f, 0); f();
const f = () => { setTimeout(f); setTimeout(f); }; f();
const f = () => { try { f(); } finally { f(); } }; f();
const f = () => requestAnimationFrame(f); f(); setInterval(f, 1);
/^(a+)+$/.test('a'.repeat(64) + 'b');
onmessage = () => postMessage(0); postMessage(0);
for (;;) debugger;
for (;;) console.log('x'.repeat(1e6));
for (;;) history.replaceState(0, '', '?' + Math.random());
const a = []; for (;;) a.push(new Array(1e6).fill(a.length));
const a = []; for (;;) a.push(new Uint8Array(1 << 28).fill(1));
const a = []; for (;;) { let s = 'x' + a.length; while (s.length < 1e8) s += s; a.push(s); }
const m = new Map(); for (let i = 0;; i++) m.set(i, {i});
const a = []; for (;;) a.push(new Uint8Array(new WebAssembly.Memory({initial: 99}).buffer).fill(1));
const a = [{}]; for (;;) a.push(structuredClone(a));
for (let i = 0;; i++) try { localStorage.setItem(i, 'x'.repeat(1e5)); } catch {}
for (;;) document.body.append(document.createElement('div'));
for (let e = document.body;; e = e.lastChild) e.append(document.createElement('div'));
for (;;) document.body.append(document.body.cloneNode(true));
setInterval(() => document.body.innerHTML += document.body.innerHTML, 1);
for (let i = 0;; i++) document.body.setAttribute('a' + i, 'x'.repeat(1e4));
for (let i = 0;; i++) document.body.innerHTML += `<a href='/maze/${i}/'>`;
for (let i = 0;; i++) document.write(`<a href='/maze/${i}/'>${i}</a>`);
const f = () => document.head.append(document.createElement('style')); setInterval(f);
for (let i = 0;; i++) fetch('/api/' + i + '/');
let i = 0; setInterval(() => fetch('/api/' + i++ + '/'), 1);
const x = new XMLHttpRequest(); for (;;) { x.open('GET', '/api/0/', false); x.send(); }
for (let i = 0;; i++) new Image().src = '/maze/' + i + '/';
for (;;) navigator.sendBeacon('/maze/', 'x');
for (;;) new Worker(URL.createObjectURL(new Blob(['for (;;);'])));
setInterval(() => new WebSocket(location.href.replace('http', 'ws')), 1);
const e = document.createElement('iframe'); e.src = location; document.body.append(e);
for (;;) alert(1);
onbeforeunload = () => 1; setInterval(() => prompt('name'), 1);
for (;;) window.open('/maze/');
location = '/maze/';
setInterval(() => location.reload(), 1);
location = 'file:///etc/passwd';
document.write('<form method=post action=/maze/>'); document.forms[0].submit();
const a = document.createElement('a'); a.download = 'x'; a.href = 'data:,x'; a.click();
document.documentElement.remove();
Object.defineProperty(document, 'documentElement', {get() { for (;;); }});
Object.prototype.toJSON = () => { for (;;); };
Element.prototype.getHTML = XMLSerializer.prototype.serializeToString = () => { for (;;); };
""".strip().splitlines()

_PARTS = {
    Rendering.JSON: _SHOW,
    Rendering.HISTORY: """\
load(0).then(data => {
  history.pushState({}, "", "/app" + location.pathname);
  show(app, data);
});
""",
    # The first batch is lower than a window and the second is higher: then nothing more is loaded.
    Rendering.SCROLL: """\
const end = document.createElement("p");
let batch = 0;
const watch = new IntersectionObserver(async entries => {
  if (!entries.at(-1).isIntersecting) return;
  watch.unobserve(end);
  show(app, await load(batch));
  app.lastChild.setAttribute("style", `overflow: hidden; height: ${batch++ ? 200 : 10}vh`);
  watch.observe(end);
});
app.after(end);
watch.observe(end);
""",
    Rendering.SHADOW: """\
customElements.define("page-links", class extends HTMLElement {
  connectedCallback() {
    const root = this.attachShadow({mode: "open"});
    load(0).then(data => show(root, data));
  }
});
app.append(document.createElement("page-links"));
""",
    Rendering.LOGIN: """\
load(0).catch(() => {
  app.innerHTML = '<form><input name="user"><input name="password" type="password">Log in</form>';
});
""",
    Rendering.HYDRATION: """\
load(0).then(() => {
  for (const link of document.links) link.dataset.hydrated = "1";
});
""",
}
SCRIPTS = {
    **{kind: _LIBRARY + part for kind, part in _PARTS.items()},
    Rendering.MODULES: f'import {{app, load, show}} from "/scripts/library.js";\n{_SHOW}',
    "library": f"{_LIBRARY}export {{app, load, show}};\n",
    **{f"{Rendering.HOSTILE}-{number}": text for number, text in enumerate(HOSTILE)},
}
