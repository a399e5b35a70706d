"""An engine that asks for the URLs that a page fetches, and shows the page as it was fetched."""

import re

from webcrawl.render.engine import Rendering, Subresource

_FETCH = re.compile(r'fetch\("([^"]+)"\)')


def page_that_fetches(urls):
    """A page that fetches *urls* at once, for this engine and for others."""
    calls = "".join(f'fetch("{url}").catch(() => 0);' for url in urls)
    return f"<!DOCTYPE html><body><p>a page<script>{calls}</script>"


class AskingEngine:
    warning = "This engine of a test has no network of its own."

    def start(self):
        pass

    def stop(self):
        pass

    def render(self, page, stored):
        html = page.answer.body.decode()
        rendering = Rendering("settled", html)
        for url in _FETCH.findall(html):
            asked = Subresource(url, "fetch", fields=(("accept", "*/*"),))
            answer = stored(asked)
            if answer is None:
                rendering.missing.append(asked)
            elif isinstance(answer, str):
                rendering.refused.append((url, answer))
        return rendering
