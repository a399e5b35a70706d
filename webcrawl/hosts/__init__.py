"""Everything known and decided per host: records, robots.txt, rules, politeness, budgets.

The way of a URL past its host
==============================

::

    a URL is found
         |
    gates                may it be queued now? Otherwise it is parked   budgets/
         |
    the frontier         has its host's queue, and knows how long it rests
         |
    preconditions        excluded? failed too often? its address?       politeness/preconditions.py
         |               allowed by robots.txt? What is unknown is      politeness/addresses.py
         |               looked up first, and no worker waits for it    robots/lookup.py
         |
    the contact          nothing of it is in here
         |
    after the contact    a page, or something in its place?             politeness/walls.py
         |               a failure of the host, or of the network?      politeness/outage.py
         |               for how long do host and origin rest?          politeness/delays.py
         |               which rules did robots.txt bring?              robots/rules_cache.py
         |
    the URL has ended    is it tried again? (the table of outcomes)     retry_policy.py
         |               was it worth it, for the host's account?       budgets/traps/keeper.py
         |
    records              what must outlast the process, in SQLite       records/

Who asks these questions, and in what order, is in the room ``crawl.lease``.

Whose facts they are
====================

=================  ================================================================================
politeness key     its rest after a contact. A host name, unless POLITENESS_KEY makes it a
                   registered domain or an address, or HOSTS_POLICY_FILE divides the host
host name          addresses, failures in a row, times of the last contacts, pages and bytes, URLs
                   fetched in vain, walls: one ``HostRecord``
an origin          robots.txt (RFC 9309); failures in a row, as a page may link to ports on which
                   nothing listens (politeness/origin_rests.py)
registered domain  pages, bytes, and the domains that link to it: a ``HostCounter``
the process        rules for hosts, pauses, outages: the same for all hosts
=================  ================================================================================

Invariants
==========

1. No page is fetched before the address of its host is known and permitted, unless a proxy looks it
   up, nor, with ROBOTSTXT_OBEY, before robots.txt was asked for. For how long its answer holds, and
   what it means if there is none, is in robots/rules_cache.py.
2. A rest is never shorter than the delay policy says; Crawl-delay, Retry-After, back-off and jitter
   only make it longer. Only HOSTS_POLICY_FILE can shorten it, where the owner allows that.
3. A URL that is over a budget waits on disk under the name of a gate; nothing of it is dropped.
   What a precondition refuses ends with an outcome, which the log has.
4. During an outage no failure counts. Failures just before it was noticed have counted.
5. In memory are the hosts that were met last; the others are on disk. Nothing grows with the number
   of hosts but the file.

After a crash
=============

=================================  ================================================================
host records, robots.txt,          as they were two or three seconds before, see records/
counters of domains
rests of hosts                     by the frontier: no host is contacted sooner for it
learned traps, pauses, outages     nothing: they are learned, or begin, again
rests of single origins            from the records of the origins
=================================  ================================================================

Times are epoch seconds where they are stored.
"""
