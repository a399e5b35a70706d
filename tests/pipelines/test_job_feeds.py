"""Which feeds a job continues, under which names, and what it removes from their ends."""

import csv
import io
import json
import marshal
import pickle
import random
from contextlib import suppress
from pathlib import Path, PurePath

import pytest
from disk import PowerLoss, file_size_limit
from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exporters import BaseItemExporter, JsonLinesItemExporter
from scrapy.extensions.feedexport import FeedExporter, FileFeedStorage
from scrapy.statscollectors import MemoryStatsCollector
from text_tables import cases, each

from webcrawl import settings as own_settings
from webcrawl.errors import FatalError
from webcrawl.pipelines.job_feeds import JobFeeds
from webcrawl.signals import checkpoint

ITEMS = [
    {"url": "http://a.test/", "text": 'a "quoted" word'},
    {"url": "http://b.test/", "text": "two\nlines,\r\nor three"},
    {"url": "http://c.test/", "text": "}\n\\"},
]


class OwnStorage(FileFeedStorage):
    """A user's."""


class OwnLines(JsonLinesItemExporter):
    """A user's."""


class OwnFormat(BaseItemExporter):
    """A user's, of which nothing is known."""

    def export_item(self, item):
        """Nothing."""


class Run:
    """A run of a job in *directory* with *feeds*, without a crawl: a test gives it the items."""

    def __init__(self, directory, feeds, *, is_resumed, suffix=""):
        settings = {
            "FEEDS": feeds,
            "FEED_EXPORTERS_BASE": own_settings.FEED_EXPORTERS_BASE,
            "FEED_EXPORTERS": {"own": OwnFormat, "ownlines": OwnLines},
            "FEED_STORAGES": {"own": OwnStorage},
        }
        self.crawler = Crawler(Spider, settings)
        self.crawler.stats = MemoryStatsCollector(self.crawler)
        self.spider = self.crawler.spider = Spider("a")
        self.exporter = FeedExporter.from_crawler(self.crawler)
        self.errors = []
        job_feeds = JobFeeds(self.exporter, directory, suffix, self.errors.append)
        job_feeds.open(is_resumed=is_resumed)
        self.crawler.signals.send_catch_log(signals.spider_opened, spider=self.spider)

    async def export(self, *items):
        """Everything that is done before the page of each item is finished."""
        send = self.crawler.signals.send_catch_log_async
        for item in items:
            await send(signals.item_scraped, item=item, spider=self.spider)

    async def sync(self):
        await self.crawler.signals.send_catch_log_async(checkpoint)

    async def close(self):
        await self.exporter.close_spider(self.spider)

    def kill(self):
        """Leave the files as a dead process does, without what was not written yet."""
        for slot in self.exporter.slots:
            if isinstance(slot.file, io.BufferedWriter) and not slot.file.closed:
                slot.file.raw.close()


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts runs of a job, which are dead when the test ends. Its directory is the current one."""
    monkeypatch.chdir(tmp_path)
    runs = []

    def start_run(feeds, *, directory=tmp_path, **options):
        runs.append(Run(directory, feeds, **options))
        return runs[-1]

    yield start_run
    for run in runs:
        run.kill()


def file_of(run):
    """The file that the only feed of *run* writes to."""
    (slot,) = run.exporter.slots
    return Path(slot.storage.path).absolute()


def items_in(path, form):
    """The items in a file, read by those that read this format."""
    match form:
        case "csv":
            with path.open(newline="") as file:
                return [*csv.DictReader(file, strict=True)]
        case "jsonlines":
            return [json.loads(line) for line in path.read_bytes().splitlines()]
    load = {"pickle": pickle.load, "marshal": marshal.load}[form]
    items = []
    with path.open("rb") as file, suppress(EOFError):
        while True:
            items.append(load(file))
    return items


@cases(
    "name options becomes",
    """
        # Later runs append to the file.
        a.jsonl             | {}                                           | continued
        a.jsonl             | {"overwrite": True}                          | continued
        a.csv               | {"item_export_kwargs": {"delimiter": ";"}}   | continued
        a.csv               | {"encoding": "utf-8-sig"}                    | continued
        a                   | {"format": "jl"}                             | continued
        a.links             | {}                                           | continued
        a.pickle            | {}                                           | continued
        a.marshal           | {}                                           | continued
        a.ownlines          | {}                                           | continued
        a-%(time)s.jsonl    | {}                                           | continued
        a-%(batch_id)d.csv  | {"batch_item_count": 3}                      | continued
        # They need a new file.
        a.json              | {}                                           | a-%(time)s.json
        a.xml               | {}                                           | a-%(time)s.xml
        a.own               | {}                                           | a-%(time)s.own
        a                   | {"format": "json"}                           | a-%(time)s
        a.b/c               | {"format": "json"}                           | a.b/c-%(time)s
        a-%(batch_id)d.json | {"batch_item_count": 3}            | a-%(batch_id)d-%(time)s.json
        a.jsonl             | {"encoding": "utf-16"}                       | a-%(time)s.jsonl
        a.jsonl             | {"encoding": "utf-16-be"}                    | a-%(time)s.jsonl
        a.csv               | {"item_export_kwargs": {"quotechar": "'"}}   | a-%(time)s.csv
        a.jsonl             | {"postprocessing": [PLUGIN]}                 | a-%(time)s.jsonl
        ftp://me@a.test/a.jsonl | {}                   | ftp://***@a.test/a-%(time)s.jsonl
        own://a.test/a.jsonl | {}                      | own://a.test/a-%(time)s.jsonl
        # They have one.
        a-%(time)s.json     | {}                                           | unchanged
        a.%(time)s          | {"format": "json"}                           | unchanged
        a-%(batch_time)s.xml | {"batch_item_count": 3}                     | unchanged
        ftp://a.test/a-%(time)s.csv | {}                                   | unchanged
        # There is nothing to continue.
        stdout:             | {"format": "json"}                           | unchanged
        /dev/null           | {"format": "json"}                           | unchanged
    """.replace("PLUGIN", '"scrapy.extensions.postprocessing.GzipPlugin"'),
)
def test_a_feed_is_continued_or_new_in_each_run(start, caplog, name, options, becomes):
    feeds = {name: {"format": name.rpartition(".")[2], **options}}
    if "%" in becomes:
        with pytest.raises(FatalError) as refused:
            start(feeds, is_resumed=False)
        sentence = str(refused.value)
        lines = PurePath(becomes.replace("-%(time)s", "")).with_suffix(".jsonl").name
        assert sentence.endswith(f" {lines}, or to a new file in each run, {becomes}.")
        run = start(feeds, is_resumed=True)
        assert f"{sentence} This run takes the latter" in caplog.text
    else:
        run = start(feeds, is_resumed=True)
        assert "The feed" not in caplog.text
    if "%" in becomes:
        name = becomes.replace("***", "me")
    elif becomes == "continued":
        name = str(Path(name).absolute())
    for kept in (run.exporter.feeds, run.exporter.filters):
        assert [*kept] == [name]
    (made,) = run.exporter.feeds.values()
    assert (made.get("overwrite") is False) == (becomes == "continued")


@each("form", "jsonlines", "csv", "pickle", "marshal")
async def test_an_item_that_is_cut_anywhere_is_removed(start, tmp_path, form):
    """By kill -9 while it was written; the items before it stay, and others follow them."""
    path = tmp_path / "items"
    feeds = {str(path): {"format": form, "overwrite": True}}
    run = start(feeds, is_resumed=False)
    await run.export(*ITEMS[:2])
    size = path.stat().st_size
    await run.export(ITEMS[2])
    whole = path.read_bytes()
    record = (tmp_path / "feeds.json").read_bytes()
    for end in range(size, len(whole) + 1):
        path.write_bytes(whole[:end])
        (tmp_path / "feeds.json").write_bytes(record)
        run = start(feeds, is_resumed=True)
        kept = ITEMS if end == len(whole) else ITEMS[:2]
        assert items_in(path, form) == kept
        await run.export(*ITEMS)
        await run.close()
        assert items_in(path, form) == [*kept, *ITEMS]


@each("form", "jsonlines", "csv", "pickle", "marshal")
async def test_what_others_wrote_stays(start, tmp_path, form):
    """Before the job began, or into its file since."""
    path = tmp_path / "items"
    feeds = {str(path): {"format": form}}
    path.write_bytes(b'5" wide, 1.5" high\n and 2" deep\n')
    before = path.read_bytes()
    run = start(feeds, is_resumed=False)
    await run.export(*ITEMS)
    await run.close()
    exported = path.read_bytes() + b"\xff" * 99 + ITEMS[0]["url"].encode() + b"\n"
    assert exported.startswith(before)
    path.write_bytes(exported)
    start(feeds, is_resumed=True)
    assert path.read_bytes() == exported


async def test_a_file_that_the_job_did_not_begin_is_overwritten_once(start, tmp_path):
    path, other = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    for file in (path, other):
        file.write_text("{}\n")
    feeds = {str(path): {"format": "jsonl", "overwrite": True}}
    for _ in range(2):  # killed before it exported anything
        start(feeds, is_resumed=False)
        assert items_in(path, "jsonlines") == [{}]
    await start(feeds, is_resumed=True).export(ITEMS[0])
    feeds[str(other)] = feeds[str(path)]
    for _ in range(2):
        await start(feeds, is_resumed=True).export(ITEMS[1])
    assert items_in(path, "jsonlines") == [ITEMS[0], ITEMS[1], ITEMS[1]]
    assert items_in(other, "jsonlines") == [ITEMS[1], ITEMS[1]]


@cases(
    "options kinds headers",
    """
        {}                                                        | plain plain | 1
        {"fields": ["url", "text"]}                               | plain plain | 1
        {"fields": {"url": "u", "text": "t"}}                     | plain plain | 1
        {"item_export_kwargs": {"delimiter": ";"}}                | plain plain | 1
        {}                                                        | plain less  | 1
        {}                                                        | plain more  | 1
        {}                                                        | plain other | 2
        {"item_export_kwargs": {"include_headers_line": False}}   | plain plain | 0
    """,
)
async def test_a_table_has_one_header(start, tmp_path, options, kinds, headers):
    """Unless the first item of a run has no column of the table."""
    items = {
        "plain": ITEMS[0],
        "less": {"text": "a"},
        "more": {"url": "", "text": "", "more": ""},
        "other": {"u": "", "t": ""},
    }
    feed = {"format": "csv", "overwrite": True, **options}
    path = tmp_path / "a.csv"
    for number, kind in enumerate(kinds.split()):
        run = start({str(path): feed}, is_resumed=number > 0)
        await run.export(items[kind], items[kind])
        await run.close()
    with path.open(newline="") as file:
        rows = [*csv.reader(file, delimiter=";" if "delimiter" in str(options) else ",")]
    assert sum(row[0] in {"u", "url"} for row in rows) == headers
    assert len(rows) == 4 + headers


async def test_a_run_warns_of_fields_that_the_table_does_not_have(start, tmp_path, caplog):
    path = tmp_path / "a.csv"
    for number in range(2):
        run = start({str(path): {"format": "csv"}}, is_resumed=number > 0)
        await run.export(ITEMS[0])
    assert "dropped fields" not in caplog.text
    await run.export({"more": 1})
    assert "CSVExporter dropped fields ['more']" in caplog.text


@each("count", 1, 2)
async def test_each_item_is_in_its_file_when_its_page_is_finished(start, tmp_path, count):
    """Also the last one of a batch, whose file is closed later."""
    uri = str(tmp_path / "%(batch_id)d.jsonl")
    feeds = {uri: {"format": "jsonl", "batch_item_count": count, "overwrite": True}}
    run = start(feeds, is_resumed=False)
    for number, item in enumerate(ITEMS):
        run.crawler.signals.send_catch_log(signals.item_scraped, item=item, spider=run.spider)
        assert items_in(tmp_path / f"{number // count + 1}.jsonl", "jsonlines")[-1] == item
        following = tmp_path / f"{(number + 1) // count + 1}.jsonl"
        assert json.loads((tmp_path / "feeds.json").read_bytes())[uri][0] == str(following)
    await run.close()


@cases(
    "name options runs",
    """
        # The first file of a job, the second file, and the first file of another run.
        a.csv               | {}                                           | 0
        %(batch_id)d.csv    | {"batch_item_count": 1}                      | 1
        %(batch_id)d.csv    | {"batch_item_count": 1, "overwrite": True}   | 1
        %(batch_id)d.csv    | {"batch_item_count": 2}                      | 3 0
    """,
)
async def test_a_cut_item_is_removed_even_if_it_is_the_first_in_its_file(
    start, tmp_path, name, options, runs
):
    """By kill -9 between the first write to the file and the end of the page."""
    feeds = {name: {"format": "csv", **options}}
    for number, exported in enumerate(map(int, str(runs).split())):
        run = start(feeds, is_resumed=number > 0)
        await run.export(*ITEMS[:exported])
    path = file_of(run)
    path.touch()
    before = path.read_bytes()
    path.write_bytes(before + b'http://cut.test/,"a line\nand')
    start(feeds, is_resumed=True)
    assert path.read_bytes() == before


async def test_a_checkpoint_has_the_items_before_it_on_the_disk(start, tmp_path, monkeypatch):
    """After a power loss the next run finds them, and nothing that it cannot read."""
    feeds = {
        "new/a.csv": {"format": "csv", "overwrite": True},
        "%(batch_id)d.jsonl": {"format": "jsonl", "batch_item_count": 2},
    }
    (tmp_path / "new").mkdir()
    power = PowerLoss(tmp_path, monkeypatch)
    run = start(feeds, is_resumed=False)
    exported = 0
    for count in (0, 3):
        await run.export(*ITEMS[:count])
        await run.sync()
        exported += count
        await run.export(*ITEMS)
        for seed in range(20):
            target = tmp_path.with_name(f"{tmp_path.name}-{count}-{seed}")
            record = power.lose(target, random.Random(seed)) / "feeds.json"
            # The disk of this directory is in another place.
            record.write_text(record.read_text().replace(f"{tmp_path}/", f"{target}/"))
            with monkeypatch.context() as there:
                there.chdir(target)
                start(feeds, directory=target, is_resumed=True)
            for form, names in (("csv", ["new/a.csv"]), ("jsonlines", target.glob("*.jsonl"))):
                files = [target / name for name in sorted(names) if (target / name).exists()]
                items = [item for file in files for item in items_in(file, form)]
                assert items == (ITEMS * 4)[: len(items)]
                assert len(items) >= exported
        exported += len(ITEMS)
    await run.close()
    power.close()


@each("length", 9, 99_999)
async def test_the_crawl_ends_when_the_disk_of_a_feed_is_full(start, tmp_path, caplog, length):
    """Also if the item is larger than the buffer of its file. Nothing follows the cut item."""
    path = tmp_path / "a.jsonl"
    item = {"url": "http://b.test/", "text": "a" * length}
    run = start({str(path): {"format": "jsonl"}}, is_resumed=False)
    await run.export(ITEMS[0])
    with file_size_limit(path.stat().st_size + 9):
        await run.export(item)
    (error,) = run.errors
    assert str(error).startswith(f"The feed {path} cannot be written (")
    assert caplog.text == ""
    if length > 8192:
        await run.export(ITEMS[2])
    run = start({str(path): {"format": "jsonl"}}, is_resumed=True)
    await run.export(item)
    assert items_in(path, "jsonlines") == [ITEMS[0], item]


@each("length", 9, 99_999)
@each("name", "a-%(time)s.json", "%(batch_id)d.jsonl")
async def test_the_crawl_ends_when_the_disk_of_any_local_feed_is_full(start, caplog, name, length):
    run = start({name: {"format": name.rpartition(".")[2]}}, is_resumed=False)
    with file_size_limit(5):
        await run.export({"text": "a" * length})
    (error,) = run.errors
    assert str(error).startswith(f"The feed {run.exporter.slots[0].uri} cannot be written (")
    assert caplog.text == ""
    for slot in run.exporter.slots:
        slot.file.raw.close()


@each("name", "place/a-%(time)s.json", "place/%(batch_id)d.jsonl")
async def test_the_crawl_ends_when_a_feed_cannot_be_opened(start, tmp_path, caplog, name):
    run = start({name: {"format": name.rpartition(".")[2]}}, is_resumed=False)
    (tmp_path / "place").touch()
    await run.export(ITEMS[0])
    (error,) = run.errors
    assert str(error).startswith(f"The feed {run.exporter.slots[0].uri} cannot be written (")
    assert caplog.text == ""


async def test_processes_of_a_hive_do_not_share_a_file(start, tmp_path):
    feeds = {str(tmp_path / "a.jsonl"): {"format": "jsonl", "overwrite": True}}
    runs = []
    for number in range(2):
        job = tmp_path / str(number)
        job.mkdir()
        runs.append(start(feeds, directory=job, is_resumed=False, suffix=f"-{number}"))
        await runs[number].export(ITEMS[number])
    assert [items_in(tmp_path / f"a-{n}.jsonl", "jsonlines") for n in range(2)] == [
        [ITEMS[0]],
        [ITEMS[1]],
    ]


@each("name", "file/a.jsonl", "directory.csv")
def test_a_feed_that_cannot_be_opened_is_refused_before_the_crawl(tmp_path, start, name):
    (tmp_path / "file").touch()
    (tmp_path / "directory.csv").mkdir()
    with pytest.raises(FatalError, match=f"The feed .*{name} cannot be written"):
        start({name: {"format": name.rpartition(".")[2]}}, is_resumed=False)


@each("name", "a.csv", "%(batch_id)d.csv")
async def test_a_file_that_cannot_be_continued_is_named(tmp_path, start, name):
    feeds = {name: {"format": "csv", "batch_item_count": 9 if "%" in name else None}}
    run = start(feeds, is_resumed=False)
    await run.export(ITEMS[0])
    path = file_of(run)
    path.unlink()
    path.mkdir()
    with pytest.raises(FatalError, match=f"^The feed {path} cannot be written .*: correct that"):
        start(feeds, is_resumed=True)


@cases(
    "first then",
    """
        a.jsonl      | ./a.jsonl
        a.jsonl      | TMP/a.jsonl
        a.jsonl      | file://TMP/a.jsonl
        a.jsonl      | none/../a.jsonl
        none/../a.jsonl | none/../a.jsonl
        none/../a.jsonl | a.jsonl
        link/a.jsonl | a.jsonl
    """,
)
@each("is_recorded_as_written", False, True)
async def test_a_file_is_continued_however_its_path_is_written(
    tmp_path, start, first, then, is_recorded_as_written
):
    (tmp_path / "link").symlink_to(tmp_path)
    path = tmp_path / "a.jsonl"
    options = {"format": "jsonl", "overwrite": True}
    await start({first: dict(options)}, is_resumed=False).export(ITEMS[0])
    if is_recorded_as_written:  # by an earlier version, without a format
        (tmp_path / "feeds.json").write_text(json.dumps({first: [first, 0]}))
    again = {then.replace("TMP", str(tmp_path)): dict(options)}
    for number in (1, 2):
        with path.open("ab") as file:
            file.write(b'{"url": "http://cut')
        await start(again, is_resumed=True).export(ITEMS[number])
    assert items_in(path, "jsonlines") == ITEMS


@each("name", "a.jsonl", "%(batch_id)d.jsonl")
async def test_a_relative_feed_is_another_one_in_another_directory(
    tmp_path, start, monkeypatch, name
):
    """What the job wrote in each stays, and is continued when the job comes back."""
    feed = {"format": "jsonl", "overwrite": True, "batch_item_count": 9 if "%" in name else None}
    written = [tmp_path / place / name.replace("%(batch_id)d", "1") for place in "ab"]
    for path in written:  # by another crawl
        path.parent.mkdir()
        path.write_bytes(b"{}")
    for number, path in enumerate([*written, *written]):
        monkeypatch.chdir(path.parent)
        run = start({name: dict(feed)}, directory=tmp_path, is_resumed=number > 0)
        await run.export(ITEMS[number % 3])
        with path.open("ab") as file:
            file.write(b'{"url": "http://cut')
    for number, path in enumerate(written):
        monkeypatch.chdir(path.parent)
        start({name: dict(feed)}, directory=tmp_path, is_resumed=True)
        assert items_in(path, "jsonlines") == [ITEMS[number], ITEMS[(number + 2) % 3]]


@cases(
    "first then sentence",
    """
        # Other formats.
        {"format": "csv"}       | {"format": "jsonl"}    | format csv, not jsonl: choose csv
        {"format": "jsonl"}     | {"format": "csv"}      | format jsonl, not csv: choose jsonl
        {"format": "csv"}       | {"format": "links"}    | format csv, not links: choose csv
        {"format": "pickle"}    | {"format": "marshal"}  | format pickle, not marshal: choose pickle
        {"format": "jl"}        | {"format": "jsonlines"} | None
        # Other columns.
        FIELDS UT}           | FIELDS ["url"]}       | columns UT, not ['url']: choose its columns
        FIELDS UT}           | FIELDS ["text", "url"]} | columns UT, not TU: choose its columns
        {"format": "csv"}    | FIELDS ["url"]}       | columns UT, not ['url']: choose its columns
        FIELDS {"url": "u"}} | FIELDS {"url": "v"}}  | columns ['u'], not ['v']: choose its columns
        FIELDS UT}       | FIELDS UT, SEMI}   | columns ['url,text'], not UT: choose its columns
        FIELDS {"url": "u"}} | FIELDS ["u"]}         | None
        {"format": "csv"}    | FIELDS UT}            | None
        FIELDS UT}           | {"format": "csv"}     | None
    """.replace("FIELDS", '{"format": "csv", "fields":')
    .replace("SEMI", '"item_export_kwargs": {"delimiter": ";"}')
    .replace("UT", "['url', 'text']")
    .replace("TU", "['text', 'url']"),
)
async def test_a_file_has_one_format_and_one_set_of_columns(start, tmp_path, first, then, sentence):
    path = tmp_path / "a"
    await start({"a": first}, is_resumed=False).export(ITEMS[0])
    before = path.read_bytes()
    if sentence is None:
        await start({"a": then}, is_resumed=True).export(ITEMS[1])
        assert path.read_bytes().startswith(before)
        return
    with pytest.raises(FatalError) as refused:
        start({"a": then}, is_resumed=True)
    assert str(refused.value) == f"The feed {path} has the {sentence}, or name another file."
    assert path.read_bytes() == before


@cases(
    "rows cut",
    r"""
        # Whole rows after a row that was cut off stay, and what is cut off goes.
        "url,text\r\n1,\"a\nurl,text\r\n2,b\r\n"            | ""
        "url,text\r\n1,\"a\nurl,text\r\n2,\"b\"\r\n"      | "3,c"
        "url,text\r\n1,5\" wide\r\n2,b\r\n"                  | "3,\"c\nd\ne"
        "url,text\r\n"                                            | "3,\"c\n"
    """,
)
async def test_no_row_of_an_earlier_version_is_lost(start, tmp_path, rows, cut):
    """It did not remove what kill -9 had cut off, and had no record of its feeds."""
    path = tmp_path / "a.csv"
    path.write_bytes((rows + cut).encode())
    run = start({"a.csv": {"format": "csv", "overwrite": True}}, is_resumed=True)
    assert path.read_bytes() == rows.encode()
    await run.export(ITEMS[0])
    assert path.read_bytes().startswith(rows.encode())


@cases(
    "name content",
    r"""
        a.csv     | "url,text\n1,5\" wide\n2,b\n"
        a.csv     | "url,text"
        a.jsonl   | "{\"url\": \"http://a.test/\"}"
        a.pickle  | "text"
        a.marshal | "text"
    """,
)
async def test_nothing_of_a_file_without_an_item_of_an_earlier_version_is_lost(
    start, tmp_path, name, content
):
    """A job without a record may have had no feed: another tool has written the file."""
    path = tmp_path / name
    path.write_bytes(content.encode())
    feeds = {name: {"format": name.rpartition(".")[2]}}
    for _ in range(2):
        start({name: dict(feeds[name])}, is_resumed=True)
        assert path.read_bytes() == content.encode()
