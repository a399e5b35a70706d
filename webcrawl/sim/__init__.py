"""Rehearsal: a whole crawl in virtual time, with its servers in the same process.

``process.simulate`` makes a process a simulated one, until it ends: an event loop whose time jumps
to the next timer (``loop``), work of threads at drawn moments, and connections that lead to simweb
in the same process (``network``, ``web``). ``python -m webcrawl.sim`` is what ``scrapy rehearse``
starts. The manner is that of FoundationDB's and TigerBeetle's simulators: all that runs in
production runs here. Faults of servers and networks are those of the tests (tests/rigs/faults.py).

Invariants: the same seed gives the same access log byte for byte, whatever PYTHONHASHSEED is;
nothing waits in real time; no socket leads out of the process.
"""
