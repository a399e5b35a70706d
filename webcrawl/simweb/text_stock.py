"""Stock of ready-made text and bytes from which all bodies are made.

It is made once per process and seed, in about 0.3 s. Making a page then takes little more than a
join. Words come from a vocabulary of 20,000 with Zipf frequencies, so that pages compress about as
well as real ones: gzip makes them three to four times smaller, modern pages four to five times.
"""

from __future__ import annotations

import functools
import itertools
import random

PIECE_BYTES = 4096
PIECES = 512
SEPARATORS = 512

_SYLLABLES = [
    onset + vowel + coda
    for onset in ("", "b", "br", "c", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t")
    for vowel in ("a", "e", "i", "o", "u", "ea", "ou")
    for coda in ("", "n", "r", "s", "t", "l", "m")
]
_ACCENTS = str.maketrans("aeoun", "àéöüñ")

# Alphabets for pages in other charsets.
_SCRIPTS = {
    "latin": "abcdefghijklmnopqrstuvwxyzàâäçéèêëîïôöùûüñæø",
    "cyrillic": "абвгдежзийклмнопрстуфхцчшщыьэюя",
    "japanese": "あいうえおかきくけこさしすせそたちつてとなにぬねのアイウエオカキクケコ日",
    "chinese": "的一是不了人我在有他这中大来上国个到说们为子和你地出道也时年得就那要下以",
    "korean": "가나다라마바사아자차카타파하고노도로모보소오조초코토포호한국어대학",
}

# About as much markup as real pages have. None of these blocks has links.
_BLOCKS = """
<div class="row"><div class="col-md-8 col-sm-12 entry-content" id="block-{number}">
<p class="entry-summary">{text}</p>
</div></div>

<p class="entry-summary"><strong>{name}</strong> {text}</p>

<div class="widget widget-text"><h2 class="widget-title" id="{name}">{name} {other}</h2>
<ul class="menu"><li class="menu-item"><span rel="tag">{items}</span></li></ul>
</div>

<article class="post type-post status-publish format-standard hentry category-{other}">
<header class="entry-header"><h3 class="entry-title">{name} {other}</h3></header>
<div class="entry-content"><p>{text}</p></div></article>

<table width="100%" border="0" cellspacing="0" cellpadding="4" class="data">
<tr valign="top"><td class="label"><b>{name}</b></td><td class="value">{number}</td></tr>
<tr valign="top"><td class="label"><b>{other}</b></td><td class="value">{text}</td></tr></table>

<script type="text/javascript">
var {identifier}_{number} = {{"id": "{code:016x}", "type": "{other}", "enabled": true}};</script>

<div class="col-md-4 col-sm-12"><figure class="wp-block-image size-large is-style-default">
<figcaption class="wp-caption-text">{name} {other}</figcaption></figure></div>
""".strip().split("\n\n")
# Markup of modern page builders: long attributes, inline scripts, styles and drawings.
_MODERN_BLOCKS = """
<div class="elementor-element elementor-element-{short:07x} elementor-widget \
elementor-widget-text-editor" data-id="{short:07x}" data-element_type="widget" \
data-widget_type="text-editor.default">
<div class="elementor-widget-container"><p>{text}</p></div></div>

<section class="mx-auto flex w-full max-w-7xl flex-col items-center px-4 py-8 sm:px-6 lg:px-8">
<h2 class="text-2xl font-semibold leading-tight tracking-tight text-gray-900 md:text-3xl">{name} \
{other}</h2>
<p class="mt-3 text-base leading-7 text-gray-600 md:mt-4 md:text-lg">{text}</p></section>

<button type="button" class="btn btn-icon rounded-full p-2" aria-label="{name}" \
data-action="{other}"><svg xmlns="http://www.w3.org/2000/svg" width="24" height="24" \
viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2"><path \
d="M12 2C6.48 2 2 6.48 2 12s4.48 10 10 10 10-4.48 10-10S17.52 2 12 2zm0 18c-4.41 0-8-3.59-8-8s\
3.59-8 8-8 8 3.59 8 8-3.59 8-8 8z"/></svg></button>

<script type="application/json" id="data-{number}">{{"id":"{code:016x}","type":"product",\
"slug":"{name}-{other}","price":{{"amount":{number},"currency":"EUR","discount":null}},\
"available":true,"brand":"{other}","description":"{text}","categories":["{name}","{other}"],\
"images":[],"variants":[{{"id":{number},"sku":"{short:07x}","inStock":true,\
"attributes":{{"color":"{name}","size":null}}}}]}}</script>

<style>.css-{short:07x}{{display:flex;flex-direction:column;align-items:center;\
justify-content:space-between;padding:12px 16px;margin:0 auto;border-radius:8px;\
box-shadow:0 1px 3px rgba(0,0,0,.12);color:#{short:07x}}}\
@media (max-width:768px){{.css-{short:07x}{{padding:8px 12px;flex-direction:row}}}}</style>
""".strip().split("\n\n")
_BETWEEN_ITEMS = '</span></li><li class="menu-item"><span rel="tag">'


class Stock:
    """Ready-made text for one seed.

    Each of ``pieces`` has PIECE_BYTES and is valid UTF-8 and HTML.
    """

    def __init__(self, *, seed: int) -> None:
        rng = random.Random(seed)
        self._rng = rng
        self.words = self._vocabulary()
        weights = ((rank + 2.7) ** -1.1 for rank in range(len(self.words)))
        self._weights = list(itertools.accumulate(weights))
        self.pieces = [self._piece(_BLOCKS, words=45) for _ in range(PIECES)]
        self.separators = self._separators()
        self.plain = " ".join(self._random_words(40_000)).encode("ascii", "ignore")
        self.noise = rng.randbytes(1 << 20)

    @functools.cached_property
    def modern(self) -> list[bytes]:
        """Pieces of text with the markup of modern pages."""
        self._rng.seed(len(self.words))
        return [self._piece(_BLOCKS + 3 * _MODERN_BLOCKS, words=16) for _ in range(PIECES)]

    def foreign(self, script: str, seed: int, count: int) -> str:
        """Return about *count* characters of random text in *script*, a key of ``_SCRIPTS``."""
        rng = random.Random(seed)
        letters = _SCRIPTS[script]
        words: list[str] = []
        length = 0
        while length < count:
            word = "".join(rng.choices(letters, k=rng.randint(2, 9)))
            words.append(word)
            length += len(word) + 1
        return " ".join(words)

    def _vocabulary(self) -> list[str]:
        """Return 20,000 different words made of random syllables, the most frequent first."""
        rng = self._rng
        words: dict[str, None] = {}
        while len(words) < 20_000:
            # Frequent words are short, as in any language.
            is_rare = len(words) > 100
            syllables = 1 + is_rare * (1 + (rng.random() < 0.4) + (rng.random() < 0.2))
            word = "".join(rng.choices(_SYLLABLES, k=syllables))
            if len(word) > 1:
                words[word.translate(_ACCENTS) if rng.random() < 0.04 else word] = None
        return list(words)

    def _random_words(self, count: int) -> list[str]:
        """Return *count* random words; those at the start of the vocabulary are more likely."""
        return self._rng.choices(self.words, cum_weights=self._weights, k=count)

    def _sentences(self, count: int) -> str:
        """Return text of *count* words, in sentences of eleven words."""
        words = self._random_words(count)
        for index in range(0, count, 11):
            words[index] = words[index].capitalize()
            if index:
                words[index - 1] += "."
        return " ".join(words)

    def _piece(self, templates: list[str], words: int) -> bytes:
        """Return a piece of PIECE_BYTES made of random blocks, filled up with text.

        *templates* are those of the blocks; texts in them have 8 to *words* words.
        """
        rng = self._rng
        blocks: list[bytes] = []
        space = PIECE_BYTES
        while True:
            name, other = self._random_words(2)
            block = rng.choice(templates).format(
                name=name,
                other=other,
                identifier=name.translate(_WITHOUT_ACCENTS),
                number=rng.randrange(10**6),
                code=(code := rng.getrandbits(64)),
                short=code >> 36,
                text=self._sentences(rng.randint(8, words)),
                items=_BETWEEN_ITEMS.join(self._random_words(6)),
            )
            data = block.encode() + b"\n"
            if len(data) > space - 100:
                break
            blocks.append(data)
            space -= len(data)

        filler = self._sentences(space // 4).encode()[: space - 7].decode("utf-8", "ignore")
        data = f"<p>{filler}</p>".encode()
        return b"".join(blocks) + data + b" " * (space - len(data))

    def _separators(self) -> list[str]:
        """Return texts to put between two URLs: each ends one link and begins the next."""
        separators = []
        for number in range(SEPARATORS):
            anchor = " ".join(self._random_words(1 + number % 3))
            words = " ".join(self._random_words(2 + number % 5))
            tag = '</a></li>\n<li>{} <a href="' if number % 3 == 1 else '</a> {} <a href="'
            separators.append('">' + anchor + tag.format(words))
        return [text.encode("ascii", "ignore").decode() for text in separators]


_WITHOUT_ACCENTS = str.maketrans("àéöüñ", "aeoun")


@functools.lru_cache(maxsize=2)
def stock(seed: int) -> Stock:
    """Return the stock for *seed*, which is made at the first call."""
    return Stock(seed=seed)
