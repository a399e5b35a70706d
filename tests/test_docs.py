"""The documents: their tables, commands, files and links are those of the code."""

import ast
import pkgutil
import re
import shlex
from pathlib import Path

from command_lines import is_setting, parser_of
from scrapy.settings import default_settings
from scrapy.utils.project import get_project_settings
from text_tables import each

import webcrawl.settings as own_settings
from webcrawl.commands.crawl import EXIT_CODES
from webcrawl.configuration.memory_budget import TABLE, sizes
from webcrawl.hosts.politeness.delays import profile_of
from webcrawl.net.limits import FetchLimits

ROOT = Path(__file__).resolve().parents[1]
#: Where `make docs` builds its site.
BUILT = ROOT / "docs/_build"
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    if BUILT not in path.parents
}
FOLDERS = ("webcrawl", "tests", "benchmarks", "docs", "seeds")
FILES = {
    str(path.relative_to(ROOT))
    for path in [*ROOT.iterdir(), *(path for name in FOLDERS for path in (ROOT / name).rglob("*"))]
}
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def rows(page, head):
    """The cells of the table(s) in *page* whose first line begins with *head*."""
    for found in PAGES[page].split(head)[1:]:
        for line in found.partition("\n\n")[0].splitlines()[2:]:
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def number(cell):
    digits, _, unit = cell.replace(",", "").partition(" ")
    return float(digits) * UNITS.get(unit, 1)


# --- tables


def test_the_page_of_settings_has_each_setting_with_its_default():
    ours = {name: value for name, value in vars(own_settings).items() if name.isupper()}
    documented = {
        name.strip("`"): cell
        for name, cell, _ in rows("docs/reference/settings.md", "| setting | default |")
    }
    assert documented.keys() >= {
        name for name in ours if not (hasattr(default_settings, name) or name.endswith("_BASE"))
    }
    for name, cell in documented.items():
        value = (own_settings.web_spider | ours)[name]
        if value is None:
            value = standard()[name]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            simple = str(value) if isinstance(value, bool) else f"`{value}`"
            assert cell == simple or not value or isinstance(value, list), name
        else:
            assert number(cell) == value, name


def standard():
    """The values that settings of None have with the standard profile and memory budget."""
    settings = get_project_settings()
    profile = profile_of(settings)
    return sizes(settings) | {
        "POLITENESS_KEY": profile.key,
        "POLITENESS_DELAY_FACTOR": profile.factor,
        "POLITENESS_MIN_DELAY": profile.floor,
        "POLITENESS_MAX_DELAY": profile.ceiling,
        "PAGE_MAX_BYTES": FetchLimits.from_settings(settings).max_bytes,
    }


def test_the_page_of_settings_has_the_shares_of_the_default_budget():
    found = sizes(get_project_settings())
    table = rows("docs/reference/settings.md", "| what | share |")
    told = {
        re.search(r"`(\w+)`", name)[1]: [
            int(re.match(r"[\d,]+", cell)[0].replace(",", "")) for cell in cells
        ]
        for name, *cells in table
    }
    assert told == {name: [row.weight, row.unit, found[name]] for name, row in TABLE.items()}


def alike(one, other):
    """Whether they are one name, where *…* stands for any."""
    pairs = ((one, other), (other, one))
    return any(re.fullmatch(re.escape(a).replace("…", ".+"), b) for a, b in pairs)


def test_the_page_of_stats_has_each_stat_of_the_code():
    cells = (row[0] for row in rows("docs/reference/stats.md", "| stat |"))
    told = {name for cell in cells for name in re.findall("`(.+?)`", cell)}
    words = "|".join({name.partition("/")[0] for name in told if "/" in name})
    source = "".join(
        (ROOT / name).read_text(encoding="utf-8")
        for name in FILES
        if re.match(r"webcrawl/(?!simweb/).*\.py$", name)
    )
    literals = re.findall(rf'"((?:{words})/[a-z_/]*(?:\{{[^"]*\}})?[a-z_/]*)"', source)
    in_code = {re.sub(r"\{.*\}|(?<=/)$", "…", name) for name in literals}
    in_code.discard("warc/revisit")  # a media type
    assert [name for name in in_code if not any(alike(name, row) for row in told)] == []
    in_code.add("contacts")
    assert [row for row in told if not any(alike(name, row) for name in in_code)] == []


def test_the_page_of_exit_codes_has_each_code_of_a_crawl():
    page = PAGES["docs/reference/exit-codes.md"]
    codes = {int(code) for code in re.findall(r"^\| `?(\d)`? \|", page, re.MULTILINE)}
    assert codes == {0, *EXIT_CODES.values()}


def test_limits_of_scrapy_that_end_a_run_are_with_the_settings():
    limits = {name for name in dir(default_settings) if name.startswith("CLOSESPIDER_")}
    limits = {name for name in limits if not name.endswith("_NO_ITEM")} | {"MEMUSAGE_LIMIT_MB"}
    assert len(limits) == 5
    assert [name for name in limits if f"`{name}`" not in PAGES["docs/reference/settings.md"]] == []


# --- commands


def scrapy(words):
    options, arguments = parser_of(words[0]).parse_known_args(words[1:])
    assert not [word for word in arguments if word[:1] == "-" and word != "-"]
    for word in options.set:
        known_setting(word)


def settings(words):
    for word in words:
        if word != "-s":
            known_setting(word)


def known_setting(word):
    name, is_given, _ = word.partition("=")
    assert is_given, word
    assert is_setting(name), word


def script(words):
    path, *rest = words
    assert path in FILES
    text = (ROOT / path).read_text(encoding="utf-8")
    for word in rest:
        assert word[:2] != "--" or word in text, word


def make(words):
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    for word in words:
        if "=" in word:
            assert f"\n{word.partition('=')[0]} " in text
        else:
            assert f"\n{word}: " in text


def check_command(line):
    if re.match(r"-s |make |PYTHONPATH=. |(\S*\.venv/bin/)?(scrapy|webcrawl|python) ", line):
        words = shlex.split(line.removeprefix("PYTHONPATH=. "), comments=True)
        program = words.pop(0).rpartition("/")[2]
        checks = {"-s": settings, "make": make, "python": script}
        checks.get(program, scrapy)(words)


def test_workflows_run_targets_of_the_makefile():
    lines = "".join(path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml"))
    found = re.findall(r"(?m)^ *- (?:run: )?make (.+)$", lines)
    assert len(found) > 5
    for words in found:
        make(shlex.split(words))


def code_lines(page):
    """The lines of the code blocks of *page*, indented or fenced, with continuations joined."""
    text = re.sub(r"\\\n\s*", "", PAGES[page])
    fenced = re.findall(r"^ *```.*\n((?:.*\n)*?) *```$", text, re.MULTILINE)
    indented = re.findall(r"^ {4,}(\S.*)$", text, re.MULTILINE)
    return [*indented, *(line.strip() for block in fenced for line in block.splitlines())]


@each("page", *PAGES)
def test_each_command_of_a_page_can_be_parsed(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where the files are that the commands read
    for name in ("hosts.txt", "removed.txt"):
        Path(name).write_text("a.test\n", encoding="utf-8")
    for line in code_lines(page):
        for part in re.split(" && | -- ", line):
            check_command(part)
    text = re.sub(r"\\\n\s*", "", PAGES[page])
    for command in re.findall(r"`((?:scrapy|make) [^`]+)`", text):
        program, name, *words = command.split()
        if program == "make":
            make([name])
        else:
            options = parser_of(name).format_help()
            assert all(word in options for word in words if word[:2] == "--"), command


OWN_COMMANDS = sorted(path.stem for path in (ROOT / "webcrawl/commands").glob("[a-z]*.py"))
#: They are Scrapy's own, and run as Scrapy has them.
SCRAPYS = {"bench", "check", "fetch", "parse", "shell", "view"}


def test_the_page_of_commands_has_each_command_with_its_options():
    sections = dict(
        re.findall(
            r"^### scrapy ([\w-]+)\n(.*?)(?=^##|\Z)",
            PAGES["docs/reference/commands.md"],
            re.MULTILINE | re.DOTALL,
        )
    )
    assert sections.keys() == set(OWN_COMMANDS) - SCRAPYS
    shared = {"-h", "--help", *options_of(parser_of("list"))}
    for name, text in sections.items():
        documented = set(re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", "".join(spans(text))))
        options = options_of(parser_of(name)) - shared
        assert {word for word in options if word[:2] == "--"} - documented == set(), name


def options_of(parser):
    return {word for action in parser._actions for word in action.option_strings}


def spans(text):
    """The code in *text*: what stands between backticks, and indented lines."""
    return [f" {code} " for code in re.findall(r"(?m)`([^`]+)`|^    (.+)$", text) for code in code]


# --- files and links


@each("page", *PAGES)
def test_each_file_or_class_that_a_page_names_is_there(page):
    folders = "|".join(FOLDERS)
    named = re.findall(r"`([\w./-]+\.(?:py|md|toml|cfg))`", PAGES[page])
    named += re.findall(rf"`((?:{folders})/(?:[\w/-]+/)?)`", PAGES[page])
    for dotted in re.findall(r"\bwebcrawl(?:\.\w+)+", PAGES[page]):
        pkgutil.resolve_name(dotted)
    for name in named:
        assert any(f"/{file}".endswith(f"/{name.rstrip('/')}") for file in FILES), name


@each("page", *PAGES)
def test_each_link_of_a_page_leads_somewhere(page):
    for link in re.findall(r"\]\((?!https?:)(.+?)\)", PAGES[page]):
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def anchors(path):
    """The anchors that GitHub and MyST give to the headings of a page."""
    headings = re.findall("^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    spelled = (re.sub(r"[^\w -]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in spelled}


def test_each_page_is_on_the_map():
    linked = {
        (ROOT / "docs" / link.partition("#")[0]).resolve()
        for link in re.findall(r"\]\((?!https?:)(.+?)\)", PAGES["docs/README.md"])
    }
    pages = {(ROOT / page).resolve() for page in PAGES if page.startswith("docs/")}
    assert pages - linked - {ROOT / "docs/README.md"} == set()


NAMING = [
    path
    for name in ("webcrawl", "tests", "benchmarks", "deploy", "seeds", "examples", ".github")
    for path in (ROOT / name).rglob("*")
    if path.suffix in {".py", ".md", ".yaml", ".yml", ".service", ".tmpl", ".html", ".toml"}
]


def test_each_page_that_the_code_names_is_there():
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in [*NAMING, *ROOT.glob("*.md"), ROOT / "Makefile"]
        for name, anchor in re.findall(
            r"(?<![\w/.])(docs/[\w./-]+\.(?:md|svg|png))(?:#([\w-]+))?",
            path.read_text(encoding="utf-8"),
        )
        if not (ROOT / name).exists() or (anchor and anchor not in anchors(ROOT / name))
    ]
    assert missing == []


# --- docstrings

SOURCES = {path: path.read_text(encoding="utf-8") for path in (ROOT / "webcrawl").rglob("*.py")}
PACKAGES = {
    str(path.parent.relative_to(ROOT)): ast.get_docstring(ast.parse(source)) or ""
    for path, source in SOURCES.items()
    if path.name == "__init__.py"
}
CODE = {*re.findall(r"\w+", re.sub('""".*?"""', "", "".join(SOURCES.values()), flags=re.DOTALL))}
#: Names that are not of this code.
OTHERS = {"PageRank", "ReplayWeb", "TigerBeetle"}


@each("package", *PACKAGES)
def test_the_page_of_a_package_names_what_there_is(package):
    """Modules, files, settings, classes and functions."""
    page, folder = PACKAGES[package], ROOT / package
    for name in re.findall(r"[\w./-]+\.py\b", page):
        assert any(f"/{file}".endswith(f"/{name}") for file in FILES), name
    for dotted in re.findall(r"\bwebcrawl(?:\.\w+)+", page):
        pkgutil.resolve_name(dotted)
    for name in re.findall(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b", page):
        known_setting(f"{name}=")
    modules = "".join(re.findall(r"Modules: (.*?)(?:\n\n|$)", page, re.DOTALL))
    rooms = re.findall(r"(\w+) \(", modules)
    for listed in re.findall(r"^=+ +=+\n(.*?)\n=+ +=+$", page, re.DOTALL | re.MULTILINE):
        rooms += re.findall(r"^[a-z_]+(?=  )", listed, re.MULTILINE)
    for name in rooms:
        assert (folder / name).exists() or (folder / f"{name}.py").exists(), name
    names = {*re.findall(r"\b(?:[A-Z][a-z0-9]+){2,}\b", page)} - OTHERS
    spans = re.findall(r"(``?)([A-Za-z_][\w.]*)(?:\([^`]*\))?\1", page)
    names.update(name.rpartition(".")[2] for _, name in spans)
    assert names - CODE == set()
