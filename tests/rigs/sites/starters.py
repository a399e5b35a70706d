"""Two starter applications, in React and in Vue, as vite builds them from starters/."""

from crawling import ROOT
from linked_site import Answer

BUILT = ROOT / ".vite"
# At the last of them, the applications say "Not found".
PATHS = ("/", "/list/", "/about/", "/none/")
_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".json": "application/json",
    ".html": "text/html",
}


def starter(name):
    """The site of the starter *name*, by host and path; its document is there at each of PATHS."""
    top = BUILT / name / "dist"
    assert top.is_dir(), "make test-long makes .vite"
    host = f"{name}.test"
    pages = {
        f"{host}/{file.relative_to(top)}": Answer(file.read_bytes(), _TYPES[file.suffix])
        for file in top.rglob("*.*")
    }
    document = pages.pop(f"{host}/index.html")
    pages[f"{host}/robots.txt"] = Answer(b"User-agent: *\nDisallow: /l/\n", "text/plain")
    return pages | {host + path: document for path in PATHS}
