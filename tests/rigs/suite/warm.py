"""Processes of Python that start warm: forked from one that has imported Scrapy and webcrawl.

`scrapy`, `run` and `Popen` start a process like any other: a child of this one, with an exit code,
signals, descriptors, a directory and an environment of its own. Only its imports were done before,
once for all tests of this process, and its modules are not taken apart at its end: a command of
Scrapy takes 0.03 s of CPU instead of 1.2 s. The simulated web is started like that, too, and what
commands start that start others: drones, monitors, rehearsals. Limits and most variables that
Python reads when it starts need `subprocess`. The text of a simulated web whose
seed is `SIMWEB_SEED` in the environment is made before forking, once for all processes with it.

With ``WARM=0`` in the environment, processes start as users' do, and tests take several times as
long. That shows at night whether a test passes only because of what is done here before.
"""

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import itertools
import os
import pickle
import pkgutil
import re
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import typing
import warnings
from pathlib import Path

from patience import LIMIT_SECS

ROOT = Path(__file__).resolve().parents[3]
_LONGEST = 1_000_000  # bytes of a command with its environment
_LIBC = ctypes.PyDLL(None)
_SET_CHILD_SUBREAPER = 36  # from <linux/prctl.h>
_SET_NAME = 15  # likewise
_SYS_CLONE3 = 435  # from <asm/unistd.h>, on all machines
_CLONE_PARENT = 0x8000  # from <linux/sched.h>
# Commands that start processes of Python themselves.
_STARTS_OTHERS = re.compile(rb" (?:hive|rehearse|simweb) |MONITOR_PORT=|start_in_process")


class _Server:
    """The process to fork from, by *orders*. What it forks becomes a child of this process."""

    def __init__(self, orders, process=None):
        self._one_at_a_time = threading.Lock()
        self._orders = orders
        self._orders.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LONGEST)
        self._process = process
        self._numbers = itertools.count()

    @classmethod
    def started(cls):
        _adopt_orphans()
        orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd=ROOT,
                # A process that forks has no other threads, as NumPy would start them.
                env=os.environ | {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
            )
        return cls(orders, process)

    def fork(self, order, descriptors):
        """The process id of a new process that runs *order* with *descriptors* as 0, 1, 2."""
        with self._one_at_a_time:
            number = next(self._numbers)
            socket.send_fds(self._orders, [pickle.dumps(order | {"number": number})], descriptors)
            while True:
                answered, process = map(int, self._orders.recv(40).split())
                if answered == number:
                    return process
                os.kill(process, signal.SIGKILL)  # a time-out interrupted the call that wanted it

    def stop(self):
        self._orders.close()
        self._process.wait()
        # Orphans of those that it had forked end by themselves; what does not is a leftover.
        deadline = time.monotonic() + LIMIT_SECS
        with contextlib.suppress(ChildProcessError):
            while time.monotonic() < deadline:
                if os.waitpid(-1, os.WNOHANG) == (0, 0):
                    time.sleep(0.01)


_server = None


def stop():
    """End the process to fork from, if there is one."""
    global _server  # noqa: PLW0603  one for all tests of this process
    if _server is not None:
        _server.stop()
        _server = None


class Popen(subprocess.Popen):
    """`subprocess.Popen` but for how a process of Python comes to be; others as usual."""

    def _execute_child(self, args, *rest):
        global _server  # noqa: PLW0603  likewise
        program, *command = map(os.fspath, args)
        (cwd, env), pipes = rest[4:6], rest[9:15]
        env = dict(os.environ if env is None else env)
        if program == sys.executable and os.environ.get("WARM") == "0":
            path = [*env.get("PYTHONPATH", "").split(os.pathsep), str(ROOT)]
            env["PYTHONPATH"] = os.pathsep.join(filter(None, path))
            super()._execute_child(args, *rest[:5], env, *rest[6:])
            return
        if program != sys.executable or rest[3]:  # descriptors to pass
            super()._execute_child(args, *rest)
            return
        _server = _server or _Server.started()
        order = {
            "command": command,
            "cwd": os.path.abspath(cwd or "."),  # noqa: PTH100  may be bytes
            "env": env,
            "new_session": rest[20],
            "process_group": rest[21],
        }
        descriptors = [
            standard if pipe == -1 else pipe
            for standard, pipe in enumerate((pipes[0], pipes[3], pipes[5]))
        ]
        self.pid = _server.fork(order, descriptors)
        if rest[21] >= 0:  # it does that, too, and may not have come to it
            with contextlib.suppress(ProcessLookupError):
                os.setpgid(self.pid, rest[21])
        self._child_created = True
        self._close_pipe_fds(*pipes)


def run(command, *, timeout=LIMIT_SECS, input=None, **options):  # noqa: A002  subprocess' name
    """`subprocess.run` of *command*, in the project's directory, without input; output and errors
    are captured as text. *options* are those of `Popen`."""
    options = {
        "cwd": ROOT,
        "stdin": subprocess.DEVNULL if input is None else subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        **options,
    }
    with Popen(command, **options) as process:
        try:
            output, errors = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def scrapy(*arguments, **options):
    """`run` of a command of Scrapy."""
    line = [one if isinstance(one, bytes) else str(one) for one in arguments]
    return run([sys.executable, "-m", "scrapy", *line], **options)


_ROOMS = ("webcrawl", "scrapy.commands", "scrapy.extensions", "scrapy.downloadermiddlewares")


def _import_all():
    """Import what commands and crawls want, but for the reactor, which each process makes."""
    others = ("scrapy.core.downloader.handlers.http11", "uvloop", "pytest", "hypothesis", "psutil")
    validators = ("warcio.cli", "fastwarc.cli", "warcat.__main__", "cdxj_indexer.main")
    gc.disable()
    with warnings.catch_warnings(action="ignore"):
        for name in ("scrapy.cmdline", *others, *validators):
            importlib.import_module(name)
        for room in _ROOMS:
            for module in pkgutil.walk_packages(importlib.import_module(room).__path__, f"{room}."):
                if not module.name.endswith("__main__"):
                    importlib.import_module(module.name)
    assert "twisted.internet.reactor" not in sys.modules
    sys.modules["webcrawl.simweb.text_stock"].stock(1)  # a third of a second, for each server
    sys.modules["webcrawl.urls.registered_domain"].registered_domain("a.test")  # 0.1 s, each crawl
    cmdline = sys.modules["scrapy.cmdline"]
    cmdline.entry_points = functools.cache(cmdline.entry_points)  # no package is installed by tests
    cmdline._get_commands_from_entry_points(inproject=True)
    for room in ("scrapy.commands", "webcrawl.commands"):  # what is a command, and what is none
        cmdline._get_commands_from_module(room, inproject=True)
    versions = sys.modules["scrapy.utils.versions"]
    versions._version = functools.cache(versions._version)  # they are logged by each crawl
    versions.get_versions()
    for clear in typing._cleanups:  # so does nanobind at the end of each process: 1,700 page faults
        clear()
    gc.freeze()
    gc.enable()


def _adopt_orphans():
    """Make this process the parent of its descendants whose own parent ends."""
    if _LIBC.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError("this system hands no orphans over")


def _fork_sibling():
    """Fork a child of the parent of this process; return 0 in the child, else its process id."""
    ctypes.pythonapi.PyOS_BeforeFork()
    options = (ctypes.c_uint64 * 8)(_CLONE_PARENT)
    child = _LIBC.syscall(_SYS_CLONE3, options, ctypes.sizeof(options))
    if child == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if child < 0:
        raise OSError("this system forks no siblings")
    return child


def _next_order(orders):
    """Fork for each order; returns only in the forked processes, each with its own."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(orders, _LONGEST, 3)
        if not data:
            os._exit(0)
        order = pickle.loads(data)
        number = order.pop("number")
        for seed in (1, int(order["env"].get("SIMWEB_SEED", 1))):  # two are kept, 1 always
            sys.modules["webcrawl.simweb.text_stock"].stock(seed)
        child = _fork_sibling()
        if child == 0:
            for standard, descriptor in enumerate(descriptors):
                os.dup2(descriptor, standard)
            orders.detach()
            os.closerange(3, 100)
            _leave_group(order)
            if _STARTS_OTHERS.search(b" ".join(map(os.fsencode, order["command"]))) is None:
                return order
            here, orders = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            if os.fork():
                orders.close()
                _start_from(here)
                return order
            here.close()  # this process forks for its parent
            nowhere = os.open(os.devnull, os.O_RDWR)
            for standard in range(3):
                os.dup2(nowhere, standard)
            continue
        orders.send(f"{number} {child}".encode())
        for descriptor in descriptors:
            os.close(descriptor)


def _leave_group(order):
    """Begin the session or the group of processes that *order* asks for.

    Before anything else is forked, which is in it, too: when a process ends whose parent is of
    another group, and one of its own group is stopped, the system may hang up on all of that group.
    """
    if order.pop("new_session"):
        os.setsid()
    group = order.pop("process_group")
    if group >= 0:
        os.setpgid(0, group)


def _start_from(orders):
    """What this process starts is forked by *orders*."""
    global _server  # noqa: PLW0603  likewise
    _adopt_orphans()
    _server = _Server(orders)
    subprocess.Popen = sys.modules["webcrawl.simweb.process"].Popen = Popen


def _run(command, cwd, env):
    """What the interpreter does with *command*, its arguments."""
    os.fsync = lambda fd: None  # as in the tests' own process
    os.nice = lambda _: 0  # next to busy tests, a monitor that gives way would hardly run
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    tempfile.tempdir = None
    if env.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(write_through=True)
    if encoding := env.get("PYTHONIOENCODING"):
        sys.stdout = open(1, "w", encoding=encoding, closefd=False)  # noqa: SIM115  # to the end
    if command[0] == "-W":
        warnings.simplefilter(command[1])
        command = command[2:]
    option, *sys.argv = map(os.fsdecode, command)
    _LIBC.prctl(_SET_NAME, sys.argv[0].encode() if option == "-m" else b"python", 0, 0, 0)
    sys.path[0:1] = [cwd, *filter(None, env.get("PYTHONPATH", "").split(os.pathsep))]
    if option == "-m":
        if not hasattr(sys.modules.get(sys.argv[0]), "__path__"):
            sys.modules.pop(sys.argv[0], None)  # it is the main module, and no other
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    elif option == "-c":
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        code, sys.argv[0] = sys.argv[0], "-c"
        exec(compile(code, "<string>", "exec"), main.__dict__)
    else:
        sys.argv.insert(0, option)
        sys.path[0] = os.path.dirname(os.path.abspath(option))  # noqa: PTH100, PTH120  as Python
        runpy.run_path(option, run_name="__main__")


def _end(code):
    """End with what SystemExit has as the interpreter does, but for 0.08 s in which it would take
    all modules apart. Returns if it must do that: output is refused, or -W asks for warnings."""
    if order["command"][0] == "-W" or not isinstance(code, (int, type(None))):
        return
    threading._shutdown()
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit((code or 0) & 0xFF)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as orders:
        _import_all()
        order = _next_order(orders)
    try:
        _run(**order)
    except SystemExit as end:
        _end(end.code)
        raise
    _end(None)
