"""Debian's documentation packages under two names each, crawled as one site."""

from pathlib import Path

import pytest
from virtual_sites import VirtualSites

_FOLDERS = ("git-doc", "debian-policy", "python3.11/html", "postgresql-doc-15/html")
_MOST_FILES = 1200


def documentation():
    """The HTML files of each package that is installed, by path."""
    for name in _FOLDERS:
        folder = Path("/usr/share/doc", name)
        files = sorted(file for file in folder.rglob("*.html") if file.is_file())
        if files:
            chosen = files[:: -(-len(files) // _MOST_FILES)]
            texts = {file: file.read_text("utf-8", "replace") for file in chosen}
            yield name.partition("/")[0], {f"/{f.relative_to(folder)}": t for f, t in texts.items()}


def served(host, files):
    """*files* as *host* serves them, with a list of them in a sitemap."""
    locations = "".join(f"<url><loc>http://{host}{path}</loc></url>" for path in files)
    pages = files | {
        "/robots.txt": f"User-agent: *\nDisallow:\nSitemap: http://{host}/map.xml\n",
        "/map.xml": f"<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>{locations}</urlset>",
        "/": "<a href=/map.xml>list</a>",
    }
    return {f"{host}:80{path}": text for path, text in pages.items()}


@pytest.mark.long
def test_documentation_under_two_names_is_fetched_once(tmp_path):
    packages = dict(documentation())
    assert packages, "apt-get install git-doc debian-policy python3.11-doc postgresql-doc-15"
    main = {f"{name}.docs.test": files for name, files in packages.items()}
    mirrors = {f"{name}.mirror.example": files for name, files in packages.items()}

    def crawl(name, hosts, **settings):
        directory = tmp_path / name
        directory.mkdir()
        pages = {page: text for host in hosts for page, text in served(host, hosts[host]).items()}
        sites = VirtualSites(directory, pages)
        return pages, sites.crawl(*(f"http://{host}/" for host in hosts), **settings)

    _, without = crawl("without", main | mirrors, ALIASES=0)
    _, by_oracle = crawl("oracle", main)
    pages, found = crawl("found", main | mirrors, ALIASES=1)
    fetched = {pages.get(f"{hit.server}{hit.path}") for hit in found}
    assert not {text for files in packages.values() for text in files.values()} - fetched
    saved = len(without) - len(found)
    assert saved >= 0.85 * (len(without) - len(by_oracle))
