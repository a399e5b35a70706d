"""Debian's Chromium: what a page said and asked for in it, and the links of a document."""

from contextlib import contextmanager
from typing import NamedTuple

from patience import LIMIT_SECS
from playwright.sync_api import sync_playwright


@contextmanager
def chromium(*flags):
    """A browser that has just been started."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium",
            timeout=1000 * LIMIT_SECS,
            # Root has no sandbox; the others keep the browser from asking anybody anything.
            args=[
                *flags,
                *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
                *("--disable-background-networking", "--disable-component-update"),
                "--disable-sync",
            ],
        )
        yield browser
        browser.close()


class Tab:
    """A page of a *browser* window of its own: *said* on the console, by dialogs and by errors, and
    *asked* are the URLs of all requests."""

    def __init__(self, browser, *, width=1280, **options):
        self.width = width
        self.page = browser.new_page(viewport={"width": width, "height": 900}, **options)
        self.page.set_default_timeout(1000 * LIMIT_SECS)
        self.said = []
        self.asked = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(dialog.message) or dialog.dismiss())
        self.page.on("request", lambda request: self.asked.append(request.url))

    @property
    def wide(self):
        """Pixels that the page is beyond its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth")) - self.width


# Of a document or a shadow root: kind, URL and attribute of each link, as the browser has them. Of
# the kinds "foreign" and "foreign base" is what is neither, as its element is not of HTML or SVG.
LINKS = """function (root) {
  const html = "http://www.w3.org/1999/xhtml", xlink = "http://www.w3.org/1999/xlink";
  const links = ["a", "area", "iframe", "frame", "link"];
  const anchor = document.createElement("a");
  const found = [];
  const add = (kind, written, url) => {
    anchor.setAttribute("href", written);
    found.push([kind, url === undefined ? anchor.href : url, written]);
  };
  for (const one of root.querySelectorAll("*")) {
    const name = one.localName;
    const attribute = name.endsWith("frame") ? "src" : "href";
    const drawn = one.getAttributeNS(xlink, "href") ?? one.getAttribute("xlink:href");
    if (one instanceof SVGAElement) {
      if (one.hasAttribute("href") || drawn !== null) add("a", one.href.baseVal);
    } else if (drawn !== null) {
      add("foreign", drawn);
    } else if (one.namespaceURI !== html) {
      const kind = name === "base" ? "foreign base" : "foreign";
      if (one.hasAttribute(attribute)) add(kind, one.getAttribute(attribute));
    } else if (name === "meta") {
      if (one.httpEquiv.toLowerCase() === "refresh") add("refresh", one.content, null);
    } else if (links.includes(name) && one.hasAttribute(attribute)) {
      const kind = name === "link" ? "link " + one.rel : name;
      add(kind, one.getAttribute(attribute), one[attribute]);
    }
  }
  return found;
}"""


class Read(NamedTuple):
    """A document in the browser: ``base`` URL, name of its ``encoding``, and its ``links``, each a
    kind, or ``link`` and its relations; a URL, None if it has none; and how it was written."""

    base: str
    encoding: str
    links: list


class Reader:
    """A window of *browser* without scripts. It is given documents, and gets nothing else; what it
    wanted for the latest of them are the URLs ``asked``."""

    def __init__(self, browser):
        context = browser.new_context(java_script_enabled=False)
        self._page = context.new_page()
        self._page.set_default_timeout(1000 * LIMIT_SECS)
        self._page.route("**/*", self._answer)
        self._cdp = context.new_cdp_session(self._page)
        self._given = None
        self.asked = []

    def read(self, body, *, url, content_type, until="domcontentloaded"):
        """*body* as the browser reads it when it was fetched from *url*, as soon as it is read, or
        *until* it is loaded, as "load"."""
        self._given = url, content_type, body
        self.asked = []
        self._page.goto(url, wait_until=until)
        base, encoding = self._page.evaluate("[document.baseURI, document.characterSet]")
        links = self._page.evaluate(f"({LINKS})(document)")
        if encoding.startswith("UTF-16") or b"shadowrootmode" in body.lower():
            for root in self._shadow_roots():
                found = self._cdp.send(
                    "Runtime.callFunctionOn",
                    {
                        "objectId": root,
                        "functionDeclaration": LINKS,
                        "arguments": [{"objectId": root}],
                        "returnByValue": True,
                    },
                )["result"]["value"]
                # A refresh in one is not followed.
                links += [link for link in found if link[0] != "refresh"]
        return Read(base, encoding, [tuple(link) for link in links])

    def _answer(self, route):
        request = route.request
        if not request.is_navigation_request() or request.frame != self._page.main_frame:
            self.asked.append(request.url)
            route.abort()
        elif self._given is not None and request.url == self._given[0]:
            _, content_type, body = self._given
            self._given = None
            route.fulfill(status=200, headers={"Content-Type": content_type}, body=body)
        else:
            route.fulfill(status=204)  # a refresh leads nowhere

    def _shadow_roots(self):
        """Handles of the shadow roots, open or closed, that the document's author made."""
        pending = [self._cdp.send("DOM.getDocument", {"depth": -1, "pierce": True})["root"]]
        while pending:
            node = pending.pop()
            pending += node.get("children", ())
            for root in node.get("shadowRoots", ()):
                if root["shadowRootType"] != "user-agent":
                    pending.append(root)
                    found = self._cdp.send("DOM.resolveNode", {"nodeId": root["nodeId"]})
                    yield found["object"]["objectId"]
