"""Which encoding a document is read in."""

import codecs

from hypothesis import given
from hypothesis import strategies as st
from text_tables import cases
from webencodings.labels import LABELS

from webcrawl.urls.extraction.charset import HEAD_BYTES, codec_for, decode, detect

META = '<html><head><meta charset="windows-1251">'
EQUIV = '<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">'


XML = '<?xml version="1.0"?>'
XML_LE, XML_BE = XML.encode("utf-16-le"), XML.encode("utf-16-be")


# "{meta}" names windows-1251, "{equiv}" koi8-r, "{kb}" and "{head}" are spaces.
@cases(
    "body declared codec",
    r"""
    {meta}                                                    | koi8-r          | koi8-r
    {meta}                                                    | no such charset | cp1251
    {meta}                                                    |                 | cp1251
    {equiv}                                                   |                 | koi8-r
    <META CHARSET = 'Shift_JIS' >                             |                 | cp932
    <?xml version="1.0" encoding="ISO-8859-2"?>               |                 | iso8859-2
    <meta charset=utf-16>                                     |                 | utf-8
    <meta charset=nonsense>é.                                 |                 | cp1252
    <!-- <meta charset=koi8-r> --><meta charset=big5>         |                 | big5hkscs
    <!-- <meta charset=koi8-r>                                |                 | utf-8
    <meta charset=utf8mb4>{meta}                              |                 | cp1251
    <meta name=charset>{meta}                                 |                 | cp1251
    <meta name=description content='charset=koi8-r'>{meta}    |                 | cp1251
    <meta/charset=koi8-r>                                     |                 | koi8-r
    <meta charset=koi8-r charset=big5>                        |                 | koi8-r
    <meta content='> charset=koi8-r' http-equiv=Content-Type> |                 | koi8-r
    <?xml version="1.0" encoding="koi8-r"?>{meta}             |                 | cp1251
    <!--><meta charset=big5>                                  |                 | big5hkscs
    <!-- --!><meta charset=big5>                              |                 | big5hkscs
    <script>'<meta charset=koi8-r>'</script>{meta}            |                 | cp1251
    plain                                                     |                 | utf-8
    naïve                                                     |                 | cp1252
    "\xef\xbb\xbf{meta}"                                      | koi8-r          | utf-8
    b"\xff\xfea\0"                                            | utf-8           | utf-16-le
    b"\xfe\xff\0a"                                            | None            | utf-16-be
    {kb}{meta}                                                | None            | utf-8
    {kb}{meta}é.                                              | None            | cp1251
    {head}{meta}é.                                            | None            | cp1252
    "{kb}<meta charset=iso-2022-jp>\x1b$BF|K\\\x1b(B"         | None            | iso2022_jp_ext
    b'\n<?xml version="1.0" encoding="koi8-r"?><rss>'         | None            | koi8-r
    XML_LE                                                    | None            | utf-16-le
    XML_BE                                                    | None            | utf-16-be
    XML_LE                                                    | koi8-r          | koi8-r
    b"na\xc3\xafve"                                           | None            | utf-8
    b"cut: \xe2\x82"                                          | None            | utf-8
    b"cut: \xe2\x82x"                                         | None            | cp1252
    b""                                                       | None            | utf-8
""",
    globals(),
)
def test_evidence_is_weighed_as_browsers_do(body, declared, codec):
    if isinstance(body, str):
        pieces = {"meta": META, "equiv": EQUIV, "kb": " " * 1024, "head": " " * HEAD_BYTES}
        body = body.format(**pieces).encode("latin-1")
    assert detect(body, declared=declared) == codec


@cases(
    "label codec",
    """
    UTF8            | utf-8
    US-ASCII        | cp1252
    gb2312          | gb18030
    x-sjis          | cp932
    ks_c_5601-1987  | cp949
    iso-8859-9      | cp1254
    csIBM866        | cp866
    iso_8859-2:1987 | iso8859-2
    iso-8859-8-i    | iso8859-8
    x-user-defined  | cp1252
    iso-2022-kr     | None
    utf-7           | None
    unicode_escape  | None
    idna            | None
    rot13           | None
    undefined       | None
    " 'iso-8859-1' " | cp1252
    ""              | None
    None            | None
""",
)
def test_label_means_what_it_means_on_the_web(label, codec):
    assert codec_for(label) == codec


def test_every_codec_of_the_table_exists_and_reads_ascii():
    for codec in {codec_for(label) for label in LABELS} - {None}:
        assert codecs.lookup(codec)
        if not codec.startswith("utf-16"):
            assert decode(b"<a href='x'>", codec) == "<a href='x'>"


@cases(
    "data codec text",
    r"""
    # No byte order mark.
    b"\xef\xbb\xbfx"  | utf-8     | x
    b"\xff\xfex\0"    | utf-16-le | x
    b"\xef\xbb\xbfx"  | cp1252    | ï»¿x
    b"a\xffb"         | utf-8     | "a\ufffdb"
    # The Japanese row of circled digits.
    b"\xad\xa1\xc6\xfc\xad\xb5\xad\xe2\xad\x41x" | euc_jp | "①日Ⅰ№\ufffdAx"
    b"\x1b$B\x2d\x21\x46\x7c\x2d\x62\x1b(Bx\x1b(I\x31" | iso2022_jp_ext | ①日№xｱ
    b"\xad"           | euc_jp    | "\ufffd"
""",
)
def test_a_codec_decodes_as_browsers_do(data, codec, text):
    assert decode(data, codec) == text


@given(
    st.binary()
    | st.tuples(
        st.sampled_from([META.encode(), EQUIV.encode(), codecs.BOM_UTF16_LE, codecs.BOM_UTF8]),
        st.binary(),
    ).map(b"".join),
    st.none() | st.sampled_from(sorted(LABELS)) | st.text(),
)
def test_any_document_can_be_read(body, declared):
    text = decode(body, detect(body, declared=declared))
    text.encode()
