"""``scrapy dataset``: directories that Hugging Face reads, added to by each run."""

import gzip
import re
from collections import defaultdict
from glob import escape

import duckdb
import pyarrow.parquet as pq
import pytest
import warm
from contracts.modules import a_page, run_module
from crash import die_between_lines
from crawling import printed, refusal
from text_tables import each, words

from webcrawl.jobs.dataset import lay_out, text_directories
from webcrawl.jobs.purge.files import purge_parquet
from webcrawl.pipelines.text import TextDataset
from webcrawl.rights.statements import Rights

GERMAN = "Alle Menschen sind frei und gleich an Würde und Rechten geboren. " * 5
ENGLISH = "All human beings are born free and equal in dignity and rights. " * 5
OTHER_ENGLISH = f"{ENGLISH * 2} So it is."
LICENCE = "<link rel=license href='https://creativecommons.org/licenses/by/4.0/'>"


def job_in(jobdir, *names, text=ENGLISH, at=1_750_000_000.0):
    """A job with a file of the text of pages called *names*, which have a licence."""
    (jobdir / "logs").mkdir(parents=True, exist_ok=True)
    (jobdir / "logs/info.jsonl").touch()
    pages = [
        a_page(f"<title>{name}</title>{LICENCE}<p>{text}", url=f"http://a.test/{name}")
        for name in names
    ]
    for second, page in enumerate(pages):
        page.rights = Rights(purpose="train", agent="tests/1.0")
        page.fetched_at = at + second
    run_module(TextDataset, pages, jobdir)


def make_in(directory):
    """For ``die_between_lines``."""
    lay_out(text_directories(directory / "job", ""), directory / "made")


def drop_in(directory):
    """For ``die_between_lines``."""
    lay_out(text_directories(directory / "job", ""), directory / "made", "drop")


def urls_in(directory):
    files = f"{escape(str(directory))}/data/train-*.parquet"
    return [url[14:] for (url,) in duckdb.sql(f"select url from '{files}' order by 1").fetchall()]


def clusters_in(directory):
    """The names of the pages of each cluster, with its representative in capitals."""
    rows = duckdb.sql(f"""
        select cluster, if(is_representative, upper(url[15:]), url[15:])
        from '{escape(str(directory))}/data/train-*.parquet' order by url
    """).fetchall()
    clusters = defaultdict(str)
    for cluster, name in rows:
        clusters[cluster] += name
    return sorted(clusters.values())


def test_each_run_adds_what_is_new(tmp_path):
    job, made = tmp_path / "web", tmp_path / "made"
    job_in(job, "a", "b")
    (job / "text/part-9.parquet.open").write_bytes(b"unfinished")
    done = warm.scrapy("dataset", job, "-o", made)
    assert done.stdout == f"{made}: 2 pages in 1 file\n"
    (first,) = (made / "data").iterdir()
    assert re.fullmatch(r"train-web-\d{17}-\d{5}\.parquet", first.name)
    before = first.stat()
    job_in(job, "c", text=GERMAN)
    job_in(tmp_path / "hive/drones/0", "d")
    job_in(tmp_path / "hive/drones/1", "e")
    (made / "ABOUT.md").write_text("Pages of a test.\n")
    done = warm.scrapy("dataset", job, "-o", made)
    assert (done.stdout, done.stderr) == (f"{made}: 3 pages in 2 files\n", "")
    assert printed("dataset", tmp_path / "hive", "-o", made) == f"{made}: 5 pages in 4 files\n"
    assert (first.stat().st_ino, urls_in(made)) == (before.st_ino, words("a b c d e"))
    assert {path.name for path in made.iterdir()} == {"data", "README.md", "ABOUT.md"}
    card = (made / "README.md").read_text()
    assert card.startswith(
        "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n"
    )
    assert '\nlanguage: ["en", "de"]\n---\n\n# made\n\nPages of a test.\n\n5 pages, ' in card
    for line in ("| en | 4 |", "| de | 1 |", "| train | 5 |"):
        assert f"\n{line}\n" in card
    assert "\n| https://creativecommons.org/licenses/by/4.0/ | 5 |\n" in card


def test_purged_pages_leave_with_the_next_run(tmp_path):
    job, made = tmp_path / "web", tmp_path / "made"
    job_in(job, "a", "b")
    printed("dataset", job, "-o", made)
    (file,) = (job / "text").glob("*.parquet")
    purge_parquet(file, "http://a.test/a".__eq__, lambda _: True, column="url")
    printed("dataset", job, "-o", made)
    assert urls_in(made) == ["b"]
    (copy,) = (made / "data").iterdir()
    assert copy.read_bytes() == file.read_bytes()


def test_the_first_page_of_a_cluster_represents_it_until_it_is_purged_or_refused(tmp_path):
    job, hive, made = tmp_path / "web", tmp_path / "it's", tmp_path / "[m]*de"
    job_in(job, "b", "c", text=OTHER_ENGLISH)
    job_in(job, "d", text=GERMAN)
    printed("dataset", job, "-o", made)
    mark = "-o", made, "--near-duplicates", "mark"
    assert printed("dataset", job, *mark) == f"{made}: 3 pages in 2 files; 1 near-duplicate\n"
    assert clusters_in(made) == words("Bc D")
    before = {path: path.stat().st_ino for path in (made / "data").iterdir()}
    job_in(hive / "drones/0", "a", "e", at=1_740_000_000)
    job_in(hive / "drones/1", "f", text="Too few words.")
    assert printed("dataset", hive, *mark) == f"{made}: 6 pages in 4 files; 3 near-duplicates\n"
    assert clusters_in(made) == words("Abce D F")
    changed = [path for path in before if path.stat().st_ino != before[path]]
    assert len(changed) == 1  # d, in the other one, is in no other cluster
    drop = *mark[:-1], "drop"
    printed("dataset", job, *drop)
    assert clusters_in(made) == words("A D F")
    assert "\n3 pages, stored" in (made / "README.md").read_text()
    files = [pq.read_metadata(path) for path in (made / "data").iterdir()]
    # Hugging Face's reader fails at row groups without rows.
    assert [file.num_row_groups for file in files] == [file.num_rows for file in files]
    assert {file.num_rows for file in files} == {0, 1}

    (purged,) = (hive / "drones/0/text").glob("*.parquet")
    purge_parquet(purged, "http://a.test/a".__eq__, lambda _: True, column="url")
    printed("dataset", hive, *drop)
    assert clusters_in(made) == words("D E F")
    (hive / "drones/0/text/_left_out.jsonl").write_text(
        '{"url":"http://a.test/e","fetched_at":1740000001.5}\n{"url":"http://a.test/b","fetched_at":1'
    )
    printed("dataset", hive, *drop)
    assert clusters_in(made) == words("B D F")
    printed("dataset", job, "-o", made)
    assert urls_in(made) == words("b c d e f")
    assert not (made / "originals").exists()


@each("make text rest", (make_in, ENGLISH, set()), (drop_in, GERMAN, {"originals"}))
def test_nothing_is_there_twice_or_missing_after_kill_9(tmp_path, make, text, rest):
    start, out = tmp_path / "start", tmp_path / "out"
    job_in(start / "job", "a")
    job_in(start / "job", "b", text=text)
    killed = die_between_lines(f"tests.jobs.test_dataset:{make.__name__}", start, out)
    assert len(killed) > 5
    for left in killed:
        if [*left.glob("made/data/*.parquet")]:
            assert set(urls_in(left / "made")) <= {"a", "b"}
        make(left)
        assert urls_in(left / "made") == ["a", "b"]
        assert {path.name for path in (left / "made").iterdir()} == {"data", "README.md", *rest}


@each(
    "trouble sentence",
    ("no file", "has no finished Parquet file of TextDataset. A file is finished when"),
    ("damaged", "cannot be read: "),
    ("other columns", "has other columns than "),
)
@pytest.mark.cures("another version of TextDataset wrote it. Move one of them away, and the part")
def test_files_that_cannot_be_used_are_one_sentence(tmp_path, trouble, sentence):
    job = tmp_path / "web"
    job_in(job, "a")
    (file,) = (job / "text").glob("*.parquet")
    if trouble == "no file":
        file.rename(f"{file}.open")
    elif trouble == "damaged":
        file.write_bytes(gzip.compress(file.read_bytes()))
    else:
        table = pq.read_table(file).drop_columns(["rights"])
        pq.write_table(table, file.with_name("part-2.parquet"))
    assert sentence in refusal("dataset", job, "-o", tmp_path / "made")
    if trouble == "other columns":
        file.with_name("part-2.parquet").unlink()
        (tmp_path / "made/data/train-web-2.parquet").unlink()
        printed("dataset", job, "-o", tmp_path / "made")
