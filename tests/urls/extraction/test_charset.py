"""Which encoding a document is read in."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st
from webencodings.labels import LABELS

from webcrawl.urls.extraction.charset import HEAD_BYTES, codec_for, decode, detect

META = b'<html><head><meta charset="windows-1251">'
EQUIV = b'<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">'


@pytest.mark.parametrize(
    ("body", "declared", "codec"),
    [
        (b"\xef\xbb\xbf" + META, "koi8-r", "utf-8"),
        (b"\xff\xfea\x00", "utf-8", "utf-16-le"),
        (b"\xfe\xff\x00a", None, "utf-16-be"),
        (META, "koi8-r", "koi8-r"),
        (META, "no such charset", "cp1251"),
        (META, None, "cp1251"),
        (META, "", "cp1251"),
        (EQUIV, None, "koi8-r"),
        (b"<META CHARSET = 'Shift_JIS' >", None, "cp932"),
        (b'<?xml version="1.0" encoding="ISO-8859-2"?>', None, "iso8859-2"),
        (b"<meta charset=utf-16>", None, "utf-8"),
        (b"<meta charset=nonsense>\xe9.", None, "cp1252"),
        (b"<!-- <meta charset=koi8-r> --><meta charset=big5>", None, "big5hkscs"),
        (b"<!-- <meta charset=koi8-r>", None, "utf-8"),
        (b" " * 1024 + META, None, "utf-8"),
        (b" " * 1024 + META + b"\xe9.", None, "cp1251"),
        (b" " * HEAD_BYTES + META + b"\xe9.", None, "cp1252"),
        (b" " * 1024 + b"<meta charset=iso-2022-jp>\x1b$BF|K\\\x1b(B", None, "iso2022_jp_ext"),
        (b"<meta charset=utf8mb4>" + META, None, "cp1251"),
        (b"<meta name=charset>" + META, None, "cp1251"),
        (b"<meta name=description content='charset=koi8-r'>" + META, None, "cp1251"),
        (b"<meta/charset=koi8-r>", None, "koi8-r"),
        (b"<meta charset=koi8-r charset=big5>", None, "koi8-r"),
        (b"<meta content='> charset=koi8-r' http-equiv=Content-Type>", None, "koi8-r"),
        (b'<?xml version="1.0" encoding="koi8-r"?>' + META, None, "cp1251"),
        (b'\n<?xml version="1.0" encoding="koi8-r"?><rss>', None, "koi8-r"),
        ('<?xml version="1.0"?>'.encode("utf-16-le"), None, "utf-16-le"),
        ('<?xml version="1.0"?>'.encode("utf-16-be"), None, "utf-16-be"),
        ('<?xml version="1.0"?>'.encode("utf-16-le"), "koi8-r", "koi8-r"),
        (b"<!--><meta charset=big5>", None, "big5hkscs"),
        (b"<!-- --!><meta charset=big5>", None, "big5hkscs"),
        (b"<script>'<meta charset=koi8-r>'</script>" + META, None, "cp1251"),
        (b"plain", None, "utf-8"),
        ("naïve".encode(), None, "utf-8"),
        ("naïve".encode("latin-1"), None, "cp1252"),
        ("cut: €".encode()[:-1], None, "utf-8"),
        ("cut: €".encode()[:-1] + b"x", None, "cp1252"),
        (b"", None, "utf-8"),
    ],
)
def test_evidence_is_weighed_as_browsers_do(body, declared, codec):
    assert detect(body, declared=declared) == codec


@pytest.mark.parametrize(
    ("label", "codec"),
    [
        ("UTF8", "utf-8"),
        (" 'iso-8859-1' ", "cp1252"),
        ("US-ASCII", "cp1252"),
        ("gb2312", "gb18030"),
        ("x-sjis", "cp932"),
        ("ks_c_5601-1987", "cp949"),
        ("iso-8859-9", "cp1254"),
        ("csIBM866", "cp866"),
        ("iso_8859-2:1987", "iso8859-2"),
        ("iso-8859-8-i", "iso8859-8"),
        ("x-user-defined", "cp1252"),
        ("iso-2022-kr", None),
        ("utf-7", None),
        ("unicode_escape", None),
        ("idna", None),
        ("rot13", None),
        ("undefined", None),
        ("", None),
        (None, None),
    ],
)
def test_label_means_what_it_means_on_the_web(label, codec):
    assert codec_for(label) == codec


def test_every_codec_of_the_table_exists_and_reads_ascii():
    for codec in {codec_for(label) for label in LABELS} - {None}:
        assert codecs.lookup(codec)
        if not codec.startswith("utf-16"):
            assert decode(b"<a href='x'>", codec) == "<a href='x'>"


def test_text_has_no_byte_order_mark():
    assert decode(b"\xef\xbb\xbfx", "utf-8") == "x"
    assert decode(b"\xff\xfex\x00", "utf-16-le") == "x"
    assert decode(b"\xef\xbb\xbfx", "cp1252") == "ï»¿x"
    assert decode(b"a\xffb", "utf-8") == "a\ufffdb"


def test_japanese_has_the_row_of_circled_digits():
    assert decode(b"\xad\xa1\xc6\xfc\xad\xb5\xad\xe2\xad\x41x", "euc_jp") == "①日Ⅰ№\ufffdAx"
    jis = b"\x1b$B\x2d\x21\x46\x7c\x2d\x62\x1b(Bx\x1b(I\x31"
    assert decode(jis, "iso2022_jp_ext") == "①日№xｱ"
    assert decode(b"\xad", "euc_jp") == "\ufffd"


@given(
    st.binary()
    | st.tuples(st.sampled_from([b"", META, EQUIV, b"\xff\xfe", b"\xef\xbb\xbf"]), st.binary()).map(
        b"".join
    ),
    st.none() | st.sampled_from(sorted(LABELS)) | st.text(),
)
def test_any_document_can_be_read(body, declared):
    text = decode(body, detect(body, declared=declared))
    text.encode()
