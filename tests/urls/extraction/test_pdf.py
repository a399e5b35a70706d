"""Links of PDF documents that other libraries have written."""

import io
import time
import zlib

import pikepdf
from fpdf import FPDF
from fpdf.enums import EncryptionMethod
from text_tables import cases, each

from webcrawl.urls.extraction.document import MarkupDocument
from webcrawl.urls.extraction.pdf import iter_pdf

TARGETS = [
    "http://a.test/plain",
    "https://b.test/pages(1)/(2",
    "http://c.test/back\\slash)",
    "/relative",
    "http://d.test/\u00fc",
    "mailto:someone@a.test",
]
FORMS = {
    "plain": {"object_stream_mode": pikepdf.ObjectStreamMode.disable},
    "object streams": {"object_stream_mode": pikepdf.ObjectStreamMode.generate},
    "linearized": {"linearize": True},
    "uncompressed": {"compress_streams": False},
    "newlines": {"qdf": True},
}


def links(body, **more):
    document = MarkupDocument(body, "http://a.test/x.pdf", **more)
    return [link.url for link in iter_pdf(document) if link is not None]


def written(targets, pages=1):
    """By fpdf2, with text between the links."""
    pdf = FPDF()
    pdf.set_font("helvetica", size=12)
    for page in range(pages):
        pdf.add_page()
        for target in targets:
            pdf.cell(text="A link", link=target.format(page), new_x="LMARGIN", new_y="NEXT")
    return bytes(pdf.output())


def saved(body, **form):
    """*body* as pikepdf (qpdf) writes it."""
    file = io.BytesIO()
    with pikepdf.open(io.BytesIO(body)) as pdf:
        pdf.save(file, **form)
    return file.getvalue()


def read_back(body):
    """The targets of all annotations, by pikepdf."""
    with pikepdf.open(io.BytesIO(body)) as pdf:
        return {str(note.A.URI) for page in pdf.pages for note in page.get("/Annots", [])}


def test_targets_of_link_annotations_are_found():
    body = written(TARGETS)
    assert set(links(body)) == read_back(body) == set(TARGETS)


@each("form", *FORMS.values(), ids=FORMS)
def test_a_file_is_read_in_every_form_of_the_format(form):
    body = saved(written([*TARGETS, "http://a.test/{0}"], pages=30), **form)
    assert set(links(body)) == read_back(body)
    assert len(read_back(body)) == len(TARGETS) + 30


@each("form", *FORMS.values(), ids=FORMS)
def test_a_file_that_is_cut_has_the_links_up_to_there(form):
    body = saved(written(["http://a.test/{0}"], pages=100), **form)
    counts = []
    for share in (0.2, 0.4, 0.6, 0.8, 0.99):
        found = set(links(body[: int(share * len(body))], cut=True))
        assert found <= read_back(body)
        counts.append(len(found))
    assert counts == sorted(counts)
    assert counts[-1] > 50


def test_an_encrypted_file_has_none():
    pdf = FPDF()
    pdf.set_encryption(owner_password="x", encryption_method=EncryptionMethod.RC4)
    pdf.add_page()
    pdf.link(0, 0, 9, 9, "http://a.test/1")
    body = bytes(pdf.output())
    assert b"/URI" in body
    assert links(body) == []


@cases(
    "action target",
    r"""
        b"/URI (http://a.test/\\(1\\)\\\\2\\\n3)" | http://a.test/(1)\23
        rb"/URI(http://a.test/\101\60b)"          | http://a.test/A0b
        b"/URI <687474703a2f2f61 2e746573742F>"   | http://a.test/
        b"/URI /URI\n(http://a.test/caf\xe9)"     | http://a.test/café
        b"/URI (http://a.test/\xc3\xa9)"          | http://a.test/é
    """,
)
def test_strings_are_read_as_the_format_has_them(action, target):
    assert links(b"%PDF-1.7\n<</S /URI " + action + b">>") == [target]


@cases(
    "text",
    r"""
        b"(\x01\x02)"
        b"(a\\nb)"
        b"(not closed"
        b"<4"
        b"<zz>"
        b"()"
    """,
)
def test_what_can_be_no_uri_is_none(text):
    assert links(b"/URI " + text) in ([], ["@"])


def test_no_more_is_decompressed_than_the_bound():
    targets = [f"http://a.test/{n}/{{0}}" for n in range(20)]
    packed = saved(written(targets, pages=60), **FORMS["object streams"])
    assert len(set(links(packed))) == 1200
    assert 0 < len(set(links(packed, max_bytes=len(packed)))) < 1200


def object_stream(*targets):
    text = b"".join(b"/URI (%s)" % target for target in targets)
    return b"<</Type /ObjStm>> stream\r\n" + zlib.compress(text)


def test_an_object_stream_that_is_damaged_has_the_links_up_to_there():
    whole = object_stream(b"/1", b"/2")
    assert links(whole[:-4] + b"\0\0\0\0" + object_stream(b"/3")) == ["/1", "/2", "/3"]
    many = object_stream(*(b"/%d" % n for n in range(10_000)))
    half = many[: len(many) // 2] + b"\xff" * 1000
    assert 4000 < len(links(half)) < 8000


def test_damaged_object_streams_count_for_the_bound():
    packer = zlib.compressobj()
    packed = packer.compress(b" " * 250_000) + packer.flush(zlib.Z_SYNC_FLUSH)
    bomb = (b"/ObjStm stream\n" + packed + b"\xff") * 2000
    started = time.thread_time()
    assert links(bomb, max_bytes=len(bomb)) == []
    assert time.thread_time() - started < 0.2  # 0.02; 1 s for all of them
