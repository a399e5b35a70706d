"""The project under a real scrapyd: deployed, scheduled, cancelled, resumed."""

import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from crawling import ROOT, USER_AGENT, clean_web, damage_in, wait_until
from scrapyd_server import ScrapydServer
from web_truth import allowed_urls

import webcrawl

MODULE = """
class Mine:
    def process_item(self, page):
        raise KeyError("a bug of mine")
"""
DEPLOY = Path(sys.executable).with_name("scrapyd-deploy")
MARKER = r"(?:; ([^#]*[^# ]))?"
PIN = re.compile(rf"^([\w.-]+)==([\w.]+){MARKER}", re.MULTILINE)
RANGE = re.compile(rf"([\w.-]+)>=([\w.]+)(?:,<([\w.]+))?{MARKER}")
# Packages whose private names are used: of the last two by webcrawl/net/http/tls.py.
BOUNDED = {"scrapy", "pyopenssl", "cryptography"}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A checkout with what a user leaves in it."""
    directory = tmp_path_factory.mktemp("project")
    for name in ("webcrawl", "seeds"):
        shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("*.csv"))
    shutil.copytree(ROOT / "docs/howto", directory / "docs/howto")
    requirements = (path.name for path in ROOT.glob("requirements*.in"))
    for name in ("setup.py", "scrapy.cfg", "pyproject.toml", "README.md", "LICENSE", *requirements):
        shutil.copy(ROOT / name, directory)
    for name in ("crawls", "tests", "build"):
        (directory / name).mkdir(exist_ok=True)
        (directory / name / "__init__.py").touch()
    (directory / "mine.py").write_text(MODULE)
    return directory


@pytest.fixture(scope="module")
def scrapyd(project, tmp_path_factory):
    """A daemon that has the project."""
    daemon = ScrapydServer(tmp_path_factory.mktemp("scrapyd"))
    try:
        daemon.wait_until_up()
        cfg = project / "scrapy.cfg"
        cfg.write_text(cfg.read_text().replace("http://localhost:6800/", daemon.url))
        done = subprocess.run([DEPLOY], cwd=project, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["spiders"] == 2
        yield daemon
    finally:
        daemon.stop()


def numbers(version):
    return [*map(int, re.findall(r"\d+", version))]


def data_files():
    """The files of the package that are not Python."""
    return {
        str(path.relative_to(ROOT))
        for path in ROOT.glob("webcrawl/**/*.*")
        if path.suffix != ".py" and path.parent.name != "__pycache__"
    }


@pytest.mark.long
def test_the_egg_holds_the_package_and_the_user_s_modules(scrapyd, project):
    (egg,) = scrapyd.directory.glob("eggs/webcrawl/*.egg")
    packed = zipfile.ZipFile(egg)
    names = [name for name in packed.namelist() if not name.startswith("EGG-INFO/")]
    modules = {name for name in names if name.endswith(".py")}
    paths = [*project.glob("webcrawl/**/*.py"), project / "mine.py"]
    assert modules == {str(path.relative_to(project)) for path in paths}
    assert {name for name in names if not name.endswith((".py", ".pyc"))} == data_files()
    # pip installs by the same metadata.
    assert f"\nVersion: {webcrawl.__version__}\n" in packed.read("EGG-INFO/PKG-INFO").decode()
    assert "scrapy<2.20,>=2.19\n" in packed.read("EGG-INFO/requires.txt").decode()


def test_the_wheel_and_the_source_hold_the_package_and_nothing_of_the_user_s(project, tmp_path):
    copy = tmp_path / "project"  # a build leaves files in it
    # Those of an egg name the user's modules; a release is built of a clone without them.
    shutil.copytree(project, copy, ignore=shutil.ignore_patterns("*.egg-info"))
    for kind in ("bdist_wheel", "sdist"):
        command = [sys.executable, "setup.py", "-q", kind, "--dist-dir", tmp_path]
        subprocess.run(command, cwd=copy, check=True, capture_output=True)
    package = {str(path.relative_to(ROOT)) for path in ROOT.glob("webcrawl/**/*.py")} | data_files()
    assert "webcrawl/render/scripts/snapshot.js" in package
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    packed = {name for name in names if ".dist-info/" not in name}
    guides = {f"webcrawl_docs/{path.name}" for path in ROOT.glob("docs/howto/*.md")}
    assert packed == package | {"webcrawl_seeds/refresh.py"} | guides
    (source,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = [path.name.partition("/")[2] for path in archive if path.isfile()]
    beside = {
        "seeds/refresh.py",
        "setup.py",
        "setup.cfg",
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "PKG-INFO",
    }
    sources = {f"docs/howto/{path.name}" for path in ROOT.glob("docs/howto/*.md")}
    assert {name for name in names if ".egg-info/" not in name} == package | beside | sources


def test_the_package_names_what_is_pinned_and_allows_those_versions():
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for ranges, file in (
        (named["dependencies"], "requirements.in"),
        (named["optional-dependencies"]["modules"], "requirements-modules.in"),
    ):
        text = (ROOT / file).read_text().replace('"', "'")
        pins = {name: [version, marker] for name, version, marker in PIN.findall(text)}
        found = [RANGE.fullmatch(each).groups() for each in ranges]
        allowed = {name: rest for name, *rest in found}
        assert allowed.keys() == pins.keys()
        for name, (lowest, above, marker) in allowed.items():
            assert numbers(lowest) <= numbers(pins[name][0]), name
            assert (marker or "") == pins[name][1]
            # Bounds above are for packages whose private names are used.
            assert bool(above) == (name in BOUNDED), name
            assert not above or numbers(pins[name][0]) < numbers(above)


@pytest.mark.long
def test_jobs_that_cannot_start_say_so_in_their_logs(scrapyd, web):
    reasons = {
        "many": ({"CONCURRENT_REQUESTS": "many"}, "CONCURRENT_REQUESTS must be a"),
        "loud": ({"LOG_LEVEL": "LOUD"}, "LOG_LEVEL must be "),
        "slip": ({"POLITENESS_MIM_DELAY": 1}, "There is no setting POLITENESS_MIM"),
    }
    for job, (settings, _) in reasons.items():
        modules = {"ITEM_PIPELINES": '{"mine.Mine": 1}'}
        scrapyd.schedule(job, seeds="x", web=web[0], **modules, **settings)
    for job, (_, sentence) in reasons.items():
        scrapyd.wait_for_end(job)
        assert f"ERROR: webcrawl: {sentence}" in scrapyd.log(job)
        assert "Traceback" not in scrapyd.log(job)


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    directory = tmp_path_factory.mktemp("simweb")
    with clean_web(directory, hosts=8, mean_pages=3.0, max_pages=6) as (web, seeds):
        yield web, seeds


@pytest.mark.long
def test_two_jobs_side_by_side_of_which_one_is_cancelled_and_resumed(scrapyd, web):
    simulated, seeds = web
    scrapyd.schedule("one", seeds=seeds, web=simulated)
    scrapyd.schedule("two", seeds=seeds, web=simulated, ITEM_PIPELINES='{"mine.Mine": 1}')
    wait_until(lambda: scrapyd.finished("one") and scrapyd.finished("two"))
    scrapyd.cancel("one")
    scrapyd.wait_for_end("one")
    cancelled = scrapyd.log("one")
    for line in ("Crawl state saved (shutdown)", "end  stopped by a signal", "Spider closed (shut"):
        assert line in cancelled
    # The same name is the same job.
    scrapyd.schedule("one", seeds=seeds, web=simulated)
    scrapyd.wait_for_end("one", runs=2)
    scrapyd.wait_for_end("two")
    assert "/crawls/one; URLs waiting" in scrapyd.log("one")
    for job in ("one", "two"):
        assert "end  finished: nothing is left to fetch" in scrapyd.log(job)
        assert damage_in(scrapyd.directory / "crawls" / job) == []
    assert "KeyError: 'a bug of mine'" in scrapyd.log("two")
    one, two = scrapyd.finished("one"), scrapyd.finished("two")
    assert sorted(one) == sorted(two)
    assert len(one) == len(set(one))
    assert allowed_urls(simulated.world, USER_AGENT) <= set(one)
