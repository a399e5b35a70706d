"""Pages of many layouts, by seed, in which each word knows whether it belongs to the main text.

data/layouts.txt has the layouts: kinds of navigation around an article, and kinds of articles.
Between braces it says

- ``{b5-9}`` words that belong, ``{n3}`` words that do not, ``{t4}`` a title, which does not count;
- ``{=Next}`` a text that does not belong; any other text does not count;
- ``{3-5*...}`` a part so many times, each time with other words;
- ``{u}`` a URL, ``{c}`` a class without a meaning, ``{i}`` a number, which does not count;
- ``{article}``, ``{site}`` and ``{foot}``, which are in other pages, too.

Words are made up and differ, so that each word of a text has one place in the page. The words
"the", "of" and "to", which all sentences have, do not count.
"""

import random
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

_LAYOUTS = Path(__file__).parents[2] / "data/layouts.txt"
_SYLLABLES = [a + b for a in "bdgklmnrs" for b in "aeio"]
_FILLERS = ("the", "of", "to")
_ARTICLE = "<h1>{t3-6}</h1>{2-5*<p>{b25-60}</p>}"
_SITES = (
    '<header><a href="{u}">{n2}</a><ul>{4-6*<li><a href="{u}">{n1-2}</a></li>}</ul></header>',
    '<div class="{c}">{4-6*<a href="{u}">{n1}</a> }</div>',
    "",
)
_FEET = (
    '<footer><p>{n5-8}</p><ul>{3-5*<li><a href="{u}">{n1-2}</a></li>}</ul></footer>',
    '<div class="{c}"><a href="{u}">{n2}</a> | <a href="{u}">{n2}</a></div>',
    "",
)
_FRAGMENTS = {"article": (_ARTICLE,), "site": _SITES, "foot": _FEET}
# Around the body of a page.
_FRAMES = (
    "<main>{body}</main>",
    '<div class="container"><article>{body}</article></div>',
    '<div id="content">{body}</div>',
    '<div class="{c}"><div class="{c}">{body}</div></div>',
    '<div class="section">{body}</div>',
    "{body}",
)  # fmt: skip


@dataclass
class Document:
    """A page, and how often each word belongs and does not belong to its text."""

    html: str
    belongs: Counter[str] = field(default_factory=Counter)
    foreign: Counter[str] = field(default_factory=Counter)


def kinds():
    """Return the layouts by name, each as the templates of its parts by name."""
    found = {}
    for text in _LAYOUTS.read_text("utf-8").split("== ")[1:]:
        name, *parts = re.split(r"^-- (\w+)\n", text, flags=re.MULTILINE)
        named = zip(parts[::2], parts[1::2], strict=True)
        found[name.strip()] = {part: template.rstrip("\n") for part, template in named}
    return found


def document(kind, parts, seed):
    """Return the page of a layout by its *seed*."""
    return _Maker(f"{kind} {seed}").document(parts)


def words(text):
    """Return how often each word that can count is in *text*."""
    return Counter(word for word in re.findall(r"[a-z]+", text.lower()) if word not in _FILLERS)


@dataclass
class Score:
    """Words of texts: those that belong, those of them that were found, and the others found."""

    belonging: int = 0
    found: int = 0
    foreign: int = 0
    kept: int = 0

    def add(self, page, text):
        """Count the words of the *text* of *page*."""
        read = words(text)
        self.belonging += page.belongs.total()
        self.found += (read & page.belongs).total()
        self.foreign += page.foreign.total()
        self.kept += (read - page.belongs & page.foreign).total()
        # Words that the page has only apart, such as those of two links without a space.
        self.kept += (read - read & words(page.html)).total()

    @property
    def precision(self):
        """The share of the words found that belong."""
        return self.found / max(self.found + self.kept, 1)

    @property
    def recall(self):
        """The share of the words that belong that were found."""
        return self.found / max(self.belonging, 1)


class _Maker:
    """One page."""

    def __init__(self, seed):
        self._random = random.Random(seed)
        self._made = set()
        self._page = Document("")

    def document(self, parts):
        if "page" in parts:
            body = self._fill(parts["page"])
        else:
            top = self._fill(parts.get("top", "{site}"))
            frame = self._random.choice(_FRAMES)
            article = self._fill(frame.replace("{body}", parts.get("body", "{article}")))
            body = top + article + self._fill(parts.get("end", "{foot}"))
        self._page.html = (
            "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'><title>Page</title>"
            f"<link rel='stylesheet' href='s.css'></head><body>{body}</body></html>"
        )
        return self._page

    def _fill(self, template):
        parts = []
        at = 0
        while (begin := template.find("{", at)) >= 0:
            end = _closing(template, begin)
            parts += template[at:begin], self._made_of(template[begin + 1 : end])
            at = end + 1
        return "".join(parts) + template[at:]

    def _made_of(self, order):
        if order.startswith("="):
            self._page.foreign.update(words(re.sub(r"&#?\w+;", " ", order)))
            return order[1:]
        if repeated := re.match(r"([\d-]+)\*", order):
            return "".join(
                self._fill(order[repeated.end() :]) for _ in range(self._size(repeated[1]))
            )
        if counted := re.fullmatch(r"([bnt])([\d-]+)", order):
            return self._sentence(counted[1], self._size(counted[2]))
        if order in _FRAGMENTS:
            return self._fill(self._random.choice(_FRAGMENTS[order]))
        return {
            "u": lambda: f"/{self._word()}.html",
            "c": lambda: f"css-{self._random.getrandbits(32):x}",
            "i": lambda: str(self._random.randint(1, 40)),
        }[order]()

    def _size(self, bounds):
        least, _, most = bounds.partition("-")
        return self._random.randint(int(least), int(most or least))

    def _sentence(self, sort, size):
        made = [self._word() for _ in range(size)]
        counter = {"b": self._page.belongs, "n": self._page.foreign}.get(sort, Counter())
        counter.update(made)
        shown = [made[0].capitalize()]
        for number, word in enumerate(made[1:], 1):
            if number % 4 == 0:
                shown.append(self._random.choice(_FILLERS))
            shown.append(f"{word}," if number % 9 == 0 and number + 1 < size else word)
        return " ".join(shown) + "." * (size >= 10)

    def _word(self):
        while True:
            syllables = self._random.choices(_SYLLABLES, k=self._random.randint(2, 4))
            word = "".join(syllables)
            if word not in self._made:
                self._made.add(word)
                return word


def _closing(template, begin):
    depth = 0
    for at in range(begin, len(template)):
        depth += {"{": 1, "}": -1}.get(template[at], 0)
        if not depth:
            return at
    raise ValueError(template[begin:])
