"""Network namespaces for a test: a hub with servers, and machines whose cables can be pulled.

`Cables` is a context manager. The calling thread, and what it starts, are in the hub within: what
listens on a loopback address there is reached from all machines at the same address, as none of
them has a loopback of its own. Making namespaces is the right of root alone.
"""

import contextlib
import ctypes
import os
import subprocess
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000  # from <linux/sched.h>
_HERE = Path("/proc/thread-self/ns/net")
# An address of hardware that nothing has.
_NOBODY = "02:00:00:00:00:99"
#: Why a test that needs namespaces fails for who may make none.
NEEDS = "This test makes network namespaces: run it as root, on Linux, with iproute2 installed"


class Cables:
    """A hub, and *machines*, as many, which are called by their numbers."""

    def __init__(self, machines):
        self._machines = range(machines)
        self._ends = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as ends:
            self._hub = self._made(ends, "hub")
            here = os.open(_HERE, os.O_RDONLY)
            ends.callback(os.close, here)
            for machine in self._machines:
                self._connect(self._made(ends, machine), machine)
            hub = os.open(f"/run/netns/{self._hub}", os.O_RDONLY)
            ends.callback(os.close, hub)
            _enter(hub)
            ends.callback(_enter, here)
            _run("ip link set lo up")
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *_):
        self._ends.close()

    def within(self, machine):
        """The words before a command that is to run on *machine*."""
        return ["ip", "netns", "exec", _name(machine)]

    def address(self, machine):
        """The address that servers see *machine* at."""
        return f"10.60.{machine}.2"

    @contextlib.contextmanager
    def pulled(self, machine):
        """Within, nothing passes from or to *machine*, which sees it."""
        _run(f"ip link set to{machine} down")
        yield
        _run(f"ip link set to{machine} up")

    @contextlib.contextmanager
    def lossy(self, machine):
        """Within, what is sent from and to *machine* is lost, as by a broken switch."""
        ends = (f"ip neigh %s {self.address(machine)} dev to{machine}",)
        ends += (f"ip -n {_name(machine)} neigh %s {_gateway(machine)} dev hub",)
        for end in ends:
            _run(f"{end % 'replace'} lladdr {_NOBODY} nud permanent")
        yield
        for end in ends:
            _run(end % "del")

    @contextlib.contextmanager
    def apart(self, machine, *others):
        """Within, what *machine* and *others* send to each other is lost."""
        pairs = [pair for other in others for pair in ((machine, other), (other, machine))]
        rules = [f"from {self.address(a)} to {self.address(b)} blackhole" for a, b in pairs]
        for rule in rules:
            _run(f"ip rule add {rule}")
        yield
        for rule in rules:
            _run(f"ip rule del {rule}")

    def _made(self, ends, machine):
        name = _name(machine)
        try:
            _run(f"ip netns add {name}")
        except (OSError, subprocess.CalledProcessError) as error:
            raise PermissionError(f"{NEEDS}: {getattr(error, 'stderr', '') or error}") from None
        ends.callback(_run, f"ip netns del {name}")
        # Loopback addresses go over cables.
        values = {"all/route_localnet": 1, "default/route_localnet": 1, "all/rp_filter": 0}
        for key, value in values.items():
            _run(f"ip netns exec {name} sysctl -qw net/ipv4/conf/{key}={value}")
        _run(f"ip netns exec {name} sysctl -qw net/ipv4/ip_forward=1")
        return name

    def _connect(self, name, machine):
        hub, own = f"to{machine}", _gateway(machine)
        _run(f"ip -n {self._hub} link add {hub} type veth peer name hub netns {name}")
        _run(f"ip -n {self._hub} address add {own}/24 dev {hub}")
        _run(f"ip -n {self._hub} link set {hub} up")
        _run(f"ip -n {name} address add {self.address(machine)}/24 dev hub")
        _run(f"ip -n {name} link set hub up")
        for reached in ("127.0.0.0/8", "10.60.0.0/16"):
            _run(f"ip -n {name} route add {reached} via {own}")


def _gateway(machine):
    return f"10.60.{machine}.1"


def _name(machine):
    return f"webcrawl-{os.getpid()}-{machine}"


def _run(command):
    subprocess.run(command.split(), check=True, capture_output=True, text=True)


def _enter(namespace):
    if _LIBC.setns(namespace, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), f"{NEEDS}")
