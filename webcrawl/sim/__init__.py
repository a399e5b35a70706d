"""Rehearsal: a whole crawl in virtual time, with its servers in the same process.

``process.simulate`` turns a process into a simulated one, until it ends. The event loop's time
jumps to the next timer (``loop``), the work of threads is done at random moments, and connections
lead to simweb in the same process (``network``, ``web``). ``scrapy rehearse`` starts ``python -m
webcrawl.sim``. The method is that of FoundationDB's and TigerBeetle's simulators: everything that
runs in production runs here. Faults of servers and networks are added by the tests
(tests/rigs/faults.py).

Invariants: the same seed gives the same access log byte for byte, whatever PYTHONHASHSEED is;
nothing waits in real time; no socket leads out of the process.
"""
