"""A site all of whose words want to be markup: titles, URLs, headers, lines of robots.txt.

`Quoting` is a module that fails with a page's title as its message.
"""

from html import escape
from urllib.parse import quote, urlsplit

# A host that has the crawl wait.
WAITS = "127.0.0.2"
WORDS = (
    "<script>alert(1)</script>",
    "<img src=//elsewhere.test/ onerror=alert(1)>",
    "\"'><a href='javascript:alert(1)' onmouseover=alert(1) autofocus>x</a>",
    "</style></title></textarea></pre><iframe src=//elsewhere.test/></iframe>",
    "--><svg onload=alert(1)><style>*{background:url(//elsewhere.test/)}",
    "{{7*7}}{% raw %}${7*7}&lt;script&gt;",
    "\x1b]0;x\x07\x1b[2J\u202e\u2066\u2028\x85\x9b\x00data: x",
)

# What the monitor's page and the report have none of, but for their own.
THEIRS = """//script[@src!='page.js' or text()] | //img | //iframe | //body//style
    | //a[not(@rel or @href='token' or starts-with(@href, 'hosts') or starts-with(@href, './')
        or starts-with(@href, 'search?') or starts-with(@href, 'help/') or starts-with(@href, '#'))]
    | //a[@rel and not(starts-with(@href, 'http://') or starts-with(@href, 'search?'))]
    | //@*[starts-with(name(), 'on')]"""


def answer(asked):
    """The answer to each path; those with a number go by the word of that number."""
    kind, _, number = urlsplit(asked.path).path[1:].partition("/")
    word = WORDS[int(number)] if number.isdecimal() else ""
    # As bytes of UTF-8 in a header, where no line may end.
    field = word.replace("\x85", "").encode().decode("latin-1")
    headers = {"Server": field, "ETag": f'"{field}"', "Set-Cookie": f"a={field}"}
    if kind == "robots.txt":
        lines = [f"Disallow: /denied/{word}\nSitemap: javascript:{word}\n" for word in WORDS]
        if asked.headers["Host"].startswith(WAITS):
            lines = ["Crawl-delay: 300"]
        headers, body = {"Content-Type": "text/plain"}, "".join(["User-agent: *\n", *lines])
        return 200, headers, body.encode()
    if asked.path == "/":
        return 200, {}, "".join(f'<a href="{escape(link)}">' for link in links()).encode()
    status, own, body = {
        "moved": (302, {"Location": f"/gone?{field}"}, ""),
        "typed": (200, {"Content-Type": f"text/{field}; charset={field}"}, "typed"),
        "titled": (200, {}, f"<title>{escape(word)}</title>{word}"),
    }.get(kind, (404, {}, word))
    return status, headers | own, body.encode()


def links():
    """Those of the first page."""
    kinds = ("moved", "typed", "titled", "gone")
    found = [f"/{kind}/{number}" for number in range(len(WORDS)) for kind in kinds]
    return found + [f"/denied/{word}" for word in WORDS] + [f"/raw?{quote(word)}" for word in WORDS]


class Quoting:
    """A module."""

    def process_item(self, page):
        """Fail, if *page* has a title."""
        if title := page.css("title::text").get():
            raise ValueError(title)
        return page
