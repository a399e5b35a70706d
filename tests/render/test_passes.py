"""The life of a page from pass to pass, with engines that answer at once."""

import time
from threading import Event
from types import SimpleNamespace

import pytest
from msgspec.structs import replace
from records_rig import PatientExecutor, opened
from scrapy.settings import Settings
from scrapy.statscollectors import StatsCollector
from scrapy.utils.test import get_crawler
from text_tables import each

from webcrawl.crawl.links.url_rules import redirect_filters_of
from webcrawl.crawl.task.renderer import RenderSettings
from webcrawl.frontier import Entry, key
from webcrawl.hosts.host_rules import HostRules
from webcrawl.items import Page
from webcrawl.render.builder import RenderChoice, SubresourceRequests
from webcrawl.render.candidates import Outline, outline_of
from webcrawl.render.engine import Answer, Rendering, Subresource
from webcrawl.render.passes import Passes, RenderGate
from webcrawl.render.store import FILE, RenderStore, stored_answers
from webcrawl.urls import host_of

PAGE = Entry("http://a.test/", "a.test")
SCRIPT = "http://a.test/app.js"
DATA = "http://a.test/data.json"


class Recorded:
    """A worker whose passes end as *renderings* say, one after the other."""

    def __init__(self, *renderings):
        self.renderings = [*renderings]

    def start(self):
        return ""

    def render(self, page):
        return self.renderings.pop(0)

    def stop(self):
        pass


def work(passes):
    """Make all passes that are due."""
    passes.work()
    while passes._running:
        next(iter(passes._running)).result()
        passes.work()


# A job in which nothing was finished meanwhile.
RESUMED = {"finished": ()}


def requests_to(queue, path):
    """What passes request is appended to *queue*, and counted in records at *path*."""
    settings = Settings()
    settings.setmodule("webcrawl.settings")
    records = opened(path, PatientExecutor())
    ranks = SimpleNamespace(rank=lambda host: 0)
    shard = SimpleNamespace(hosts=SimpleNamespace(records=records), ranks=ranks)
    return SubresourceRequests(
        filters=redirect_filters_of(settings, schemes=frozenset({"http"})),
        rules=SimpleNamespace(key_of=host_of),
        shards=SimpleNamespace(of=lambda url: shard, find=lambda url: shard, requeue=queue.append),
    )


class Rig:
    def __init__(self, path, clock, *renderings, finished=None):
        self.entries, self.counted = [], []
        self.requests = requests_to(self.entries, path.with_name("hosts"))
        self.passes = Passes(
            store=RenderStore(path=path),
            workers=[Recorded(*renderings)],
            answer_of=lambda data: Answer(200, [], data),
            submit=self.requests.submit,
            on_end=self.requests.end,
            audience_of=lambda url, page: "",
            verdicts=None,
            wait_secs=100.0,
            clock=clock,
            count=self.counted.append,
        )
        self.passes.open(forgets=False, take_up=lambda url, page_key: (url, page_key) != finished)
        if finished is None:
            self.passes.keep(PAGE, b"<p>as fetched")

    @property
    def requested(self):
        return [entry.url for entry in self.entries]

    @property
    def records(self):
        return self.requests.shards.of("").hosts.records

    def close(self):
        self.passes.close()
        self.records._executor.run()
        self.records.close()

    def end(self, url, outcome, answer, via=None):
        """The request for *url* ends in the turn of the page *via*, or of the last that asked."""
        asked = [one for one in self.entries if one.url == url and via in {None, one.via}]
        self.passes.end_subresource(asked[-1].request, asked[-1].via, outcome, answer)

    def look_up(self, page, subresource):
        """What an engine finds in a pass over *page*."""
        return stored_answers(str(self.passes.store.path / FILE))(page)(subresource)

    def work(self):
        work(self.passes)

    @property
    def html(self):
        page = self.passes.rendered_page(PAGE)
        return None if page is None else page.html


@pytest.fixture
def rig(tmp_path, clock):
    rigs = []

    def begun(*renderings, **given):
        rigs.append(Rig(tmp_path / "rendering", clock, *renderings, **given))
        return rigs[-1]

    yield begun
    for one in rigs:
        one.close()


def lacking(*urls):
    return Rendering("settled", "<p>part", missing=[Subresource(url, "script") for url in urls])


def test_a_page_waits_for_what_it_lacks_and_for_the_targets_of_redirects(rig):
    rig = rig(lacking(SCRIPT), lacking(DATA), Rendering("settled", "<p>whole"))
    gate = RenderGate(rig.passes, clock=lambda: 0.0)
    rig.work()
    assert (rig.requested, rig.html, gate.hold(PAGE)) == ([SCRIPT], None, True)
    moved = Answer(302, [("Location", "/data.json")], b"")
    rig.end(SCRIPT, "http_302", moved)
    rig.work()
    assert (rig.requested, rig.html) == ([SCRIPT, DATA], None)
    rig.end(DATA, "http_200", Answer(200, [], b"x"))
    rig.work()
    assert (rig.html, gate.hold(PAGE)) == ("<p>whole", False)
    rig.passes.forget(PAGE)
    assert not rig.passes.has(PAGE)


def test_no_more_pages_are_rendered_than_counted_in_any_run(rig):
    whole = Rendering("settled", "<p>whole")
    for renderings, given in (([lacking(SCRIPT)], {}), ([whole], RESUMED), ([], RESUMED)):
        run = rig(*renderings, **given)
        run.work()
        run.passes.end_subresource(1, PAGE.url, "http_200", Answer(200, [], b"x"))
        assert run.counted.count("render/rendered") <= run.counted.count("render/pages")
        run.passes.close()
    assert run.counted == []


def test_pages_that_an_answer_is_not_for_ask_again(rig):
    rig = rig(lacking(SCRIPT), lacking(SCRIPT), Rendering("settled", "<p>one"))
    other = Entry("http://a.test/other", "a.test")
    rig.passes.keep(other, b"<p>")
    rig.work()
    rig.work()
    assert rig.requested == [SCRIPT]
    rig.end(SCRIPT, "http_200", Answer(200, [("Cache-Control", "private")], b"x"))
    assert rig.requested == [SCRIPT, SCRIPT]
    rig.work()
    assert (rig.html, rig.passes.is_waiting(other)) == ("<p>one", True)
    rig.passes._workers[0].renderings.append(Rendering("settled", "<p>other"))
    rig.end(SCRIPT, "private_address", None)
    rig.work()
    assert rig.passes.rendered_page(other).html == "<p>other"


def test_requests_for_the_url_of_a_waiting_page_leave_the_page_in_the_store(rig):
    rig = rig(lacking(PAGE.url), Rendering("settled", "<p>whole"), Rendering("settled", "<p>new"))
    rig.work()
    rig.end(PAGE.url, "http_200", Answer(200, [], b"x"))
    for other in (rig.entries[0], replace(PAGE, extra=b"a Request of a spider")):
        assert not rig.passes.has(other)  # it passes no gates because of the page
        rig.passes.forget(other)
    rig.work()
    assert rig.html == "<p>whole"
    again = replace(PAGE, attempts=1)
    rig.passes.keep(again, b"<p>fetched again")
    assert (rig.passes.has_ready, rig.passes.is_waiting(again)) == (False, True)
    rig.work()
    assert (rig.html, rig.passes.rendered_page(again).html) == (None, "<p>new")


EVIL = Entry("http://evil.test/", "evil.test")


def test_a_budget_refuses_all_pages_that_wait_and_none_later(rig):
    rig = rig(lacking(SCRIPT), lacking(SCRIPT), *[Rendering("settled", "<p>")] * 2)
    rig.passes.keep(EVIL, b"<p>")
    rig.work()
    rig.work()
    rig.end(SCRIPT, "over_budget", None, via=EVIL.url)
    asked = Subresource(SCRIPT, "script")
    assert rig.look_up(PAGE.url, asked) == rig.look_up(EVIL.url, asked) == "over_budget"
    rig.work()
    assert (rig.html, rig.passes.rendered_page(EVIL).html) == ("<p>", "<p>")
    later = Entry("http://a.test/later", "a.test")
    rig.passes.keep(later, b"<p>")
    assert rig.look_up(later.url, asked) is None


def test_pages_of_a_domain_that_wait_for_the_same_take_no_time_for_each(rig):
    """A page of an evil site may link to thousands that wait for what they may not get."""
    rig = rig()
    pages = [f"http://evil.test/{number}" for number in range(200)]
    for url in pages:
        rig.passes.keep(Entry(url, "evil.test"), b"<p>")
        rig.passes._need(url, rig.passes._pages[url], [Subresource(SCRIPT, "script")])
    statements = []
    rig.passes.store._database.set_trace_callback(statements.append)
    rig.end(SCRIPT, "private_address", None)
    assert len(statements) < 50
    assert [one.via for one in rig.entries] == pages[:2]


def test_a_page_of_another_site_that_is_refused_denies_nothing(rig):
    outcome = "private_address"
    whole = Rendering("settled", "<p>whole")
    rig = rig(lacking(SCRIPT), lacking(SCRIPT), Rendering("settled", "<p>evil"), whole)
    rig.passes.keep(EVIL, b"<p>")
    rig.work()
    rig.work()
    rig.end(SCRIPT, outcome, None, via=EVIL.url)
    asked = Subresource(SCRIPT, "script")
    assert (rig.look_up(EVIL.url, asked), rig.look_up(PAGE.url, asked)) == (outcome, None)
    rig.work()
    assert rig.passes.rendered_page(EVIL).html == "<p>evil"
    # The page still waits, and its entry has kept its place.
    assert [one.via for one in rig.entries] == [PAGE.url, EVIL.url]
    assert {one.request for one in rig.entries} == {1}
    assert _requested(rig, "a.test", "evil.test") == [1, 0]
    rig.end(SCRIPT, "http_200", Answer(200, [], b"x"), via=PAGE.url)
    rig.work()
    assert rig.html == "<p>whole"


def _requested(rig, *domains):
    """The numbers of requests that count as those of *domains*."""
    return [rig.records.domains.find(domain).requested for domain in domains]


def test_an_entry_that_was_dropped_is_submitted_again_if_the_answer_is_for_another_page(rig):
    rig = rig(lacking(SCRIPT), lacking(SCRIPT), Rendering("settled", "<p>evil"))
    rig.passes.keep(EVIL, b"<p>")
    rig.work()
    rig.work()
    rig.passes.on_end(1, PAGE.url)  # the answer for the other page was being stored
    rig.end(SCRIPT, "http_200", Answer(200, [("Cache-Control", "private")], b"x"), via=EVIL.url)
    assert [one.via for one in rig.entries] == [PAGE.url, EVIL.url, PAGE.url]
    assert rig.look_up(PAGE.url, Subresource(SCRIPT, "script")) is None


@each(
    "drop_or_end",
    lambda passes: passes.on_end(2, "http://b.test/1"),
    lambda passes: passes.end_subresource(2, "http://b.test/1", "timeout", None),
)
def test_a_request_that_was_answered_with_one_of_another_origin_may_be_sent_later(
    rig, clock, drop_or_end
):
    origins = ["http://a.test", "http://b.test"]
    module = Subresource("http://cdn.test/app.js", "script")
    lacking_module = [
        Rendering("settled", "<p>", missing=[replace(module, origin=origin)]) for origin in origins
    ]
    whole = Rendering("settled", "<p>whole")
    rig = rig(*lacking_module, whole, whole, lacking_module[1])
    rig.passes.keep(Entry("http://b.test/1", "b.test"), b"<p>")
    rig.work()
    rig.work()
    assert [one.request for one in rig.entries] == [1, 2]
    headers = [("Access-Control-Allow-Origin", "*"), ("Cache-Control", "max-age=60")]
    rig.end(module.url, "http_200", Answer(200, headers, b"x"), via=PAGE.url)
    # The entry of the other page is dropped, or its request was being sent.
    drop_or_end(rig.passes)
    assert rig.requests._waiting == {}
    rig.work()
    rig.work()
    assert rig.html == "<p>whole"
    clock.advance(2 * time.time())  # the answer is stale
    rig.passes.keep(Entry("http://b.test/2", "b.test"), b"<p>")
    rig.work()
    assert [one.via for one in rig.entries[2:]] == ["http://b.test/2"]


def test_a_restart_refuses_other_pages_nothing(rig):
    first = rig(lacking(SCRIPT), lacking(DATA))
    first.work()
    first.passes.forget(PAGE)
    first.passes.keep(EVIL, b"<p>")
    first.work()
    first.passes.close()
    second = rig(Rendering("settled", "<p>evil"), **RESUMED)
    second.requests.filters = SimpleNamespace(refusal=lambda url, depth: "excluded")
    second.passes.resume()
    assert second.entries == []
    second.work()
    assert second.passes.rendered_page(EVIL).html == "<p>evil"
    second.passes.keep(PAGE, b"<p>")
    for url in (SCRIPT, DATA):
        assert second.look_up(PAGE.url, Subresource(url, "script")) is None
    assert second.look_up(EVIL.url, Subresource(DATA, "script")) == "excluded"


def test_nothing_is_sent_for_a_page_after_its_last_pass(rig, clock):
    rig = rig(lacking(SCRIPT), *[lacking(SCRIPT)] * 2)
    rig.work()
    clock.advance(100)
    rig.work()
    assert rig.html == "<p>part"
    assert rig.passes.store.pending_request(rig.entries[0].request) is None
    rig.passes.keep(EVIL, b"<p>")
    rig.work()
    answer = Answer(302, [("Cache-Control", "private")], b"")
    rig.end(SCRIPT, "http_302", answer, via=EVIL.url)
    assert [one.via for one in rig.entries] == [PAGE.url, EVIL.url]


def test_a_page_gets_256_urls_and_the_rest_are_refused(rig):
    own = [f"http://a.test/{number}" for number in range(250)]
    foreign = [f"http://b.test/{number}" for number in range(80)]
    rig = rig(lacking(*foreign, *own), Rendering("settled", "<p>whole"))
    rig.work()
    asked = foreign[:64] + own[:192]
    assert rig.requested == asked
    for url in foreign + own:
        expected = None if url in asked else "over_page_limit"
        assert rig.look_up(PAGE.url, Subresource(url, "script")) == expected
    # Another page has its own limit.
    other = Entry("http://a.test/other", "a.test")
    rig.passes._workers[0].renderings.insert(0, lacking(own[200]))
    rig.passes.keep(other, b"<p>")
    rig.work()
    assert rig.requested == [*asked, own[200]]


def answered(rig, *renderings):
    """The page after *renderings*; what they lack is there in the next pass."""
    rig = rig(*renderings)
    for rendering in renderings:
        rig.work()
        for one in rendering.missing:
            if rig.html is None:
                rig.end(one.url, "http_200", Answer(200, [], b"x"))
    return rig, rig.passes.rendered_page(PAGE)


def chain(number, **more):
    """The pass that lacks the file with this *number*, and got all before."""
    return replace(lacking(f"{SCRIPT}?{number}"), answers=number, **more)


def test_only_passes_that_get_nothing_new_are_counted(rig):
    rig, page = answered(rig, *map(chain, range(9)), Rendering("settled", "<p>whole", answers=9))
    assert (page.html, page.passes, page.refusals) == ("<p>whole", 10, [])
    assert not [name for name in rig.counted if name.startswith("render/bound/")]


@pytest.mark.parametrize(
    ("renderings", "passes", "bound"),
    [
        # Each asks for something else, and gets nothing.
        ([lacking(f"{SCRIPT}?{number}") for number in range(4)], 4, "passes"),
        ([chain(number) for number in range(16)], 16, "passes"),
        # A list that grows without end where its end is seen.
        ([chain(0, late=1), chain(1, late=1)], 2, "window"),
        ([chain(0), chain(1, late=1), chain(2, late=1)], 3, "window"),
    ],
)
def test_a_page_that_goes_on_ends_at_a_bound(rig, renderings, passes, bound):
    rig, page = answered(rig, *renderings)
    assert (page.html, page.passes) == ("<p>part", passes)
    assert page.refusals == [(f"{SCRIPT}?{passes - 1}", bound)]
    assert rig.counted.count(f"render/bound/{bound}") == 1


def test_a_page_that_was_finished_before_a_crash_is_deleted(rig):
    first = rig(Rendering("settled", "<p>"))
    first.work()
    first.passes.close()
    second = rig(finished=(PAGE.url, 1))
    assert (second.html, second.passes.has_ready) == ("<p>", True)
    second.passes.close()
    third = rig(finished=(PAGE.url, key(PAGE)))
    assert (third.html, third.passes.has_ready) == (None, False)
    assert [*third.passes.store.pages()] == []


def test_waiting_ends_in_time_with_what_there_is(rig, clock):
    rig = rig(lacking(SCRIPT), lacking(SCRIPT))
    rig.work()
    clock.advance(99)
    rig.work()
    assert rig.html is None
    clock.advance(1)
    rig.work()
    assert rig.html == "<p>part"


def test_the_result_of_a_pass_is_not_that_of_the_page_fetched_again_meanwhile(rig):
    rig = rig(Rendering("settled", "<p>old"), Rendering("settled", "<p>new"))
    ends = {"<p>old": Event(), "<p>new": Event()}
    worker = rig.passes._workers[0]
    render = worker.render

    def render_and_wait(page):
        rendering = render(page)
        ends[rendering.html].wait(10)
        return rendering

    worker.render = render_and_wait
    rig.passes.work()
    again = replace(PAGE, attempts=1)
    rig.passes.keep(again, b"<p>fetched again")
    rig.passes.work()
    first = next(iter(rig.passes._running))
    ends["<p>old"].set()
    first.result()
    rig.passes.work()
    assert rig.passes.rendered_page(again) is None
    ends["<p>new"].set()
    rig.work()
    assert rig.passes.rendered_page(again).html == "<p>new"


def test_a_page_that_crashes_its_engine_twice_counts_as_it_was_fetched(rig):
    rig = rig(Rendering("crashed"), Rendering("crashed"))
    rig.work()
    assert rig.html == ""
    assert rig.counted.count("render/failed") == 1


def test_shells_are_candidates_and_documents_are_not():
    words = b"word " * 200
    assert outline_of(b"<script src=/a1.js></script><div id=app></div>").is_candidate
    assert not outline_of(b"<p>short").is_candidate
    assert not outline_of(b"<script src=a.js></script><p>" + words).is_candidate
    shell = outline_of(b"<script src=/a1.js?_=1></script><noscript>" + words + b"</noscript>")
    assert (shell.words, shell.scripts) == (0, 1)
    assert shell.shape == outline_of(b"<p>x<script src=/a2.js?_=2></script>").shape
    assert shell.is_gain(outline_of(b"<a href=/x>x</a>"))
    assert not shell.is_gain(Outline(10, 0, 1, 1))
    assert outline_of(b"<script>" * 200_000 + b"<a href=" * 10).links == 0


@pytest.fixture
def choice(rig, tmp_path):
    """Makes a choice by settings and the text of HOSTS_POLICY_FILE, for pages that ask much."""

    def make(hosts="", **given):
        (tmp_path / "hosts.toml").write_text(hosts)
        (tmp_path / "hosts.toml").chmod(0o600)
        settings = Settings()
        settings.setmodule("webcrawl.settings")
        settings.setdict({"HOSTS_POLICY_FILE": tmp_path / "hosts.toml", **given})
        rules = HostRules.from_settings(settings)
        rules.open()
        made = rig(lacking(*(f"http://a.test/{number}.js" for number in range(150))))
        return RenderChoice(
            settings=RenderSettings.from_settings(settings),
            rules=rules,
            passes=made.passes,
            requests=made.requests,
            stats=StatsCollector(get_crawler()),
        )

    return make


SHELL = b"<div id=app></div><script src=/app.js></script>"


def shape(choice, url="http://a.test/", body=SHELL):
    page = Page(url=url, status=200, headers=[], body=body, wire_body=body, fetched_at=0.0)
    page.content_type = "text/html"
    return choice.shape_of(page)


@pytest.mark.parametrize("mode", ["auto", "all"])
def test_scripts_and_data_take_at_most_their_share_of_the_requests_of_a_domain(choice, mode):
    choice = choice(RENDER=mode, RENDER_SHARE=0.2)
    assert shape(choice) is not None
    work(choice.passes)
    counter = _counter(choice, "a.test")
    assert (counter.requested, choice.requests.sent) == (150, 150)  # 100 are free
    choice.stats.set_value("contacts", 1000)
    counter.pages = 249
    for url in ("http://a.test/", "http://www.a.test/"):
        assert shape(choice, url) is None
    assert choice.stats.get_value("render/skipped") == 2
    assert shape(choice, "http://b.test/") is not None
    counter.pages = 250
    assert shape(choice) is not None


def test_with_auto_a_domain_has_only_its_share_once_the_crawl_is_over_its_own(choice):
    choice = choice(RENDER="auto", RENDER_SHARE=0.2)
    choice.requests.sent = 150
    counter = _counter(choice, "b.test")
    counter.requested, counter.pages = 10, 50
    choice.stats.set_value("contacts", 249)
    assert shape(choice, "http://b.test/")
    counter.requested = 11
    assert shape(choice, "http://b.test/") is None
    choice.stats.set_value("contacts", 250)
    assert shape(choice, "http://b.test/")


def _counter(choice, domain):
    return choice.requests.shards.of("").hosts.records.domains.find(domain)


def test_each_domain_that_waits_has_an_entry_and_no_other_has_two(rig):
    rig = rig(*[lacking(DATA)] * 5, Rendering("settled", "<p>"))
    for url in ("http://a.test/2", "http://b.test/1", "http://www.b.test/2", "http://c.test/"):
        rig.passes.keep(Entry(url, url.split("/")[2]), b"<p>")
    rig.work()
    rig.work()
    pages = ["http://a.test/", "http://b.test/1", "http://c.test/"]
    assert [(entry.url, entry.via) for entry in rig.entries] == [(DATA, page) for page in pages]
    assert rig.requests.sent == 1
    assert {rig.records.domains.find(f"{one}.test").requested for one in "bc"} == {0}
    rig.passes.resume()
    assert len(rig.entries) == 3
    again = requests_to(rig.entries, rig.passes.store.path.with_name("again"))
    rig.passes._submit = again.submit
    rig.passes.resume()  # as another process does
    assert [entry.via for entry in rig.entries[3:]] == pages


@pytest.mark.parametrize(
    ("render", "shapes"),
    [
        # The shape of a shell and of a document, on a host with and without a table.
        ("0", {"a.test": (None, None), "b.test": (True, None)}),
        ("auto", {"a.test": (True, None), "b.test": (0, 0)}),
        ("all", {"a.test": (0, 0), "b.test": (True, None)}),
    ],
)
def test_a_table_of_a_host_says_whether_its_pages_are_rendered(choice, render, shapes):
    usual = "all" if render == "auto" else "auto"
    choice = choice(f'["a.test"]\nrender = "{render}"\n', RENDER=usual)
    _check(choice, shapes)


def test_a_table_for_all_hosts_leaves_rendering_to_a_few(choice):
    choice = choice('["*"]\nrender = "0"\n["a.test"]\nrender = "all"\n', RENDER="auto")
    _check(choice, {"a.test": (0, 0), "www.a.test": (0, 0), "b.test": (None, None)})


def _check(choice, shapes):
    for host, expected in shapes.items():
        found = [shape(choice, f"http://{host}/", body) for body in (SHELL, b"<p>text")]
        assert tuple(one and bool(one) for one in found) == expected
