"""Values of the wrong kind in options and arguments of commands: one sentence, before the job."""

import argparse
import functools
import importlib
import os
import pkgutil
import re

import pytest
import warm
from scrapy.settings import Settings
from text_tables import each, table

import webcrawl.commands
from webcrawl.jobs import arguments

# The options of webcrawl's commands that take a value, with its kind.
OPTIONS = """
    control --reason          | text
    dataset --output          | directory
    dataset --near-duplicates | choice
    delta --since             | since
    delta --output            | output
    frontier --hosts          | count
    frontier --export         | output
    frontier --retry          | outcome
    frontier --refetch        | pages
    frontier --due            | urls
    hive --drones             | number
    hive -a                   | text
    hive --timeout            | duration
    identity --address        | network
    identity --mail           | mail
    job --checkpoint          | count
    pagerank --output         | output
    politeness-audit --key    | choice
    politeness-audit --delay  | duration
    politeness-audit --top    | count
    purge --host              | host
    purge --url               | url
    purge --list              | rules
    queue-build --queue       | text
    queue-build --seeds       | text
    rehearse --seed           | count
    rehearse --contacts       | positive
    rehearse --directory      | directory
    replay --submit           | job
    replay --from             | count
    replay --output           | directory
    report --bundle           | output
    report --csv              | directory
    report --output           | output
    search --limit            | positive
    search --offset           | count
    simweb --hosts            | number
    simweb --seed             | number
    simweb --profile          | choice
    simweb --http-port        | port
    simweb --https-port       | port
    simweb --dns-port         | port
    simweb --access-log       | directory
    simweb --seeds-file       | directory
    simweb --seconds          | duration
    simweb --world            | assignment
    urltrace --popular        | output
    wacz --output             | output
"""
_COUNTS = ["-1", "1.5", "many", "", str(10**30)]
_FILES = ["{dir}/missing", "{dir}/file/below", "{dir}/pipe", "{dir}"]
# Values that are not of a kind; those of the kinds that are not here have no wrong value, or one
# that only the command itself can know.
WRONG = {
    "host": ["a b", "", "http://a.test/", "a.test:80", "[::1]:80", "a..test", "x" * 300, "\x1b[1m"],
    "url": ["a.test", "/a://b/", "http://", "not-a-url", ""],
    "mail": ["nomail", "<a@a.test>", "a@b", "a@a.test, b@a.test", ""],
    "network": ["here", "1.2.3", "10.0.0.1/8", "10.0.0.0/99", ""],
    "outcome": ["dns_faild", "http_200", "http_999", "http_4xx", "dns_failed,,", ""],
    "duration": ["-1", "soon", "nan", "inf", "1e308", "7 dogs", ""],
    "since": ["yesterday", "7 dogs", "1e308", "2026-13-01", "@", ""],
    "pages": ["yesterday", "www.a.test/*", ""],
    "count": _COUNTS,
    "positive": ["0", *_COUNTS],
    "number": ["1.5", "many", ""],
    "port": ["-1", "65536", "http", ""],
    "choice": ["other", ""],
    "assignment": ["nonsense", "hosts=many"],
    "input": _FILES,
    "rules": [*_FILES, "{dir}/empty", "{dir}/garbage"],
    "urls": [*_FILES, "{dir}/empty", "{dir}/garbage"],
    "output": ["{dir}", "{dir}/missing/file", "{dir}/file/below", "x" * 300 + "/x"],
}
# What commands want besides the option.
MORE = {
    "hive": ["status"], "job": ["restore"], "identity": ["show"], "larm": [], "search": ["word"],
    "rehearse": ["--", "crawl", "web", "-a", "seeds=a.test"], "simweb": ["--seconds", "0"],
    "wacz": [], "urltrace": ["missing"],
}  # fmt: skip
ROWS = [(*option.split(), kind) for option, kind in table(OPTIONS)]


@pytest.fixture
def files(tmp_path):
    """A directory with files that no command can use."""
    (tmp_path / "file").write_text("a.test\n")
    (tmp_path / "empty").touch()
    (tmp_path / "garbage").write_bytes(bytes(range(256)) * 3)
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def refusal(*words, directory):
    """What the command in *words* says, for a job that does not exist."""
    run = warm.scrapy(
        *words,
        *("-s", f"JOBDIR={directory}/nojob"),
        env={**os.environ, "SCRAPY_SETTINGS_MODULE": "webcrawl.settings"},
        cwd=directory,
    )
    assert run.returncode == 2, (words, run)
    # These count what is before the damage of a file.
    assert run.stdout == "" or words[0] in {"replay", "wacz", "queue-build"}
    assert "Traceback" not in run.stderr
    # One sentence, after the usage or the log.
    begins = re.compile(rf"(webcrawl|{words[0]}|\S+: error): ")
    lines = [line for line in run.stderr.splitlines() if begins.match(line)]
    assert len(lines) == 1, (words, run.stderr)
    assert "There is no crawl" not in lines[0], (words, run.stderr)
    assert "\x1b" not in run.stderr
    return lines[0]


@functools.cache
def options():
    """The options of webcrawl's own commands, by whether they take a value."""
    found = {True: set(), False: set()}
    for module in pkgutil.iter_modules(webcrawl.commands.__path__):
        command = importlib.import_module(f"webcrawl.commands.{module.name}").Command()
        if command.requires_crawler_process:
            continue  # one of Scrapy's
        command.settings = Settings()
        parser = argparse.ArgumentParser(conflict_handler="resolve")
        command.add_options(parser)
        title = f"{module.name.capitalize()} options"
        (group,) = (one for one in parser._action_groups if one.title == title)
        for action in group._group_actions:
            found[action.nargs != 0].add((module.name, action.option_strings[-1]))
    return found


def test_every_option_has_a_row():
    assert {row[:2] for row in ROWS} == options()[True]


# Uses of a command in which an option of it would have no effect.
WITHOUT_EFFECT = """
    hive status --drones 2                      | --drones has no effect with status
    hive stop -a seeds=x                        | -a has no effect with stop
    hive status --timeout 3                     | --timeout has no effect with status
    hive --drones 2 web --timeout 3             | --timeout has no effect with drones
    hive stop --json                            | --json has no effect with stop
    identity show --mail a@a.test               | --mail has no effect with show
    identity check --rotate                     | --rotate has no effect with check
    identity check https://a.test --address ::1 | --address has no effect with check URL
    control pause --with-aliases                | --with-aliases is for exclude
    job check --checkpoint 1                    | --checkpoint for restore
    job restore --warc                          | --warc is for check
    frontier --hosts 3 --export x               | use only one of --hosts, --export
    frontier --export x --retry dns_failed      | use only one of
    frontier --due - --refetch all              | use only one of
    search x --jsonl --json                     | --json has no effect with --jsonl
"""
# Options that have an effect in each use of their command; old names and those that say what a
# drop or a deletion does are among them.
ALWAYS = """
    control: --json --reason --yes; dataset: --near-duplicates --output; delta: --output --since;
    frontier: --json;
    job: --json; pagerank: --output --pages; politeness-audit: --delay --json --key --top;
    purge: --dry-run --host --list --url --with-aliases; queue-build: --json --queue --seeds;
    rehearse: --contacts --directory --seed; replay: --from --output --submit;
    report: --bundle --csv --json --output;
    search: --explain --jsonl --limit --offset --rank;
    simweb: --access-log --dns-port --hosts --http-port --https-port --profile --seconds --seed
    --seeds-file --world; urltrace: --json --popular; wacz: --output; why: --json
"""


def test_every_option_has_an_effect_or_a_row():
    always = set()
    for part in ALWAYS.split(";"):
        command, _, names = part.partition(":")
        always |= {(command.strip(), name) for name in names.split()}
    lines = [line.split() for line, _ in table(WITHOUT_EFFECT)]
    named = {(words[0], word) for words in lines for word in words if word.startswith("-")}
    every = options()[True] | options()[False]
    assert always <= every
    assert named - {("frontier", "-")} >= every - always


@each("line sentence", *table(WITHOUT_EFFECT))
def test_an_option_without_effect_is_refused(files, line, sentence):
    assert sentence in refusal(*line.split(), directory=files)


@each("command option kind", *(row for row in ROWS if row[2] in WRONG))
def test_a_value_of_the_wrong_kind_is_a_sentence(files, command, option, kind):
    first = next(row for row in ROWS if row[2] == kind)
    # All values of a kind with one option of it, and one of them with each other.
    for value in WRONG[kind] if first == (command, option, kind) else WRONG[kind][:1]:
        wrong = value.format(dir=files)
        said = refusal(command, f"{option}={wrong}", *MORE.get(command, ()), directory=files)
        shown = [option, repr(wrong), wrong[:40] or option, "The list has no URLs"]
        assert any(text in said for text in shown), (wrong, said)


@each("command option kind", *(row for row in ROWS if row[2] not in WRONG))
def test_other_kinds_take_any_text_or_are_known_to_the_command_alone(command, option, kind):
    assert kind in {"text", "directory", "job"}, (command, option)


ARGUMENTS = """
    why :::                              | ':::' is not a host
    why a..b                             | 'a..b' is not a host
    why http://                          | 'http://' is not a URL
    why http://[::1                      | is not a URL
    larm {dir} not-a-url                 | 'not-a-url' is not a URL
    larm {dir} http://a.test/            | store.log
    larm {dir}/pipe http://a.test/       | store.log
    identity check a.test                | 'a.test' is not a URL
    identity check http://a.test/        | is not an https URL
    fetch not-a-url                      | give one URL
    view not-a-url                       | give one URL
    parse --spider=web not-a-url         | give one URL
    control exclude a/b                  | 'a/b' is not a host
    control slower a.test soon           | times
    control slower a.test 1e308          | times
    control set SHUTDOWN_GRACE 1         | SHUTDOWN_GRACE cannot be changed
    control free a.test reason           | reason
    identity contact-page {dir}/pipe     | cannot be written
    identity contact-page {dir}          | cannot be written
    control seeds a@b                    | neither a domain nor a URL
    control refetch older-than soon      | is not an age
    control refetch older-than 7         | is not an age
    control refetch not-a-url            | 'not-a-url' is not a URL
    control due                          | length >= 1
    control reload HOSTS                 | setting
    urltrace {file}                      | {file}
    politeness-audit --delay 1 {file}    | {file}
    replay {bare}                        | {file}
    wacz -o x.wacz {file}                | {file}
    queue-build --queue q {file}         | {file}
    queue-build --queue q --seeds {file} | {file}
    crawl web -a seeds={file}            | {file}
"""


@each("line sentence", *table(ARGUMENTS))
def test_an_argument_of_the_wrong_kind_is_a_sentence(files, line, sentence):
    names = ["missing", "empty", "garbage", "file/below", "pipe", "directory"]
    (files / "directory").mkdir()
    if "{bare}" in line:  # what is damaged is in the log
        line = line.replace("{bare}", "{file}")
        names.remove("garbage")
    for name in names if "{file}" in line else names[:1]:
        path = files / name
        words = [word.format(dir=files, file=path) for word in line.split()]
        assert sentence.format(file=path) in refusal(*words, directory=files)


SETTINGS = """
    EXCLUSION_FILE HOSTS_POLICY_FILE RANKS_FILE URL_HOST_RULES_FILE SUFFIX_LIST_FILE
    TRAP_EXCEPTIONS_FILE HOSTS_FILE CRAWLER_KEY_FILE SEEN_CACHE
"""


@each("name", *SETTINGS.split())
def test_a_file_of_a_setting_that_cannot_be_read_is_a_sentence(files, name):
    for wrong in ("missing", "pipe"):
        path = f"{'static:' * (name == 'SEEN_CACHE')}{files / wrong}"
        said = refusal(
            "crawl", "web", "-a", "seeds=a.test", "-s", f"{name}={path}", directory=files
        )
        assert str(files / wrong) in said


# Settings whose type their default does not tell, with a value of another type and, where they need
# it, the part of the crawl that reads them. Others take any text.
OTHER_SETTINGS = """
    CRAWLER_CONTACT=nobody         |
    CRAWLER_NAME=a/b               |
    CRAWL_PURPOSE=fun              |
    DNS_SERVERS=ns.test            |
    GOPHER_PORTS=x                 |
    LINK_KINDS=nonsense            |
    NET_KEEPALIVE_CONNECTIONS=many |
    PAGE_MAX_BYTES=many            |
    POLITENESS_DELAY_FACTOR=many   |
    POLITENESS_KEY=nonsense        |
    POLITENESS_LONG_CRAWL_DELAY=x  |
    POLITENESS_MAX_DELAY=many      |
    POLITENESS_MIN_DELAY=many      |
    POLITENESS_PROFILE=nonsense    |
    RIGHTS_POLICY=nonsense         | CRAWL_PURPOSE=search
    SEEN_BUFFER_SIZE=many          |
    SEEN_CACHE=nonsense            |
    SEEN_CACHE_SIZE=many           |
    URL_PORTS=x                    |
    URL_REFUSE=(                   |
    URL_RESTRICT_TO=(              |
    URL_SCOPE=nonsense             |
"""


@each("setting part", *table(OTHER_SETTINGS))
def test_a_setting_of_another_type_ends_a_crawl_before_it_begins(files, setting, part):
    words = [word for text in (setting, part) if text for word in ("-s", text)]
    said = refusal("crawl", "web", "-a", "seeds=file", *words, directory=files)
    name = setting.partition("=")[0]
    assert name in said


@each("reader text value", *(
    (arguments.host, " B\u00fccher.example. ", "xn--bcher-kva.example"),
    (arguments.host, "[2001:DB8::9]", "2001:db8::9"),
    (arguments.host, "192.0.2.9", "192.0.2.9"),
    (arguments.url, " HTTP://A.test", "http://a.test/"),
    (arguments.duration, "1.5h", 5400.0),
    (arguments.duration, "90", 90.0),
    (arguments.age, "7d", 604_800.0),
    (arguments.whole(0, 9), " 9 ", 9),
    (arguments.mail, "a@a.test", "a@a.test"),
    (arguments.network, "10.0.0.0/8", "10.0.0.0/8"),
))  # fmt: skip
def test_readers_return_values(reader, text, value):
    assert reader(text) == value


def test_a_wrong_value_is_shortened():
    with pytest.raises(arguments.WrongValueError) as caught:
        arguments.host("x y" * 10_000)
    assert re.fullmatch(r"'[xy ]{200}' is not a host .*\.", str(caught.value))
