"""Epoch time while the clock of the machine is set, and that nothing else reads the time."""

import ast
import time

from text_tables import each, table

from webcrawl.clock import Clock, since_boot


@each("jump", 3600.0, -3600.0)
def test_a_clock_that_is_set_changes_nothing_for_this_process_and_the_next(jump):
    system, boot = [1_800_000_000.0], [50.0]

    def new_clock():
        return Clock(wall=lambda: system[0], boot=lambda: boot[0])

    clock = new_clock()
    assert clock() == 1_800_000_000
    boot[0] += 7
    system[0] += 7 + jump
    assert clock() == 1_800_000_007
    later = new_clock()
    assert later() == 1_800_000_007 + jump
    later.continue_from(clock.offset)
    assert later() == 1_800_000_007


def test_a_new_one_says_what_the_machine_says():
    before = time.time()
    assert before - 0.1 <= Clock()() <= time.time() + 0.1
    assert since_boot() >= time.monotonic() - 1


# simweb is another program, which imports nothing of the crawler; its command runs it.
EXEMPT = {"clock", "simweb", "commands.simweb", "sim"}
CLOCKS = {"clock_gettime", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time"}
CLOCKS |= {"now", "time_ns", "today", "utcnow"}
WITHOUT_AN_ARGUMENT = {"ctime", "gmtime", "localtime"}


def reads_time(node):
    """Whether *node* names a clock of Python's, or of an event loop."""
    match node:
        case ast.ImportFrom(module="time", names=names):
            return any(name.name in CLOCKS for name in names)
        case ast.Attribute(value=value, attr=attr) if attr in CLOCKS:
            return ast.unparse(value).endswith(("time", "date", "loop", "loop()"))
        case ast.Call(func=ast.Attribute(value=ast.Name("time"), attr=attr), args=arguments):
            return len(arguments) < (attr in WITHOUT_AN_ARGUMENT) + 2 * (attr == "strftime")
    return False


@each(
    "source reads",
    *table("""
        time.monotonic()                     | yes
        clock=time.time                      | yes
        from time import perf_counter        | yes
        datetime.now(UTC)                    | yes
        self._loop.time()                    | yes
        asyncio.get_running_loop().time()    | yes
        time.gmtime()                        | yes
        time.strftime('%Y')                  | yes
        time.strftime('%Y', time.gmtime(at)) |
        time.thread_time()                   |
        from webcrawl.clock import now       |
        datetime.fromtimestamp(at, UTC)      |
    """),
)
def test_what_counts_as_reading_the_time(source, reads):
    tree = ast.parse(f"f({source})" if "import" not in source else source)
    assert any(map(reads_time, ast.walk(tree))) == bool(reads)
