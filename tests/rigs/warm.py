"""Processes of Python that start warm: forked from one that has imported Scrapy and webcrawl.

`scrapy`, `run` and `Popen` start a process like any other: a child of this one, with an exit code,
signals, descriptors, a directory and an environment of its own. Only its imports were done before,
once for all tests of this process, and its modules are not taken apart at its end: a command of
Scrapy takes 0.03 s of CPU instead of 1.2 s. The simulated web is started like that, too, and what
commands start, `_PARENTS` among them. Limits and most variables that Python reads when it starts
need `subprocess`. The name of a process, as ``ps -o comm`` shows it, is the beginning of its
command.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import os
import pickle
import pkgutil
import re
import runpy
import socket
import subprocess
import sys
import tempfile
import threading
import types
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_LONGEST = 1_000_000  # bytes of a command with its environment
_SET_NAME, _SET_CHILD_SUBREAPER = 15, 36  # from <linux/prctl.h>
_control = ctypes.CDLL(None).prctl
# Words of commands that start processes of Python.
_PARENTS = re.compile(r"hive|rehearse|simweb|MONITOR_PORT=.*")
_execute_cold = subprocess.Popen._execute_child


class _Server:
    """The process to fork from, which *start* starts, with the socket for its orders. What it forks
    becomes a child of this process."""

    def __init__(self, start):
        self._one_at_a_time = threading.Lock()
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._orders.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LONGEST)
        # An orphan goes to its nearest forefather that has asked for them.
        if _control(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError("this system hands no orphans over")
        with theirs:
            self._process = start(theirs)

    def fork(self, order, descriptors):
        """The process id of a new process that runs *order* with *descriptors* as 0, 1, 2."""
        with self._one_at_a_time:
            socket.send_fds(self._orders, [pickle.dumps(order)], descriptors)
            child = int(self._orders.recv(20))
            self._orders.recv(20)  # now it is a child of this process
            return child

    def stop(self):
        self._orders.close()
        self._process.wait()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass  # orphans of those that it had forked, which have ended, too


def _start_server(orders):
    return subprocess.Popen(
        [sys.executable, __file__, str(orders.fileno())],
        stdin=subprocess.DEVNULL,
        pass_fds=[orders.fileno()],
        cwd=ROOT,
        # A process that forks has no other threads, as NumPy would start them.
        env=os.environ | {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
    )


def _fork_server(orders):
    """For a process that was forked and has done nothing yet: it is as warm as this one."""
    if os.fork():
        return
    os.dup2(orders.fileno(), 3)
    for standard in range(3):
        os.dup2(os.open(os.devnull, os.O_RDWR), standard)
    os.closerange(4, 100)
    _serve(socket.socket(fileno=3))


_server = None


def stop():
    """End the process to fork from, if there is one."""
    global _server  # noqa: PLW0603  one for all tests of this process
    if _server is not None:
        _server.stop()
        _server = None


def _execute_child(process, args, *rest):
    """`subprocess.Popen._execute_child` for a process of Python; others as usual."""
    global _server  # noqa: PLW0603  likewise
    program, *command = [args] if isinstance(args, (str, bytes)) else map(os.fspath, args)
    if program != sys.executable:
        _execute_cold(process, args, *rest)
        return
    (cwd, env), pipes = rest[4:6], rest[9:15]
    _server = _server or _Server(_start_server)
    order = {
        "command": command,
        "cwd": os.path.abspath(cwd or "."),  # noqa: PTH100  may be bytes
        "env": dict(os.environ if env is None else env),
        "new_session": rest[20],
        "group": rest[21],
    }
    descriptors = [
        standard if pipe == -1 else pipe
        for standard, pipe in enumerate((pipes[0], pipes[3], pipes[5]))
    ]
    process.pid = _server.fork(order, descriptors)
    process._child_created = True
    process._close_pipe_fds(*pipes)


class Popen(subprocess.Popen):
    """`subprocess.Popen` but for how a process of Python comes to be."""

    _execute_child = _execute_child


def run(command, *, timeout=120, input=None, **options):  # noqa: A002  subprocess' name
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
    with warnings.catch_warnings(action="ignore"):
        for name in ("scrapy.cmdline", *others, *validators):
            importlib.import_module(name)
        for room in _ROOMS:
            for module in pkgutil.walk_packages(importlib.import_module(room).__path__, f"{room}."):
                # numba reads NUMBA_DISABLE_JIT when it is imported, and is large to fork.
                # The monitor's is run by its name, which has to be free.
                if not re.search(r"__main__|\.jobs\.caches\.|monitor\.process", module.name):
                    importlib.import_module(module.name)
    assert sys.modules.keys().isdisjoint({"twisted.internet.reactor", "numba"})
    sys.modules["webcrawl.simweb.text_stock"].stock(1)  # a third of a second, for each server
    sys.modules["webcrawl.urls.registered_domain"].registered_domain("a.test")  # 0.1 s, each crawl
    gc.collect()
    gc.freeze()


def _next_order(orders):
    """Fork for each order; returns only in the forked processes, each with its own."""
    global _server  # noqa: PLW0603  likewise
    while True:
        data, descriptors, _, _ = socket.recv_fds(orders, _LONGEST, 3)
        if not data:
            os._exit(0)
        order = pickle.loads(data)
        between = os.fork()
        if between == 0:
            child = os.fork()
            if child:
                os._exit(orders.send(str(child).encode()) == 0)
            for standard, descriptor in enumerate(descriptors):
                os.dup2(descriptor, standard)
            os.closerange(3, 100)
            if any(map(_PARENTS.fullmatch, map(os.fsdecode, order["command"]))):
                _server = _Server(_fork_server)
                subprocess.Popen._execute_child = _execute_child
            return order
        os.waitpid(between, 0)
        orders.send(b"orphaned")
        for descriptor in descriptors:
            os.close(descriptor)


def _run(command, cwd, env, *, new_session, group):
    """What the interpreter does with *command*, its arguments."""
    _control(_SET_NAME, b" ".join(map(os.fsencode, command)))
    if new_session:
        os.setsid()
    if group >= 0:
        os.setpgid(0, group)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    tempfile.tempdir = None
    if env.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(write_through=True)
    if command[0] == "-W":
        warnings.simplefilter(command[1])
        command = command[2:]
    option, *sys.argv = map(os.fsdecode, command)
    sys.path[0:1] = [cwd, *filter(None, env.get("PYTHONPATH", "").split(os.pathsep))]
    if option == "-m":
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    elif option == "-c":
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        code, sys.argv[0] = sys.argv[0], "-c"
        exec(compile(code, "<string>", "exec"), main.__dict__)
    else:
        sys.argv.insert(0, option)
        sys.path[0] = os.path.dirname(os.path.abspath(option))  # noqa: PTH100, PTH120  as Python
        runpy.run_path(option, run_name="__main__")


def _serve(orders):
    """Run one order after the other, each in a process of its own. Does not return."""
    order = _next_order(orders)
    orders.detach()
    try:
        _run(**order)
        code = None
    except SystemExit as end:
        code = end.code
    # As the interpreter, but for 0.08 s in which it would take all modules apart; not if it has to:
    # output is refused, or -W asks for warnings.
    if order["command"][0] != "-W" and isinstance(code, (int, type(None))):
        threading._shutdown()
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit((code or 0) & 0xFF)
    sys.exit(code)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as orders:
        _import_all()
        _serve(orders)
