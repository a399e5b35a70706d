"""How slow this machine is: the unit of leases and time limits in tests.

`SLOWNESS` is measured once, when this module is first imported, before testers are forked; the
variable TESTS_SLOWNESS hands it to processes of tests. It is 1 on a machine that has little else to
do, 3 if the tests get a third of it. Load may begin later. So limits that end a test are generous:
only a hang reaches them. `slowness_now` is for times that a crawl goes by, such as its leases.
"""

import os
import time

# What the measurement takes on the machine for which the times in tests were chosen (two cores, ten
# million additions a core in 0.76 s), while one process more has something to do: `make test`
# checks types at the same time.
_USUAL_SECS = 0.35
_ADDITIONS = 3_000_000


def _work_secs():
    """Measure how long a fixed piece of work takes that occupies all cores."""
    began = time.perf_counter()
    workers = []
    for _ in range(os.cpu_count() or 1):
        worker = os.fork()
        if worker == 0:
            _work()
            os._exit(0)
        workers.append(worker)
    for worker in workers:
        os.waitpid(worker, 0)
    return time.perf_counter() - began


def _work():
    number = 0
    while number < _ADDITIONS:
        number += 1


def slowness_now():
    """Measure again, in one process; at least SLOWNESS."""
    began = time.perf_counter()
    _work()
    return max(SLOWNESS, (time.perf_counter() - began) / _USUAL_SECS)


if "TESTS_SLOWNESS" not in os.environ:
    os.environ["TESTS_SLOWNESS"] = str(max(1.0, _work_secs() / _USUAL_SECS))
SLOWNESS = float(os.environ["TESTS_SLOWNESS"])
# A test that waits so long for one event hangs. Below the time limit of a test, so that the message
# is about this event.
LIMIT_SECS = 200 * SLOWNESS
