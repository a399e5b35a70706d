"""Advice in messages: each is carried out in the state that printed it, and cures it.

The advice is listed from the code: sentences that tell the user to do something. Each has a row in
data/advice.toml, or a test with the mark ``cures``.
"""

import ast
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import warm
from command_lines import is_setting, parser_of
from crawling import crawl_command, finish, simulated
from patience import LIMIT_SECS
from redis_server import RedisServer, free_port
from text_tables import each

from webcrawl.doctor.diagnosis import ADVICE

SIGNATURE = "-s CRAWLER_SIGNATURE_AGENT=https://bot.example.org"
ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
ROWS = tomllib.loads((TESTS / "data/advice.toml").read_text(encoding="utf-8"))
_VERBS = (
    "add|allow|ask|change|check|choose|continue|copy|correct|delete|end|fix|free|give|increase|"
    "install|keep|leave out|let|lower|make|move|name|put|raise|remove|rename|repair|restore|run|"
    "set|shorten|split|start|stop|try|use|wait|write"
)
# A sentence, or a part of one, that begins with such a verb.
_IS_ADVICE = re.compile(rf"(?:[:;.,] |, or |, and |^)(?:{_VERBS}) ", re.IGNORECASE).search
# What begins like advice, and is none: descriptions of options and commands, SQL, names.
_DESCRIBES = {"help", "syntax", "example", "epilog", "undo", "line", "ends"}
_IS_OTHER = re.compile(
    r"\s*(?:select|PRAGMA|FROM|SET memory|set memory|set \{name|unset|end (?:\(|in|between)|"
    r"Give (?:them|these|up)|free disk|give it up|name servers$|name service|write the changes|"
    r"\(restart|"
    r"The crawler follows robots|webcrawl does not run on|"
    r"DELETE FROM|rowid|start over$|not reached, because)",
).match


def text_of(node):
    """The text of a literal as ``"a {} b"``; None for anything else."""
    match node:
        case ast.Constant(value=str(text)):
            return re.sub(r"%[srd]", "{}", text)
        case ast.JoinedStr(values=parts):
            return "".join(text_of(part) for part in parts)
        case ast.FormattedValue(value=ast.Name(id="COMMAND")):
            return "scrapy"
        case ast.FormattedValue():
            return "{}"
    return None


def texts_in(tree):
    """The literals of a module that users may read: not docstrings and descriptions."""
    if isinstance(tree, ast.keyword) and tree.arg in _DESCRIBES:
        return
    text = text_of(tree)
    if text is not None:
        yield text
        return
    for child in ast.iter_child_nodes(tree):
        is_docstring = isinstance(child, ast.Expr) and text_of(child.value) is not None
        if not is_docstring:
            yield from texts_in(child)


def advice_in_the_code():
    for path in sorted((ROOT / "webcrawl").rglob("*.py")):
        if "simweb" in path.parts or path.name == "table.py":
            continue
        for text in texts_in(ast.parse(path.read_text(encoding="utf-8"))):
            if " " in text and _IS_ADVICE(text) and not _IS_OTHER(text):
                yield text


ALL = sorted({*advice_in_the_code(), *ADVICE.values()})


def marked():
    """The sentences that the marks ``cures`` of all tests name."""
    for path in TESTS.rglob("test_*.py"):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if ".cures(" in source else ():
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "cures":
                yield from map(ast.literal_eval, node.args)


CURED = {*ROWS, *marked()}


def test_each_advice_in_the_code_is_carried_out():
    assert len(ALL) > 150
    assert [text for text in ALL if not any(name in text for name in CURED)] == []


def test_each_row_is_about_advice_in_the_code():
    assert [name for name in CURED if not any(name in text for text in ALL)] == []


@each("text", *ALL)
def test_commands_and_settings_in_advice_exist(text):
    for name in re.findall(r"\b[A-Z][A-Z]+_[A-Z_]+\b", text):
        assert is_setting(name), name
    for command, words in re.findall(r"\bscrapy ([a-z][a-z-]+)([^:;.,]*)", text):
        if "Scrapy project" not in text:
            known = parser_of(command).format_help()
            assert [word for word in words.split() if word[:2] == "--" and word not in known] == []
    for page in re.findall(r"docs/[\w./-]+\.md", text):
        assert (ROOT / page).is_file()


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """What the rows name in angle brackets, and a crawl that has finished."""
    directory = tmp_path_factory.mktemp("advice")
    world = {"hosts": 2, "mean_pages": 3, "max_pages": 4, "errors": 0.0, "seed_share": 1.0}
    redis = RedisServer(tmp_path_factory.mktemp("redis"), port=True)
    with simulated(directory, **world) as web, redis:
        pipelines = '{"webcrawl.pipelines.warc.WarcPipeline": 1}'
        finish(web.command(ITEM_PIPELINES=pipelines))
        url = web.seeds.read_text().split()[0]
        words = crawl_command(web.web, web.seeds, "?")
        values = [word for word in words[words.index("-s") :] if word not in {"-s", "JOBDIR=?"}]
        yield {
            "job": str(web.job),
            "seeds": str(web.seeds),
            "access": str(web.log),
            "url": url,
            "port": str(free_port()),
            "redis": redis.tcp_url,
            "host": urlsplit(url).hostname,
            "ports": f"{web.world.http_port},{web.world.https_port}",
            "identity": f"-s CRAWLER_CONTACT=me@example.org -s CRAWL_PURPOSE=search {SIGNATURE}",
            "options": shlex.join(f"-s{value}" for value in (*values, "HIVE_SHARDS=4")),
        }


def substituted(word):
    """*word*, or what the shell command in its $(...) prints."""
    if "$(" not in word:
        return word
    done = subprocess.run(["sh", "-c", f"printf %s {word}"], stdout=subprocess.PIPE, check=True)
    return done.stdout.decode()


def carry_out(line):
    """Run *line* of a shell, of Scrapy or webcrawl; what it prints, and its exit code."""
    if line.startswith(("scrapy ", "webcrawl ")):
        module, *words = map(substituted, shlex.split(line))
        done = warm.run([sys.executable, "-m", module, *words])
    else:
        done = subprocess.run(
            ["sh", "-c", line], capture_output=True, text=True, timeout=LIMIT_SECS, check=False
        )
    return done.stdout + done.stderr, done.returncode


def pattern_of(name):
    """The words of the advice *name*, with anything where {} stands, and any line ends."""
    # A search for anything at the beginning would take long.
    fixed = re.sub(r"^(?:\{\}\W*)+", "", name)
    words = (re.escape(word).replace(r"\{\}", r".*?") for word in fixed.split())
    return re.compile(r"\s+".join(words), re.DOTALL)


@pytest.fixture(scope="module")
def hive(places):
    """The directory of a hive that has finished."""
    jobdir = f"{places['job']}-hive"
    words = f"web -a seeds={places['seeds']} {places['options']} -s JOBDIR={jobdir}"
    said, code = carry_out(f"scrapy hive --drones 1 {words}")
    assert code == 0, said
    return jobdir


@each(
    "name",
    *[  # each third in every run
        pytest.param(name, marks=[pytest.mark.long] * (at % 3 > 0)) for at, name in enumerate(ROWS)
    ],
)
def test_advice_cures_the_state_that_printed_it(name, places, tmp_path, request):
    row = ROWS[name]

    def fill(text):
        crawl = "crawl web -a seeds=<seeds> <options> -s JOBDIR=<dir>/crawl"
        text = text.replace("<crawl>", crawl).replace("<dir>", str(tmp_path))
        for key, value in places.items():
            text = text.replace(f"<{key}>", value)
        if "<hive>" in text:
            text = text.replace("<hive>", request.getfixturevalue("hive"))
        return text

    def do(lines, wanted=0):
        for line in [lines] if isinstance(lines, str) else lines:
            said, code = carry_out(fill(line))
            assert code == wanted, (line, said)

    def command_of(key):
        line = fill(row[key])
        return line if line.startswith("webcrawl ") else f"scrapy {line}"

    do(row.get("before", []))
    run = command_of("run")
    said, _ = carry_out(run)
    assert pattern_of(name).search(said), said

    do(row.get("cure", []), row.get("cure_code", 0))
    if "told" in row:
        command = re.search(row["told"], said)[1]
        do(f"{command} {row.get('add', '')}")
    said, code = carry_out(command_of("then") if "then" in row else run)
    if "again" in row:
        assert re.search(row["again"], said), said
    else:
        assert not pattern_of(name).search(said), said
    assert code == row.get("code", 0), said
