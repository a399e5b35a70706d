"""The WARC table of docs/reference/formats.md, checked against records of each kind."""

import re
from collections import defaultdict
from pathlib import Path

import pytest
from fastwarc.warc import ArchiveIterator
from text_tables import each, table, words
from warc_checks import page, warc_of

from webcrawl.pipelines.warc.payloads import StoredPayloads
from webcrawl.signals import CONTENT_SEEN, UNCHANGED

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "formats.md"
DOCUMENT = PAGE.read_text(encoding="utf-8")
# Mandatory in every record (5.2 to 5.5), or in every one with a block (5.6, 5.8).
COMMON = {
    *words("WARC-Type WARC-Record-ID WARC-Date Content-Length Content-Type WARC-Block-Digest")
}
PROFILES = {
    "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest",
    "http://netpreserve.org/warc/1.1/revisit/server-not-modified",
}


def told():
    """The fields by kind of record that the table says are written."""
    found = defaultdict(set)
    fields = DOCUMENT.partition("| records | field |")[2].partition("\n\n")[0]
    for line in fields.splitlines()[2:]:
        kinds, names, *_, here, _ = line.strip("|").split(" | ")
        if here.strip() == "yes":
            for kind in kinds.strip().split(", "):
                found[kind] |= set(re.findall(r"`(WARC-[A-Za-z-]+)`", names))
    return found


@pytest.fixture(scope="module")
def headers(tmp_path_factory):
    """The headers of records of all kinds, each with all that it can have."""
    directory = tmp_path_factory.mktemp("warc")
    payloads = StoredPayloads(directory=directory, max_bytes=1 << 20)
    payloads.open()
    tls = {"tls": "TLSv1.3 TLS_AES_128_GCM_SHA256"}
    ftp = {"url": "ftp://a.test/x", "protocol": "FTP", **tls}
    path = warc_of(
        directory,
        page(1, body=b"<p>long", content_type="text/html", truncated="length", **tls),
        page(2, body=b"same", rendered="<p>shown", **tls),
        (page(3, body=b"same", **tls), CONTENT_SEEN),
        (page(2, body=b"", status=304, stored_at=page(2).fetched_at, **tls), UNCHANGED),
        page(5, body=b"a file", truncated="time", **ftp),
        page(6, body=b"", status=550, reason="No such file", **ftp),
        payloads=payloads,
    )
    payloads.close()
    with path.open("rb") as file:
        return [dict(record.headers.asdict()) for record in ArchiveIterator(file)]


def test_each_kind_of_record_has_the_fields_of_the_table_and_no_others(headers):
    written = defaultdict(set)
    for one in headers:
        assert one.keys() >= COMMON
        written[one["WARC-Type"]] |= one.keys() - COMMON
        if one["WARC-Type"] != "warcinfo":  # 5.15
            written[one["WARC-Type"]].remove("WARC-Warcinfo-ID")
    assert written == told()


def test_fields_have_the_form_of_the_standard(headers):
    identifier = r"<urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}>"
    date = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"
    digest = r"sha1:[A-Z2-7]{32}"
    forms = {
        "WARC-Record-ID": identifier,
        "WARC-Warcinfo-ID": identifier,
        "WARC-Concurrent-To": identifier,
        "WARC-Date": date,
        "WARC-Refers-To-Date": date,
        "WARC-Block-Digest": digest,
        "WARC-Payload-Digest": digest,
        "WARC-Target-URI": r"(?:http|ftp)://a\.test/\w+",
        "WARC-Refers-To-Target-URI": r"http://a\.test/\w+",
        "WARC-IP-Address": r"127\.0\.0\.1",
        "WARC-Truncated": "length|time",
        "WARC-Profile": "|".join(map(re.escape, PROFILES)),
    }
    for one in headers:
        for name in forms.keys() & one.keys():
            assert re.fullmatch(forms[name], one[name]), (name, one[name])
    assert {one["WARC-Profile"] for one in headers if "WARC-Profile" in one} == PROFILES
    assert len({one["WARC-Record-ID"] for one in headers}) == len(headers)
    first = headers[0]["WARC-Record-ID"]
    assert {one["WARC-Warcinfo-ID"] for one in headers[1:]} == {first}


@each(
    "kind media_type",
    *table("""
        warcinfo | application/warc-fields
        metadata | application/warc-fields
        request  | application/http;msgtype=request
        response | application/http;msgtype=response
        revisit  | application/http;msgtype=response
        resource | text/html
    """),
)
def test_content_types_are_those_of_the_blocks(headers, kind, media_type):
    assert {one["Content-Type"] for one in headers if one["WARC-Type"] == kind} == {media_type}
