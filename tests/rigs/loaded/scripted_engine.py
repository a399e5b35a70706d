"""An engine that knows the scripts of the simulated sites, and gives what Chromium gave for them:
for the logic of passes in `make test`, without a browser."""

import json
import re
from urllib.parse import urljoin, urlsplit

from webcrawl.render.engine import Rendering, Subresource

_SCRIPT = re.compile(r'<script[^>]* src="([^"]+/([a-z-]+?)(?:-\d+)?\.js[^"]*)"')


class ScriptedEngine:
    """Pages of the kind ``hostile`` crash it, the others are shown."""

    warning = "This engine of a test has no network of its own."

    def start(self):
        pass

    def stop(self):
        pass

    def render(self, page, stored):
        self.html = page.answer.body.decode(errors="replace")
        self.url, self.stored = page.url, stored
        self.result = Rendering("settled")
        for url, kind in _SCRIPT.findall(self.html):
            if kind == "hostile":
                return Rendering("crashed")
            if self.get(url, "script") and (
                kind != "modules" or self.get("/scripts/library.js", "script", url)
            ):
                self.show(kind)
        self.result.html = self.html
        return self.result

    def show(self, kind):
        parts = urlsplit(self.url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        for batch in range(2 if kind == "scroll" else 1):
            answer = self.get(f"/api/{batch}{target}", "fetch")
            if not answer:
                return
            if answer.status == 200 and kind not in {"hydration", "login"}:
                data = json.loads(answer.body)
                links = "".join(f'<a href="{link}">{link}</a>' for link in data["links"])
                self.html += f"<div>{links}<p>{data['text']}</p></div>"

    def get(self, target, kind, base=""):
        """The answer for *target*; None if there is none, which the result says."""
        url = urljoin(base or self.url, target)
        asked = Subresource(url, kind, fields=(("accept", "*/*"),))
        answer = self.stored(asked)
        if answer is None:
            self.result.missing.append(asked)
        elif isinstance(answer, str):
            self.result.refused.append((url, answer))
            return None
        return answer
