"""Independent validators of WARC files, and a reader for what the tests compare."""

import gzip
import os
import re
import subprocess
import sys
from dataclasses import dataclass

import warm
from warcio.archiveiterator import ArchiveIterator

from webcrawl.items import Link, Page
from webcrawl.pipelines.warc.writer import WarcWriter

# Each accepts some damage that another finds: warcio alone takes truncated files and missing ids,
# fastwarc duplicate ids; warcat takes several records in one gzip member.
VALIDATORS = {
    "warcio": ["from warcio.cli import main; main()", "check"],
    "fastwarc": ["from fastwarc.cli import main; main()", "check", "-p"],
    "warcat": ["from warcat.__main__ import main; main()", "verify"],
    "cdxj-indexer": ["from cdxj_indexer.main import main; main()"],
}


@dataclass
class Record:
    """A record as warcio reads it; *body* is the block, or what follows its HTTP head."""

    kind: str
    headers: dict
    http: list
    status_line: str
    body: bytes
    content: bytes  # body after transfer and content decoding


def complaints(path):
    """What each validator that is not content with *path* says of it."""
    runs = {
        name: warm.Popen(
            [sys.executable, "-c", *command, path],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name, command in VALIDATORS.items()
    }
    said = {name: run.communicate()[0] for name, run in runs.items()}
    unsound = {name: said[name] for name, run in runs.items() if run.returncode}
    # warcio is content with them, so it can read the file.
    for name in _REVISITS.keys() & unsound.keys() if "warcio" not in unsound else ():
        if _only_of_revisits(path, name, unsound[name]):
            del unsound[name]
    return unsound


# How these fail a record that repeats a payload: for the digest of the payload, which the standard
# asks for, and which they look for in the record itself. The block's digest is looked at by warcio.
_REVISITS = {
    "fastwarc": re.compile(r"^(<urn:uuid:\S+>)()$", re.MULTILINE),
    "warcat": re.compile(
        r"^Record (<urn:uuid:\S+>) failed validation.*?VerifyProblem: (.*?)$",
        re.MULTILINE | re.DOTALL,
    ),
}
_OF_REVISITS = {"", "('Bad payload digest.', '5.9', True)"}


def _only_of_revisits(path, name, said):
    """Whether all that *said* complains of is the payload digest of revisit records."""
    found = _REVISITS[name].findall(said)
    revisits = {one.headers["WARC-Record-ID"] for one in _read(path) if one.kind == "revisit"}
    return bool(found) and all(
        record in revisits and what in _OF_REVISITS for record, what in found
    )


def records(path):
    found = []
    for raw, decoded in zip(_read(path), decoded_records(path), strict=True):
        raw.content = decoded.body
        found.append(raw)
    return found


def decoded_records(path):
    """Records whose *body* is the content."""
    return _read(path, decode=True)


def _read(path, *, decode=False):
    found = []
    with path.open("rb") as file:
        for record in ArchiveIterator(file):
            http = record.http_headers
            body = record.content_stream() if decode else record.raw_stream
            found.append(
                Record(
                    kind=record.rec_type,
                    headers=dict(record.rec_headers.headers),
                    http=[] if http is None else list(http.headers),
                    status_line=""
                    if http is None
                    else f"{http.protocol} {http.statusline}".strip(),
                    body=body.read(),
                    content=b"",
                )
            )
    return found


def text_of(path):
    """Return the records in *path* as text, with ``...`` for their identifiers."""
    text = gzip.decompress(path.read_bytes()).decode().replace("\r\n", "\n")
    return re.sub(r"(?<=<urn:uuid:)[0-9a-f-]+", "...", text)


def urls(path):
    """`urls_of` the records in *path*."""
    return urls_of(_read(path))


def urls_of(found):
    """Of the pages in a file, each of which must be a whole set of records in their order.

    Of what did not come by HTTP there is no request, and what is not there has metadata only."""
    assert found[0].kind == "warcinfo"
    sets = []
    for record in found[1:]:
        if "WARC-Concurrent-To" not in record.headers:
            sets.append([])
        sets[-1].append(record)
    sets = [one for one in sets if one[0].kind != "metadata"]
    ids = [record.headers["WARC-Record-ID"] for record in found]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"<urn:uuid:[0-9a-f-]{36}>", value) for value in ids)
    for one in sets:
        is_web = one[0].headers["WARC-Target-URI"].startswith("http")
        assert one[0].kind == "revisit" or (one[0].kind == "response") == is_web
        assert [record.kind for record in one[1:]] == ["request"] * is_web + ["metadata"]
        for record in one[1:]:
            assert record.headers["WARC-Concurrent-To"] == one[0].headers["WARC-Record-ID"]
        assert len({record.headers["WARC-Target-URI"] for record in one}) == 1
        assert len({record.headers["WARC-Date"] for record in one}) == 1
    return [one[0].headers["WARC-Target-URI"] for one in sets]


def dangling(paths):
    """The URLs of revisit records in *paths* whose first copy is in none of them."""
    found = [record for path in paths for record in _read(path)]
    stored = {
        tuple(record.headers[name] for name in ("WARC-Target-URI", "WARC-Date"))
        for record in found
        if record.kind == "response"
    }
    return [
        record.headers["WARC-Target-URI"]
        for record in found
        if record.kind == "revisit"
        and (record.headers["WARC-Refers-To-Target-URI"], record.headers["WARC-Refers-To-Date"])
        not in stored
    ]


def page(number=0, **more):
    """A small page; *more* replaces its fields, and ``wire_body`` is ``body`` unless given."""
    body = b"<p>page %d" % number
    fields = {
        "url": f"http://a.test/{number}",
        "status": 200,
        "reason": "OK",
        "headers": [(b"Content-Type", b"text/html")],
        "body": body,
        "fetched_at": 1_700_000_000.25 + number,
        "ip": "127.0.0.1",
        "links": [Link("http://a.test/x", "text")],
        **more,
    }
    fields.setdefault("wire_body", fields["body"])
    return Page(**fields)


def warc_of(directory, *pages, **more):
    """Write *pages* to a WARC file in *directory*. A page may come with the reason why it was not
    processed."""
    values = {"prefix": "x", "max_file_bytes": 1 << 40, "warcinfo": [("software", "tests")], **more}
    writer = WarcWriter(directory=directory, **values)
    writer.open()
    for one in pages:
        writer.write(*(one if isinstance(one, tuple) else (one,)))
    writer.close()
    return max(directory.glob("*.warc.gz"))


def killed_at(number, worker, directory):
    """Run the Python code *worker*, which prints numbers, and kill it when it has printed *number*.
    Return the last number that it printed."""
    with warm.Popen(
        [sys.executable, "-c", worker, directory],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        said = -1
        while said < number:
            said = int(process.stdout.readline())
        process.kill()
        rest = process.stdout.read().split("\n")[:-1]
    return int(rest[-1]) if rest else said
