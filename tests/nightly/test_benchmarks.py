"""Each benchmark runs at its smallest size."""

import gzip
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from text_tables import each, table, words

ROOT = Path(__file__).resolve().parents[2]
#: What other benchmarks run or import, and what has a test of its own.
OTHERS = words("""
    crawl_graph.py crawl_once.py crawlee_once.py floor_once.py rows.py scale_crawl.py
    silkworm_once.py webs.py bench_freshness.py bench_projection.py page_instructions.py parts.py
    cache_replays.py cachelab.py paper_web.py quality_model.py quality_web.py search_quality.py
    soak_visits.py
""")
RUNS = dict(
    table("""
        bench.py
            | --web small --row webcrawl --row floor --pages 100 --rounds 1 --skip-eliminator
        bench_clusters.py        | 20000
        bench_doctor.py          | 'one page, visits'
        bench_drones.py          | --drones 16 --shards 64 --secs 20
        bench_eliminator.py      | --stored 100000 --submit 100000
        bench_extraction.py      | {inputs}/docs
        bench_frontier.py        | --hosts 100 --urls 1000
        bench_hive.py            | --pages 1000 --rounds 1 --drones 2
        bench_hosts.py           | --scheme http --per-host 3 --pages 100 --rounds 1
        bench_render.py          | 1
        bench_render_crawl.py    |
        bench_restart.py         | --urls 1000 --rounds 1
        bench_revisits.py        | --urls 1000 --visits 100
        bench_scale.py           | --hosts 100 --discovered 500 --seeds 100 --skip-parts
        bench_scores.py          | '' 20 3
        bench_seeds.py           | --seeds 1000 --hosts 300 --rounds 1
        bench_spam.py            | 20 5
        bench_text.py            | {inputs}/udhr {inputs}/docs
        bench_walls.py           | --run {root} judge
        blocklist_lookups.py     | 100
        exclusion_expressions.py | 100
        html_edges.py            | {inputs}/docs
        page_layouts.py          | 1
        page_navigation.py       | 1
        queue_frames.py          | {inputs}/articles.tar
        soak.py                  | --minutes 3 --hosts 100 --kills 1
        wall_alarms.py           | {inputs}/articles.tar {inputs}/docs
    """)
)
HTML = f"""<html><head><link rel="canonical" href="http://a.test/"></head><body><h1>Text</h1>
{'<p>Some words of a page, <a href="/b.html">and a link</a> of it.</p>' * 12}</body></html>"""


@pytest.fixture
def inputs(tmp_path):
    """A directory with what benchmarks read: HTML, articles in a tar file, texts by language."""
    for name in ("docs/a.html", "docs/b.html"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(HTML)
    files = {
        "ground-truth.json": json.dumps({"a": {"url": "http://a.test/a"}}).encode(),
        "a.html.gz": gzip.compress(HTML.encode()),
    }
    with tarfile.open(tmp_path / "articles.tar", "w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    (tmp_path / "udhr/declaration").mkdir(parents=True)
    script = (ROOT / "benchmarks/bench_text.py").read_text(encoding="utf-8")
    for name in re.findall(r"(?<=[=,])[a-z]\w+", script):  # the texts that it reads, at least
        (tmp_path / f"udhr/declaration/{name}.html").write_text(HTML)
    return tmp_path


def test_each_script_is_run_here():
    scripts = {path.name for path in (ROOT / "benchmarks").glob("*.py")}
    assert {*RUNS, *OTHERS} == scripts


@pytest.mark.long
@pytest.mark.timeout(900)
@each("script", *RUNS)
def test_a_benchmark_runs_at_its_smallest_size(inputs, script):
    words = shlex.split(RUNS[script].format(root=ROOT, inputs=inputs))
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / script, *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
