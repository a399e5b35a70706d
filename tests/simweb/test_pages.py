"""Pages: paths, links, sizes, types, bytes."""

import gzip
import hashlib
import json
import os
import re
import statistics
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from contracts.modules import a_page, run_module
from text_tables import each
from web_truth import has_links

from webcrawl.pipelines.statistics import ImageStatistics
from webcrawl.simweb import World, preset
from webcrawl.simweb.bodies import body_of, content_type_of, gzip_body_of, hrefs_of
from webcrawl.simweb.distributions import FIGURE_7, FIGURE_8
from webcrawl.simweb.leaves import PageKind
from webcrawl.simweb.pages import (
    CHARSETS,
    charset_of,
    find_page,
    links_of,
    page,
    redirect_target,
    size_of,
)


def pages_of(world, hosts):
    for index in hosts:
        host = world.host(index)
        for number in range(host.pages):
            yield page(world, host, number)


def digest(name):
    """A digest of everything that some hosts of a world serve."""
    world = preset(name, hosts=30, seed=5, mean_pages=4, max_pages=40, large_bytes=10_000)
    total = hashlib.sha256()
    for found in pages_of(world, range(0, 30, 3)):
        total.update(found.path.encode())
        if found.leaf.status == 200:
            for part in body_of(world, found):
                total.update(part)
    return total.hexdigest()


def test_the_same_seed_is_the_same_bytes_in_another_process():
    names = ("mercator", "bench", "rendered")
    script = f"from tests.simweb.test_pages import digest; print(*map(digest, {names}))"
    there = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[2],
        env={"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.split() == [*map(digest, names)]


def test_links_stay_within_the_host_to_about_four_fifths():
    for name in ("mercator", "today", "bench"):
        world = preset(name, mean_pages=10, max_pages=300)
        local = total = 0
        for found in pages_of(world, range(0, 2000, 40)):
            if has_links(found) and found.kind is PageKind.HTML:
                keys = links_of(world, found)
                local += sum(key >> 32 == found.host.index for key in keys)
                total += len(keys)
        assert local / total == pytest.approx(0.8, abs=0.03), name


def test_links_to_other_hosts_prefer_the_popular_ones():
    world = World()
    ranks = [
        world.rank_of(key >> 32)
        for found in pages_of(world, range(0, 2000, 10))
        if has_links(found)
        for key in links_of(world, found)
        if key >> 32 != found.host.index
    ]
    top = [sum(rank < limit for rank in ranks) / len(ranks) for limit in (20, 200)]
    # Of 2,000 hosts, 1 % get a third of the links, 10 % two thirds: Zipf.
    assert 0.25 < top[0] < 0.5
    assert 0.5 < top[1] < 0.8


@each("name size links", ("bench", 20_000, 40), ("broad", 20_000, 40), ("graph", 2500, 11))
def test_pages_to_measure_crawlers_are_of_one_size_with_so_many_links(name, size, links):
    world = preset(name)
    for found in list(pages_of(world, [0, 1]))[1:200]:
        body = b"".join(body_of(world, found))
        assert len(body) == size
        assert len(hrefs_of(world, found)) == links
        assert body.count(b'<a href="') == links


def test_hosts_of_a_broad_web_have_titles_as_real_ones():
    world = preset("broad", hosts=40, mean_pages=9, max_pages=9)
    titles = []
    for index in range(world.hosts):
        bodies = (b"".join(body_of(world, one)) for one in pages_of(world, [index]))
        titles.append([re.search(rb"<title>(.*?)</title>", body)[1] for body in bodies])
    by_number = [one for one in titles if len({re.sub(rb"\d", b"", title) for title in one}) == 1]
    alike = [one for one in by_number if len(set(one)) == 1]
    assert (len(by_number), len(alike)) == (30, 10)
    assert all(len(set(one)) == 9 for one in titles if one not in alike)


def test_bench_pages_of_today_are_whole_and_compress_like_real_ones():
    world = preset("bench-today")
    found = [page(world, world.host(index), number) for index in range(2000) for number in (0, 9)]
    sizes = [size_of(world, one) for one in found]
    assert statistics.mean(sizes) == pytest.approx(240_000, rel=0.05)
    assert max(sizes) == 1_000_000
    assert {one.leaf.content_type for one in found} == {"text/html"}
    packed = [gzip_body_of(world, one) for one in found[:60]]
    assert 4 < sum(sizes[:60]) / sum(map(len, packed)) < 6


@pytest.fixture(scope="module")
def documents():
    """All documents of the default web: pages with status 200, large files aside."""
    world = World()
    return world, [
        found
        for found in pages_of(world, range(world.hosts))
        if found.leaf.status == 200 and found.kind is not PageKind.LARGE
    ]


def test_content_types_are_distributed_as_in_figure_7(documents):
    _, found = documents
    counts = Counter(one.leaf.content_type for one in found)
    for name, percent in FIGURE_7.items():
        expected = pytest.approx(percent, abs=1.0 if percent > 5 else 0.35)
        assert counts[name] / len(found) * 100 == expected, name


def test_images_are_what_they_say_with_a_size(documents, tmp_path):
    world, found = documents
    images = [one for one in found if one.leaf.content_type.startswith("image/")][:500]
    images += [
        one
        for one in pages_of(preset("today", mean_pages=10), range(300))
        if one.leaf.content_type in ("image/png", "image/webp")
    ]
    bodies = [(one.leaf.content_type, b"".join(body_of(world, one))) for one in images]
    long = [(kind, body) for kind, body in bodies if len(body) >= 64]
    pages = [a_page(body, content_type=kind) for kind, body in long]
    run_module(ImageStatistics, pages, tmp_path)
    counted = json.loads((tmp_path / "statistics" / "images.json").read_text())
    kinds = Counter(kind.replace("jpg", "jpeg").removeprefix("image/").upper() for kind, _ in long)
    assert {name: row["images"] for name, row in counted.items()} == kinds
    assert set(kinds) == {"GIF", "JPEG", "PNG", "WEBP"}
    assert all(row["widths"] == {"64": row["images"]} for row in counted.values())


def test_document_sizes_are_distributed_as_in_figure_8(documents):
    world, found = documents
    # Each content counts once: the chance of one large duplicate would show.
    sizes = [size_of(world, one) for one in found if one.kind is not PageKind.DUPLICATE]
    bins = Counter(size.bit_length() if size < 1 << 20 else 21 for size in sizes)
    for label, percent in enumerate(FIGURE_8):
        assert bins[label] / len(sizes) * 100 == pytest.approx(percent, abs=1.3), label
    middle = sum(bins[label] for label in range(12, 16)) / len(sizes)
    assert middle == pytest.approx(0.67, abs=0.015)  # "67 % were between 2K and 32K bytes"


def test_outcomes_are_distributed_as_in_figure_6():
    world = World()
    found = list(pages_of(world, range(world.hosts)))
    counts = Counter(one.leaf.status for one in found)
    assert counts[404] / len(found) == pytest.approx(0.0594, abs=0.006)
    assert counts[302] / len(found) == pytest.approx(0.0304, abs=0.005)  # all redirects


def test_html_of_today_has_240_kilobytes_and_compresses_like_real_pages():
    world = preset("today")
    found = [one for one in pages_of(world, range(0, 2000, 2)) if has_links(one)]
    sizes = [size_of(world, one) for one in found]
    assert statistics.mean(sizes) == pytest.approx(240_000, rel=0.05)
    assert statistics.mean(len(links_of(world, one)) for one in found[:300]) > 60
    sample = [b"".join(body_of(world, one)) for one in found[:40]]
    ratio = sum(map(len, sample)) / sum(len(gzip.compress(body, 6)) for body in sample)
    assert 3 < ratio < 6


def test_duplicates_are_equal_bytes_with_absolute_links_across_hosts(documents):
    world, found = documents
    copies = defaultdict(list)
    for one in found:
        if one.kind is PageKind.DUPLICATE:
            copies[b"".join(body_of(world, one))].append(one)
    repeated = [ones for ones in copies.values() if len(ones) > 1]
    assert sum(map(len, repeated)) / len(found) > 0.04
    assert any(len({one.host.index for one in ones}) > 1 for ones in repeated)
    assert any(len({one.host.index for one in ones}) == 1 for ones in repeated)
    for ones in repeated:
        links = {tuple(hrefs_of(world, one)) for one in ones}
        assert len(links) == 1
        assert all(href.startswith("http") for href in links.pop())


def test_pages_with_links_have_different_bytes_unless_they_are_duplicates(documents):
    world, found = documents
    bodies = [
        hashlib.sha256(b"".join(body_of(world, one))).digest()
        for one in found[:4000]
        if one.kind is PageKind.HTML and links_of(world, one)
    ]
    assert len(set(bodies)) == len(bodies)


def test_odd_charsets_are_of_every_sort_and_decode_as_named(documents):
    world, found = documents
    met = Counter()
    for one in found:
        if not one.leaf.odd_charset:
            continue
        charset = charset_of(world, one)
        met[charset] += 1
        body = b"".join(body_of(world, one))
        label = content_type_of(world, one).partition("charset=")[2]
        if charset.declared == "meta":
            assert not label
            label = body.partition(b'<meta charset="')[2].partition(b'"')[0].decode()
        assert label == (charset.label if charset.declared else "")
        assert body.decode(charset.codec)
    assert set(met) == set(CHARSETS)


def test_redirects_lead_through_chains_and_loops_to_pages_of_all_sorts():
    world = World()
    ends = Counter()
    for one in pages_of(world, range(world.hosts)):
        if one.kind is not PageKind.REDIRECT:
            continue
        at, hops = one, {(one.host.index, one.number, one.hop)}
        while at.kind is PageKind.REDIRECT:
            key = redirect_target(world, at)
            at = page(world, world.host(key >> 32), key >> 8 & 0xFFFFFF, key & 0xFF)
            step = (at.host.index, at.number, at.hop)
            if step in hops:
                ends["loop"] += 1
                break
            hops.add(step)
        else:
            ends[f"chain of {min(len(hops) - 1, 5)}"] += 1
            ends["gone"] += at.number >= at.host.pages
            ends["other host"] += at.host != one.host
            if at.number < at.host.pages:
                assert find_page(world, at.host, at.path) == at
    assert min(ends.values()) >= 5
    assert {"loop", "chain of 1", "chain of 2", "chain of 3", "chain of 5"} < ends.keys()
