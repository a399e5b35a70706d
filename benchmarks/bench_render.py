"""CPU time, wall time and memory of a pass in the rendering engine, for two pages.

Usage: python benchmarks/bench_render.py [PASSES [CHROMIUM]]

The static page has 232 kB and 300 links. The application has 300 kB of script, of which a part is
run, and makes 150 links from JSON that it fetches.
"""

from __future__ import annotations

import json
import random
import sys

from webcrawl.render.chromium import Chromium
from webcrawl.render.engine import Answer, Pass

_RANDOM = random.Random(7)
_WORDS = [f"w{_RANDOM.randrange(99999)}" for _ in range(3000)]
_UNCOUNTED = 3


def _text(words: int) -> str:
    return " ".join(_RANDOM.choice(_WORDS) for _ in range(words))


STATIC = "<!DOCTYPE html><title>static</title><body>" + "".join(
    f"<div class=c{i % 9}><h2>{_text(4)}</h2><p>{_text(100)}</p><a href=/s/{i}>x</a></div>"
    for i in range(300)
)
APPLICATION = """<!DOCTYPE html><title>app</title><body><div id=root></div>
<script src=/lib.js></script><script>
fetch('/data.json').then(r => r.json()).then(list => { for (const one of list) {
  const card = document.createElement('div');
  card.innerHTML = '<h2>' + one.title + '</h2><p>' + one.text + '</p>';
  const a = document.createElement('a');
  a.href = '/p/' + one.number; a.textContent = one.title;
  card.appendChild(a); root.appendChild(card);
} })</script>"""
_FUNCTION = (
    "reg.f%d=function(a,b){var x=0;for(var j=0;j<50;j++){x+=(a*j+%d)%%97;}"
    "if(x>b){return 'r'+x;}return {k:%d,v:x,l:[%d]};};"
)
LIBRARY = "window.reg={};" + "".join(_FUNCTION % (i, i, i, i) for i in range(2000))
LIBRARY += "for(var i=0;i<2000;i++){reg['f'+i](i,i);}"
DATA = json.dumps([{"number": i, "title": _text(4), "text": _text(60)} for i in range(150)])


def _answer(body: str, kind: str) -> Answer:
    return Answer(200, [("Content-Type", kind)], body.encode())


STORE = {
    "lib.js": _answer(LIBRARY, "text/javascript"),
    "data.json": _answer(DATA, "application/json"),
}


def main(passes: str = "30", path: str = "") -> None:
    engine = Chromium(path)
    engine.start()
    try:
        for name, html in (("static", STATIC), ("application", APPLICATION)):
            document = _answer(html, "text/html")
            done = [
                engine.render(
                    Pass(f"http://host{i}.test/", document),
                    lambda asked: STORE.get(asked.url.rpartition("/")[2]),
                )
                for i in range(int(passes) + _UNCOUNTED)
            ][_UNCOUNTED:]
            cpu, wall = (
                1000 * sum(getattr(one, which) for one in done) / len(done)
                for which in ("cpu_secs", "wall_secs")
            )
            print(
                f"{name}: {cpu:.0f} ms of CPU and {wall:.0f} ms a pass, at most "
                f"{max(one.memory for one in done) >> 20} MB; links {done[-1].html.count('<a ')}, "
                f"settled {sum(one.ended == 'settled' for one in done)} of {len(done)}"
            )
    finally:
        engine.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
