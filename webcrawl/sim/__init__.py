"""Rehearsal: a whole crawl in virtual time, with its servers in the same process.

``process.simulate`` turns the process into a simulated one until it ends. The event loop's time
jumps to the next timer (``loop``), the work of threads is done at random times, and connections
lead to simweb in the same process (``network``, ``web``). ``scrapy rehearse`` starts ``python -m
webcrawl.sim``. The simulators of FoundationDB and TigerBeetle use the same method: all code that
runs in production runs here. The tests add faults of servers and networks
(tests/rigs/crawls/faults.py).

Invariants: the same seed gives the same access log byte for byte, for every PYTHONHASHSEED;
nothing waits in real time; no socket leads out of the process.
"""
