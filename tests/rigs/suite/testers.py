"""Processes that share the tests: ``--testers N`` forks them when all tests are collected.

Each takes the next file when it is through with one, and its reports come back through a pipe, as
with pytest-xdist. But modules are imported and tests collected once, not once in each process: nine
seconds of CPU and half a gigabyte.
"""

import itertools
import os
import sys
import traceback
import warnings
from multiprocessing.connection import Pipe, wait
from operator import attrgetter

import pytest

_INDEX = 2  # bytes of the number of a file
_running = {}  # by connection: where its tester is


def pytest_addoption(parser):
    parser.addoption(
        "--testers", type=int, default=0, metavar="N", help="share tests among N processes"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    """Fork the testers, and pass on what they report."""
    option = session.config.option
    if not option.testers or option.collectonly or session.testsfailed:
        return None
    files = [[*items] for _, items in itertools.groupby(session.items, attrgetter("path"))]
    queue, end = os.pipe()  # all take from it, and each number goes to one of them
    os.write(end, b"".join(number.to_bytes(_INDEX) for number in range(len(files))))
    os.close(end)
    directory = session.config._tmp_path_factory.getbasetemp()
    testers = {}
    for number in range(option.testers):
        here, there = Pipe(duplex=False)
        with warnings.catch_warnings(action="ignore"):  # libraries have threads, which are idle
            process = os.fork()
        if process == 0:
            _test(session, _taken(files, queue), there, directory / f"tester{number}")
        there.close()
        testers[here] = process
    try:
        while testers:
            for here in wait(testers):
                _pass_on(session, here, testers)
            if session.shouldfail:
                os.read(queue, 1 << 16)
    finally:
        os.close(queue)
        for here, process in testers.items():  # none, unless this was interrupted
            here.close()
            os.waitpid(process, 0)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    return True


def _pass_on(session, here, testers):
    """Call the hook that a tester names, or take it out of *testers* if it has ended."""
    hook, config = session.config.hook, session.config
    try:
        name, arguments = here.recv()
    except EOFError:
        _, status = os.waitpid(testers.pop(here), 0)
        here.close()
        if status == 0:
            return
        died = f"A tester ended with {os.waitstatus_to_exitcode(status)}."
        report = pytest.TestReport(*_running[here], {}, "failed", died, "call")
        name, arguments = "pytest_runtest_logreport", {"report": report}
    else:
        if "data" in arguments:
            arguments = {"report": hook.pytest_report_from_serializable(config=config, **arguments)}
        else:
            _running[here] = arguments["nodeid"], arguments["location"]
    getattr(hook, name)(**arguments)


def _taken(files, queue):
    """The tests of the files that this process takes."""
    while number := os.read(queue, _INDEX):
        yield from files[int.from_bytes(number)]


def _test(session, items, there, directory):
    """Run *items* in this process, which ends then."""
    code = 1
    try:
        config = session.config
        capture = config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()  # its files are those of all testers
        capture.start_global_capturing()
        config.pluginmanager.unregister(name="terminalreporter")
        config.pluginmanager.register(_Messenger(config, there))
        directory.mkdir(0o700)
        config._tmp_path_factory._basetemp = directory
        for item, following in itertools.pairwise(itertools.chain(items, [None])):
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                break
        session._setupstate.teardown_exact(None)
        coverage = sys.modules.get("coverage")
        if coverage and (measured := coverage.Coverage.current()):
            measured.save()
        code = 0
    except BaseException:  # noqa: BLE001  the process ends by it
        capture.stop_global_capturing()
        traceback.print_exc()
    finally:
        os._exit(code)


class _Messenger:
    """A plugin that sends what is reported to the process that passes it on."""

    def __init__(self, config, there):
        self._config = config
        self._there = there

    def pytest_runtest_logstart(self, nodeid, location):
        self._there.send(("pytest_runtest_logstart", {"nodeid": nodeid, "location": location}))

    def pytest_runtest_logreport(self, report):
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._there.send(("pytest_runtest_logreport", {"data": data}))

    def pytest_runtest_logfinish(self, nodeid, location):
        self._there.send(("pytest_runtest_logfinish", {"nodeid": nodeid, "location": location}))
