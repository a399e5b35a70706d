"""Documents whose links are compared with a browser's: real ones, where installed, and made ones.

A made document nests elements that treat what is in them in their own ways, closed and unclosed.
Each of its links has its number and the elements around it in its URL, as ``/7.svg.title``.
"""

from __future__ import annotations

import gzip
import random
import tarfile
from pathlib import Path

from webcrawl.urls.extraction.thinning import SAFE_BYTES

URL = "http://a.test/dir/page.html"
# Behind a document it makes a large one, and adds nothing to its links.
PADDING = b" " * (SAFE_BYTES + 1)

# Debian's packages python3.11-doc, postgresql-doc-15 and rust-doc.
_PACKAGES = ("python3.11", "postgresql-doc-15", "rust-doc")
_ARTICLES = Path(__file__).parents[3] / "shared/data/article-extraction.tar"

LINKS = [
    "<a href=/{}>one</a>", "<a href='{}'>o<b>n</b>e</a>", '<A HREF="?q={}">x</A>',
    "<area href=/{}>", "<iframe src=/{}></iframe>", "<link rel=canonical href=/{}>",
    "<link rel='next up' href={}>",
    "<a href=//b.test/{}>x</a>", "<a href='/é{}?é=1'>x</a>", "<a\nhref = ../{} title='a > b'>x</a>",
    "<a href=/{}>unclosed ", "<a href='/sp {} '>x</a>", "<a href='?a=1&amp;b={}'>x</a>",
    "<link rel=alternate hreflang=de href=/{}>", "<link rel=stylesheet href=/{}.css>",
    "<meta http-equiv=refresh content='9999;url=/{}'>", "<a href='{}#x'>x</a>",
    "<a href=mailto:{}@a.test>x</a>", "<a name={}>no</a>",
]  # fmt: skip

BASES = [
    "<base href=/b/>", "<base target=_top>", "<base href=http://c.test/d/e>", "<base href=''>",
    "<base href>", "<BASE HREF='../up/'>", "<base href=//d.test>", "<base href='javascript:x'>",
    "<base href='data:,x'>", "<base href='mailto:x@a.test'>", "<base href='ftp://c.test/'>",
    "<base href='?q'>", "<base href='#f'>", "<base href='http://u:p@c.test/x/'>",
    "<base href=' /sp/ '>", "</base>",
]  # fmt: skip

BITS = [
    "text ", "&amp; ", "<br>", "<hr/>", "<img src=x.png alt='i'>", "<svg><path d='M0'/></svg>",
    "<!---->", "<meta name=x content=y>", "<input>", "<wbr>", "1 < 2 ", "<?php x ?>",
    "<template></template>", "<div title='a > b'>x</div>", "<p>", "<li>",
]  # fmt: skip

# Names of elements, and how they are written around something.
AROUND = {
    "div": "<div>{}</div>", "p": "<p>{}</p>", "b": "<b>{}</b>", "ul": "<ul><li>{}<li>{}</ul>",
    "span": "<span class='x y'>{}</span>", "h1": "<h1>{}</h1>", "button": "<button>{}</button>",
    "table": "<table><tr><td>{}<td>{}</table>", "noscript": "<noscript>{}</noscript>",
    "details": "<details><summary>{}</summary>{}</details>", "object": "<object>{}</object>",
    "video": "<video>{}</video>", "form": "<form>{}</form>", "map": "<map>{}</map>",
    "select": "<select><option>{}</option>{}</select>", "font": "<font color=red>{}</font>",
    "template": "<template>{}</template>",
    "open": "<x-a><template shadowrootmode=open>{}</template></x-a>",
    "closed": "<div><Template class=x shadowrootMode='closed'>{}</template>{}</div>",
    "none": "<div><template shadowrootmode=none>{}</template></div>",
    "list": "<ul><template shadowrootmode=open>{}</template></ul>",
    "two": "<article><template shadowrootmode=open></template>"
    "<template shadowrootmode=open>{}</template></article>",
    "svg": "<svg>{}</svg>", "g": "<svg><g>{}</g></svg>", "math": "<math>{}</math>",
    "foreign": "<svg><foreignObject>{}</foreignObject></svg>", "desc": "<svg><desc>{}</desc></svg>",
    "mi": "<math><mi>{}</mi></math>", "xlink": "<svg><a xlink:href='/@'>{}</a></svg>",
    "comment": "<!-- {} -->", "script": "<script>'{}'</script>", "style": "<style>{}</style>",
    "textarea": "<textarea>{}</textarea>", "title": "<title>{}</title>", "xmp": "<xmp>{}</xmp>",
    "iframe": "<iframe>{}</iframe>", "noframes": "<noframes>{}</noframes>",
    "quoted": '<i title="{}">x</i>', "unclosed": "<div><p>{}",
}  # fmt: skip

HEADS = [
    "", "<!DOCTYPE html>", "<html><head><title>t</title>", "<?xml version='1.0'?>", "<head>",
    "<!DOCTYPE html><html lang=en><head>", "<body>", "<!doctype html><body class=x>",
]  # fmt: skip

# How an encoding is declared: by the header, and what begins the document.
ENCODINGS = [
    ("utf-8", "; charset=utf-8", ""), ("utf-8", "; charset=utf-8", ""),
    ("utf-8", "", "<meta charset=utf-8>"),
    ("windows-1251", "; charset=windows-1251", ""), ("koi8-r", "", "<meta charset=koi8-r>"),
    ("iso-8859-2", "", "<meta content='text/html; charset=latin2' http-equiv=content-type>"),
    ("windows-1252", "", "<meta name=x content='charset=big5'><meta charset=latin1>"),
    ("big5", "", "<?xml version='1.0' encoding='big5'?>"), ("utf-8", "", "\ufeff"),
    ("utf-16-le", "", "<?xml version='1.0'?>"), ("utf-16-be", "", "<?xml version='1.0'?>"),
    ("utf-16-le", "; charset=utf-16le", ""),
]  # fmt: skip


class _Maker:
    """One made document."""

    def __init__(self, seed):
        self._random = random.Random(seed)
        self._numbers = iter(range(1_000_000))

    def document(self):
        """A document and its Content-Type."""
        rng = self._random
        codec, parameter, declaration = rng.choice(ENCODINGS)
        parts = [declaration or rng.choice(HEADS)]
        parts.append(f"<link rel=next href={self._name(())}>")  # it tells the base
        if rng.random() < 0.4:
            parts.append(rng.choice(BASES))
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
                found.append(rng.choice(LINKS).format(self._name(around)))
            elif kind < 0.5:
                found.append(rng.choice(BITS))
            elif kind < 0.55:
                found.append(rng.choice(BASES))
            else:
                # In SVG there is no MathML, and so no HTML in its texts; nor formulas in formulas.
                is_foreign = not {"svg", "g", "xlink", "math", "mi"}.isdisjoint(around)
                names = [one for one in AROUND if not is_foreign or one not in ("math", "mi")]
                name = rng.choice(names)
                first, *parts = AROUND[name].split("{}")
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
