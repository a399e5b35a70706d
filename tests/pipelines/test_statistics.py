"""The statistics of documents, read back from their files."""

import io
import json
import math
import random
from collections import Counter
from html.parser import HTMLParser

import pytest
from contracts.modules import ModuleContract, a_page, run_module
from PIL import Image
from text_tables import lines

from webcrawl.pipelines.statistics import (
    MAX_NAMES,
    REST,
    ContentTypes,
    ImageStatistics,
    TagCounter,
)


def written(jobdir, name):
    return json.loads((jobdir / f"statistics/{name}.json").read_text())


class TestContentTypes(ModuleContract):
    module = ContentTypes


class TestTagCounter(ModuleContract):
    module = TagCounter


class TestImageStatistics(ModuleContract):
    module = ImageStatistics


def test_documents_and_bytes_are_counted_by_content_type_and_size(tmp_path):
    lots = random.Random(1)
    sizes = {kind: [0, 1, 2, 3, 4] + [int(10 ** lots.uniform(0, 5)) for _ in range(60)]
             for kind in ("text/html", "image/gif")}  # fmt: skip
    pages = [
        a_page(b"x" * size, content_type=kind, wire_body=b"z" * 7, body_cut=size > 90_000)
        for kind in sizes
        for size in sizes[kind]
    ]
    pages += [a_page(b"12", content_type=""), a_page(b"gone", status=404)]
    run_module(ContentTypes, pages, tmp_path)
    found = written(tmp_path, "content_types")
    assert found.pop("(none)")["documents"] == 1
    assert set(found) == set(sizes)
    for kind, row in found.items():
        counted = Counter(str(2 ** int(math.log2(n)) if n else 0) for n in sizes[kind])
        assert row == {
            "documents": 65,
            "bytes": sum(sizes[kind]),
            "wire_bytes": 65 * 7,
            "cut": sum(n > 90_000 for n in sizes[kind]),
            "sizes": counted,
        }


def test_statistics_go_on_after_a_restart(tmp_path):
    first = run_module(ContentTypes, [a_page("one")], tmp_path)
    run_module(ContentTypes, [a_page("three")], tmp_path, saved=first.states.snapshot())
    assert written(tmp_path, "content_types")["text/html"]["bytes"] == 8


def test_a_million_names_take_bounded_room_and_common_ones_stay(tmp_path):
    junk = [a_page("1", content_type=f"x/{n}") for n in range(5 * MAX_NAMES)]
    for n in range(0, len(junk), 100):
        junk[n] = a_page("1")
    run = run_module(ContentTypes, junk, tmp_path)
    found = written(tmp_path, "content_types")
    assert len(found) <= 2 * MAX_NAMES
    assert list(found)[1] == "text/html"
    assert found["text/html"]["documents"] == 50
    assert sum(row["documents"] for row in found.values()) == len(junk)
    assert found[REST]["sizes"] == {"1": found[REST]["documents"]}
    assert len(run.states.snapshot()["module:content_types"]) < 1 << 20


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = Counter()

    def handle_starttag(self, tag, _attributes):
        self.found[tag] += 1


_HTML = """<!DOCTYPE html><HTML><head><title>a</title><!-- <b> -- <i>-> --><script>"<p>" </i>
</SCRIPT><style>a<b {}</style><noscript><img src=x></noscript></head><body class="<"><p>1<p>2
<h1 id=a>x</h1><br/><my-part a=b></my-part><a href='x'>1 < 2 <3</a></body></html><!-- <u> """


def test_tags_are_counted_as_a_parser_of_html_finds_them(tmp_path):
    other = "<p>" * 3
    run_module(TagCounter, [a_page(_HTML), a_page(other)], tmp_path)
    parser = _Tags()
    parser.feed(_HTML + "-->" + other)
    found = written(tmp_path, "tags")
    assert {name: row["tags"] for name, row in found.items()} == parser.found
    assert found["p"] == {"pages": 2, "tags": 5}


def picture(kind, size):
    file = io.BytesIO()
    Image.new("P", size).save(file, kind)
    return file.getvalue()


def test_images_are_counted_by_format_size_and_animation(tmp_path):
    frames = [Image.new("L", (20, 100), 100 * n) for n in range(3)]
    animation = io.BytesIO()
    frames[0].save(animation, "GIF", save_all=True, append_images=frames[1:])
    files = [
        animation.getvalue(),
        picture("GIF", (1, 1)),
        picture("PNG", (640, 480)),
        picture("PNG", (640, 480))[:-20],  # the header is whole
        picture("PNG", (640, 480)).replace(b"\0\0\x02\x80\0\0\x01\xe0", b"\0\1\0\0\0\1\0\0"),
        picture("GIF", (3, 3))[:8],
    ]
    pages = [a_page(body, content_type="image/png") for body in files]
    run_module(ImageStatistics, pages, tmp_path)
    found = written(tmp_path, "images")
    assert found["PNG"].pop("bytes") == 2 * len(files[2]) - 20
    for name in ("GIF", "(unreadable)"):  # as Pillow writes them
        del found[name]["bytes"], found[name]["sizes"]
    told = [f"{name} {json.dumps(row, sort_keys=True)}" for name, row in found.items()]
    assert sorted(line.replace('"', "") for line in told) == lines("""
        (unreadable) {animated: 0, heights: {}, images: 2, widths: {}}
        GIF {animated: 1, heights: {1: 1, 64: 1}, images: 2, widths: {1: 1, 16: 1}}
        PNG {animated: 0, heights: {256: 2}, images: 2, sizes: {128: 1, 64: 1}, widths: {512: 2}}
    """)


def test_a_large_page_of_tags_is_counted_in_part(tmp_path):
    run_module(TagCounter, [a_page(b"<a>" * 500_000)], tmp_path)
    assert written(tmp_path, "tags") == {"a": {"pages": 1, "tags": (1 << 19) // 3 + 1}}


def test_without_pillow_images_say_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr("webcrawl.errors.find_spec", lambda _: None)
    with pytest.raises(ValueError, match="module images needs PIL: make modules"):
        run_module(ImageStatistics, [], tmp_path)
