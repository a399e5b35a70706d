"""Documents whose links are compared with a browser's: real ones, where installed, and made ones.

A made document nests elements that treat what is in them in their own ways, closed and unclosed.
Each of its links has its number and the elements around it in its URL, as ``/7.svg.title``.
"""

import gzip
import random
import tarfile
from pathlib import Path

from wire_text import table

from webcrawl.urls.extraction.thinning import SAFE_BYTES

URL = "http://a.test/dir/page.html"
# Behind a document it makes a large one, and adds nothing to its links.
PADDING = b" " * (SAFE_BYTES + 1)

# Debian's packages python3.11-doc, postgresql-doc-15 and rust-doc.
_PACKAGES = ("python3.11", "postgresql-doc-15", "rust-doc")
_ARTICLES = Path(__file__).parents[4] / "shared/data/article-extraction.tar"

_PARTS = table("document_parts")


class _Maker:
    """One made document."""

    def __init__(self, seed):
        self._random = random.Random(seed)
        self._numbers = iter(range(1_000_000))

    def document(self):
        """A document and its Content-Type."""
        rng = self._random
        codec, parameter, declaration = rng.choice(_PARTS["encodings"])
        parts = [declaration or rng.choice(_PARTS["heads"])]
        parts.append(f"<link rel=next href={self._name(())}>")  # it tells the base
        if rng.random() < 0.4:
            parts.append(rng.choice(_PARTS["bases"]))
        if rng.random() < 0.5:
            parts.append("</head><body>")
        parts += (self._content((), 3) for _ in range(rng.randint(1, 6)))
        if rng.random() < 0.5:
            parts.append("</body></html>")
        return "".join(parts).encode(codec, "ignore"), f"text/html{parameter}"

    def _content(self, around, depth):
        rng = self._random
        found = []
        for _ in range(rng.randint(1, 3)):
            kind = rng.random()
            if kind < 0.4 or not depth:
                found.append(rng.choice(_PARTS["links"]).format(self._name(around)))
            elif kind < 0.5:
                found.append(rng.choice(_PARTS["bits"]))
            elif kind < 0.55:
                found.append(rng.choice(_PARTS["bases"]))
            else:
                # In SVG there is no MathML, and so no HTML in its texts; nor formulas in formulas.
                is_foreign = not {"svg", "g", "xlink", "math", "mi"}.isdisjoint(around)
                left_out = ("math", "mi") if is_foreign else ()
                name = rng.choice([one for one in _PARTS["around"] if one not in left_out])
                first, *parts = _PARTS["around"][name].split("{}")
                found.append(first.replace("@", self._name((*around, name))))
                for part in parts:
                    inside = self._content((*around, name), depth - 1)
                    if name == "quoted":
                        inside = f"<a href=/{self._name((*around, name))}>no</a>"
                    found += (inside, part)
        return "".join(found)

    def _name(self, around):
        return ".".join((str(next(self._numbers)), *around))


def made(count):
    """Name, document and Content-Type of *count* documents, always the same ones."""
    for seed in range(count):
        yield f"made/{seed}", *_Maker(seed).document()


def installed(count):
    """The same of *count* documents, evenly chosen, of each of Debian's packages that is there."""
    for package in _PACKAGES:
        folder = Path("/usr/share/doc") / package / "html"
        files = sorted(file for file in folder.rglob("*.html") if not file.is_symlink())
        for number in range(min(count, len(files))):
            file = files[number * len(files) // count]
            yield f"{package}/{file.relative_to(folder)}", file.read_bytes(), "text/html"


def articles():
    """The same of real pages of newspapers, if they lie next to the repository."""
    if _ARTICLES.exists():
        with tarfile.open(_ARTICLES) as archive:
            for member in archive:
                file = archive.extractfile(member)
                if file is not None and member.name.endswith(".html.gz"):
                    yield f"article/{member.name[5:]}", gzip.decompress(file.read()), "text/html"
