"""The table of imports in docs/why/architecture.md, and where Scrapy's insides are touched."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import test_clock
import test_randomness
from conftest import starts_crawls
from text_tables import each, lines, words

ROOT = Path(__file__).parent.parent

# A room may import rooms of the floors above it in this list, and none of its own.
FLOORS = [
    set(words(floor))
    for floor in lines("""
        errors clock randomness settings signals wording
        urls
        configuration
        rights
        storage items identity states
        frontier seen net pipelines
        dupefilter hosts
        revisit
        crawl
        hive doctor render
        scheduler jobs
        control
        monitor
        spiders
        sim
        extensions commands
        __main__
    """)
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
# The same inside of rooms that have rooms; what lies beside these is above them all.
INSIDE = {
    "crawl": [
        {"seeds"},
        {"links"},
        {"engine"},
        {"job"},
        {"shard"},
        {"lease"},
        {"task"},
        {"figures"},
    ],
    "hive": [{"membership", "store"}, {"bus"}, {"launch"}],
}
# All other rooms are the core, which imports none of these, not even for types.
ADD_ONS = set(
    words("""
    hive control render pipelines jobs commands doctor monitor extensions sim simweb
""")
)
# Arrows upwards that are types only: SegmentQueue, Holding and Task.
TYPES_ONLY = {("seeds", "shard"), ("membership", "bus"), ("lease", "task")}
WITHOUT_SCRAPY = words("""
    storage urls frontier seen items crawl.seeds jobs.audit hosts.records hosts.budgets.traps
""")
# It makes traps of settings.
WITH_SETTINGS = {"hosts.budgets.traps.keeper"}
# What runs between a lease and the socket, and what writes to disks, the store and Redis.
WITHOUT_ASSERTS = {*words("crawl frontier hive hosts net scheduler seen storage")}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
ONLY_DOCSTRINGS = words("""
    crawl hosts jobs jobs.audit jobs.check jobs.inspect jobs.pagerank jobs.purge jobs.queue
    jobs.replay jobs.report jobs.wacz
""")
SCRAPY_SIDE = {"scrapy", "twisted", "redis", "scrapy_redis"}
# Names under which Scrapy's objects go.
SCRAPY_OBJECTS = words("""
    crawler _crawler engine _engine slot _slot scraper downloader spider request response stats
    signals
""")
TOUCH_PRIVATE_NAMES = {"crawl.engine._engine", "crawl.engine._fast_path"}

# Only configuration.decoding names these; `json.loads` reads settings in three more modules.
DECODERS = {
    *(f"msgspec.{form}.{name}" for form in ("json", "msgpack") for name in ("decode", "Decoder")),
    *("msgspec.DecodeError", "msgspec.MsgspecError", "json.loads"),
}
READ_SETTINGS = {"configuration.secrets", "crawl.job.saved_settings", "crawl.links.url_rules"}

# What all commands may load: small, and without other packages.
LOADED_BY_COMMANDS = {
    "webcrawl",
    *(
        f"webcrawl.{name}"
        for name in words("""
            settings errors clock wording crawl crawl.figures crawl.figures.counts crawl.engine
            crawl.engine.json_log crawl.engine.user_messages configuration configuration.values
            configuration.scrapys configuration.secrets configuration.setting_check
        """)
    ),
}

PERSONS = re.compile(r"\b(?:told|(?:no|some|any)body|who(?:ever|m)?|asks|knows)\b", re.IGNORECASE)
# zstd is in the one from Python 3.14 on, else in the other, a pin with a marker.
STANDARD_LIBRARY = sys.stdlib_module_names | {"compression", "backports"}
PLACES = (".", "tests", *map(str, (ROOT / "tests/rigs").glob("*/")), "benchmarks")
BASE, MODULES, DEV = (f"requirements{part}.in" for part in ("", "-modules", "-dev"))
PYWB = "tests/requirements-pywb.in"
DATASETS = "tests/requirements-datasets.in"
WEBSUB = "tests/requirements-websub.in"
PEERS = "benchmarks/requirements-peers.in"
DOCS = "requirements-docs.in"
PROVIDERS = functools.cache(packages_distributions)
PIN = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+(; [^#]+)? +# .+")
# Of code in texts of tests, too; one a line, says ruff.
IMPORT = re.compile(
    r"^ *(?:import (?=[\w.]+(?: as \w+)?(?: *#|$))|from (?=[\w.]+ import ))(\w+)", re.MULTILINE
)
LOCKED = re.compile(
    r"([a-z0-9-]+)==([a-z0-9.]+)(?: ; [^\\]+)?(?: \\\n    --hash=sha256:[0-9a-f]{64})+\n"
)


class Module:
    """A module of webcrawl, which is parsed when a test looks into it."""

    def __init__(self, path):
        parts = path.relative_to(ROOT / "webcrawl").with_suffix("").parts
        self.name = ".".join(part for part in parts if part != "__init__")  # "" is webcrawl itself
        self.room = self.name.partition(".")[0]
        self.text = path.read_text(encoding="utf-8")

    @functools.cached_property
    def tree(self):
        return ast.parse(self.text, filename=self.name)

    @functools.cached_property
    def nodes(self):
        return [*ast.walk(self.tree)]

    @functools.cached_property
    def imports(self):
        return _imports(self.nodes)

    @functools.cached_property
    def loads(self):
        """Its imports without those for types."""
        types = set()
        for node in self.nodes:
            if isinstance(node, ast.If) and _last_name(node.test) == "TYPE_CHECKING":
                types |= {*ast.walk(node)}
        return _imports(node for node in self.nodes if node not in types)

    def rooms(self):
        """The other rooms of webcrawl that it imports."""
        inside = (name.split(".") for name in self.imports if name.startswith("webcrawl."))
        return {parts[1] for parts in inside} - {self.room, "__version__"}


def _imports(nodes):
    """Full names: "webcrawl.urls.normalize", "scrapy.signals"."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import: {ast.unparse(node)}"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@functools.cache
def modules():
    return [Module(path) for path in sorted((ROOT / "webcrawl").rglob("*.py"))]


def places(finds, *, words, exempt):
    """Where *finds* is true of a node of the code of rooms and modules that are not *exempt*. It
    finds nothing in modules without any of the *words*."""
    return [
        f"{module.name}:{node.lineno}"
        for module in modules()
        if not {module.name, module.room} & exempt and re.search(rf"\b({words})\b", module.text)
        for node in module.nodes
        if finds(node)
    ]


def attributes(module):
    """Each attribute that the code of *module* names."""
    return (node for node in module.nodes if isinstance(node, ast.Attribute))


def printed(code, *arguments):
    """The words that a new Python prints, and its exit code."""
    command = [sys.executable, "-c", code, *arguments]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return {*run.stdout.split()}, run.returncode


def test_a_process_is_three_things_with_twelve_public_names_each():
    trees = {module.name: module.tree for module in modules()}
    for name in ("Process", "Intake", "Health"):
        body = trees[f"crawl.{name.lower()}"].body
        (kind,) = (node for node in body if isinstance(node, ast.ClassDef) and node.name == name)
        names = {node.name for node in kind.body if isinstance(node, FUNCTIONS)}
        for node in ast.walk(kind):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names |= {node.attr} if _last_name(node.value) == "self" else set()
        assert len({one for one in names if not one.startswith("_")}) <= 12


def test_every_room_has_its_floor():
    rooms = {module.room for module in modules() if module.name} - {"simweb"}
    assert rooms == FLOOR.keys()


@each("room", *sorted(FLOOR))
def test_room_imports_only_what_lies_beneath_it(room):
    wrong = {
        module.name: above
        for module in modules()
        if module.room == room
        and (above := {one for one in module.rooms() if FLOOR.get(one, 99) >= FLOOR[room]})
        and not (module.room in {"commands", "sim"} and above == {"simweb"})
    }
    assert wrong == {}


def test_only_settings_name_add_ons_by_strings():
    names = re.compile(rf"webcrawl\.({'|'.join(sorted(ADD_ONS))})[.:]\S+")
    found = {
        module.name
        for module in modules()
        if module.room not in ADD_ONS
        for node in module.nodes
        if isinstance(node, ast.Constant) and names.fullmatch(str(node.value))
    }
    assert found == {"settings"}


def test_the_core_imports_no_add_on():
    found = {
        module.name: " ".join(sorted(add_ons))
        for module in modules()
        if module.room not in ADD_ONS and (add_ons := module.rooms() & ADD_ONS)
    }
    assert found == {}


@each("room", *sorted(INSIDE))
def test_rooms_inside_import_only_what_lies_beneath_them(room):
    floors = INSIDE[room]
    floor = {inner: number for number, rooms in enumerate(floors) for inner in rooms}
    folders = {path.name for path in (ROOT / "webcrawl" / room).iterdir() if path.is_dir()}
    assert folders - {"__pycache__"} == floor.keys()
    wrong, types = [], set()
    for module in modules():
        inner = module.name.partition(".")[2].partition(".")[0]
        if module.room != room or inner not in floor:
            continue
        for name in module.imports:
            parts = name.split(".")
            if parts[:2] != ["webcrawl", room] or parts[2] == inner:
                continue
            if floor.get(parts[2], 99) >= floor[inner]:
                if name not in module.loads and (inner, parts[2]) in TYPES_ONLY:
                    types.add((inner, parts[2]))
                else:
                    wrong.append((module.name, name))
    assert wrong == []
    assert types == {arrow for arrow in TYPES_ONLY if arrow[0] in floor}


def test_no_circle_of_modules_at_run_time():
    known = {module.name for module in modules()}
    below = {
        module.name: {
            one
            for name in (full.removeprefix("webcrawl.") for full in module.loads)
            for one in [name if name in known else name.rpartition(".")[0]]
            if one in known and not f"{module.name}.".startswith(f"{one}.")
        }
        for module in modules()
    }
    left = below.keys()
    while free := {name for name in left if not below[name] & left - {name}}:
        left -= free
    assert left == set()


@each(
    "name rooms",
    ("simweb", set()),
    # The judge does not rest on what it judges.
    ("jobs.audit", {"configuration", "errors", "urls", "wording"}),
)
def test_rooms_that_rest_on_little_of_the_crawler(name, rooms):
    own = [module for module in modules() if f"{module.name}.".startswith(f"{name}.")]
    assert {room for module in own for room in module.rooms()} == rooms
    others = {
        full for module in own for full in module.imports if full.startswith("webcrawl.jobs.")
    }
    assert {full for full in others if not full.startswith(f"webcrawl.{name}.")} == set()


def test_only_what_asks_a_crawl_from_outside_imports_jobs():
    names = {module.name for module in modules() if "jobs" in module.rooms()}
    assert {name for name in names if name.partition(".")[0] != "commands"} == {
        "control.sending",
        "monitor.site",
        "monitor.watch",
    }


def test_no_assert_guards_a_contact_a_write_or_a_lease():
    """Under ``python -O`` it would guard nothing."""
    others = {module.room for module in modules()} - WITHOUT_ASSERTS
    assert places(lambda node: isinstance(node, ast.Assert), words="assert", exempt=others) == []


def test_packages_of_many_rooms_are_a_docstring_and_no_more():
    packages = [module for module in modules() if module.name in ONLY_DOCSTRINGS]
    assert [len(package.tree.body) for package in packages] == [1] * len(ONLY_DOCSTRINGS)


def test_core_rooms_import_no_scrapy_twisted_or_redis():
    wrong = {
        module.name: sorted(outside)
        for module in modules()
        if f"{module.name}.".startswith(tuple(f"{room}." for room in WITHOUT_SCRAPY))
        and module.name not in WITH_SETTINGS
        and (outside := {name for name in module.imports if name.split(".")[0] in SCRAPY_SIDE})
    }
    assert wrong == {}


def test_core_rooms_load_no_scrapy_through_others():
    rooms = [*WITHOUT_SCRAPY, "jobs.audit.access_logs", "jobs.audit.report"]
    code = f"import sys, {', '.join(f'webcrawl.{room}' for room in rooms)}\nprint(*sys.modules)"
    loaded, exit_code = printed(code)
    assert (loaded & SCRAPY_SIDE, exit_code) == (set(), 0)


def test_commands_load_little_before_they_are_run():
    """Scrapy loads all of them for each command, its own too."""
    loaded, exit_code = printed(
        "import sys, scrapy.cmdline\n"
        "from scrapy.utils.misc import walk_modules\n"
        "walk_modules('scrapy.commands')\n"
        "before = set(sys.modules)\n"
        "walk_modules('webcrawl.commands')\n"
        "print(*sys.modules.keys() - before)"
    )
    assert exit_code == 0
    loaded -= LOADED_BY_COMMANDS
    loaded -= {name for name in loaded if f"{name}.".startswith("webcrawl.commands.")}
    assert {name for name in loaded if name.partition(".")[0] not in STANDARD_LIBRARY} == set()


def test_a_crawl_loads_nothing_large_that_it_does_not_need(tmp_path):
    """Each of them takes 0.1 to 0.3 s of each start."""
    code = (
        "import atexit, sys, scrapy.cmdline\n"
        "atexit.register(lambda: print(*sys.modules))\n"
        "scrapy.cmdline.execute()"
    )
    job = f"JOBDIR={tmp_path}"
    loaded, exit_code = printed(code, *words("crawl web -a seeds=none -s"), job)
    assert exit_code == 2  # the crawl was opened, there are no seeds
    large = {"aiohttp", "redis", "obstore", "pyarrow", "prometheus_client"}
    large |= {"scrapy.core.downloader.contextfactory", "twisted.web.server"}
    assert large & loaded == set()


def test_only_engine_modules_touch_private_attributes_of_scrapy():
    touched = [
        f"{module.name}:{node.lineno}: {ast.unparse(node)}"
        for module in modules()
        if module.name not in TOUCH_PRIVATE_NAMES
        for node in attributes(module)
        if _is_private(node.attr) and _last_name(node.value) in SCRAPY_OBJECTS
    ]
    assert touched == []


def test_only_engine_modules_import_private_names_of_scrapy():
    touched = {
        module.name
        for module in modules()
        for name in module.imports
        if name.split(".")[0] in {"scrapy", "twisted"} and any(map(_is_private, name.split(".")))
    }
    assert touched <= TOUCH_PRIVATE_NAMES


def test_nothing_reads_the_time_but_the_clock():
    words, exempt = r"time|\w*date|loop", test_clock.EXEMPT
    assert places(test_clock.reads_time, words=words, exempt=exempt) == []


def test_nothing_draws_but_from_generators_of_the_parts():
    words, exempt = "random|os|secrets|uuid", test_randomness.EXEMPT
    assert places(test_randomness.draws, words=words, exempt=exempt) == []


def test_first_lines_of_docstrings_could_stand_in_an_index():
    """Each is a sentence that says what the module or class is, without a person in it."""
    wrong = []
    for module in modules():
        classes = (one for one in module.nodes if isinstance(one, ast.ClassDef))
        for node in (module.tree, *classes):
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            if not first.endswith((".", ":")) or PERSONS.search(first):
                wrong.append(f"{module.name}: {first!r}")
    assert not wrong


def test_bytes_from_outside_have_one_decoder():
    names = {name.rpartition(".")[2] for name in DECODERS}
    users = {
        module.name
        for module in modules()
        if any(node.attr in names and ast.unparse(node) in DECODERS for node in attributes(module))
    }
    assert users - READ_SETTINGS == {"configuration.decoding"}


def test_make_check_leaves_out_what_starts_crawls():
    files = {*(ROOT / "tests").rglob("test_*.py")}
    left_out = {file.relative_to(ROOT / "tests").parts[0] for file in filter(starts_crawls, files)}
    kept = {file.relative_to(ROOT / "tests").parts[0] for file in files if not starts_crawls(file)}
    assert {"crawls", "monitor", "sim", "test_parts.py"} <= left_out - kept
    assert {"urls", "storage", "revisit", "doctor", "test_imports.py"} <= kept - left_out


def test_engine_module_is_where_private_attributes_are_found():
    """The search above finds something where something is."""
    engine = next(module for module in modules() if module.name == "crawl.engine._engine")
    found = [node.attr for node in attributes(engine) if _last_name(node.value) in SCRAPY_OBJECTS]
    assert "_slot" in found


@each(
    "folder pins",
    ("webcrawl", [BASE, MODULES]),
    ("tests", [BASE, MODULES, DEV, DATASETS, WEBSUB]),
    ("benchmarks", [BASE, MODULES, DEV, PEERS]),
)
def test_what_is_imported_is_pinned(folder, pins):
    lines = [line for name in pins for line in (ROOT / name).read_text().splitlines()]
    pinned = {_normalized(line.partition("==")[0]) for line in lines if "==" in line}
    # The peers of the bench and the judges of datasets are installed apart, so nobody can say what
    # provides them.
    providers = {"silkworm": ["silkworm-rs"], **PROVIDERS()}
    files = (ROOT / folder).rglob("*.py")
    unpinned = {
        name
        for name in {name for file in files for name in IMPORT.findall(file.read_text())}
        if not pinned & {_normalized(provider) for provider in providers.get(name, [name])}
        and name not in STANDARD_LIBRARY | {"mine"}  # which a user wrote, in texts of tests
        and not any(
            (ROOT / place).exists()
            for place in (f"{folder}/{name}{end}" for folder in PLACES for end in ("", ".py"))
        )
    }
    assert unpinned == set()


@each("name", BASE, MODULES, DEV, DOCS, PYWB, WEBSUB)
def test_every_pin_is_exact_and_says_what_needs_it(name):
    lines = [line for line in (ROOT / name).read_text().splitlines() if line and line[0] != "#"]
    assert lines
    assert [line for line in lines if line[:3] != "-c " and not PIN.fullmatch(line)] == []


@each("name", BASE, MODULES, DEV, DOCS, PYWB, WEBSUB, PEERS, "requirements-lock.in")
def test_the_lock_has_each_pin_with_hashes_and_nothing_else(name):
    """No index, link or file of the machine that made it."""
    named = (ROOT / name).read_text().splitlines()
    pins = (re.match(r"([\w.-]+)(?:\[.*\])?==([\w.]+)", line) for line in named)
    wanted = {(_normalized(pin[1]), pin[2]) for pin in pins if pin}
    lock = (ROOT / name).with_suffix(".txt").read_text()
    assert wanted
    assert wanted <= {(pin[1], pin[2]) for pin in LOCKED.finditer(lock)}
    rest = LOCKED.sub("", re.sub(r"^ *#.*\n", "", lock, flags=re.MULTILINE))
    assert rest.strip() == ""  # a blank line is before the names that `make lock` leaves out


def _normalized(distribution):
    return re.sub(r"[-_.]+", "-", distribution.partition("[")[0]).lower()


def _is_private(name):
    return name.startswith("_") and not name.startswith("__")


def _last_name(node):
    """``engine`` of ``engine``, ``self.engine`` and ``crawler.engine``."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None
