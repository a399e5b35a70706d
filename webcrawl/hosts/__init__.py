"""Everything known and decided per host: records, robots.txt, rules, politeness, budgets.

How a URL passes its host
=========================

::

    a URL is found
         |
    gates                may it be queued now? Otherwise it is parked   budgets/
         |
    the frontier         has its host's queue, and knows how long the host rests
         |
    preconditions        excluded? failed too often? its address?       politeness/preconditions.py
         |               allowed by robots.txt? Unknown facts are       politeness/addresses.py
         |               looked up first, and no worker waits for them  robots/lookup.py
         |
    the contact          elsewhere: package ``net``
         |
    after the contact    a page, or something in its place?             politeness/walls.py
         |               a failure of the host, or of the network?      politeness/outage.py
         |               for how long do host and origin rest?          politeness/delays.py
         |               which rules did robots.txt bring?              robots/rules_cache.py
         |
    the URL has ended    is it retried? (the table of outcomes)         retry_policy.py
         |               did it bring anything new?                     budgets/traps/keeper.py
         |
    records              facts that survive a restart, in SQLite        records/

The package ``crawl.lease`` asks these questions in the right order.

What each fact belongs to
=========================

=================  ================================================================================
politeness key     its rest after a contact. A host name, unless POLITENESS_KEY makes it a
                   registered domain or an address, or HOSTS_POLICY_FILE divides the host
host name          addresses, consecutive failures, times of the last contacts, pages and bytes,
                   fruitless URLs, walls: one ``HostRecord``
an origin          robots.txt (RFC 9309); consecutive failures, as a page may link to ports on which
                   nothing listens (politeness/origin_rests.py)
registered domain  pages, bytes, and the domains that link to it: a ``HostCounter``
the process        rules for hosts, pauses, outages: the same for all hosts
=================  ================================================================================

Invariants
==========

1. No page is fetched before the address of its host is known and permitted, unless a proxy looks it
   up. With ROBOTSTXT_OBEY, none is fetched before robots.txt was requested. robots/rules_cache.py
   says how long its answer holds, and what it means if there is none.
2. A rest is never shorter than the delay policy says; Crawl-delay, Retry-After, back-off and jitter
   only make it longer. Only HOSTS_POLICY_FILE can shorten it, where the owner allows that.
3. A URL that is over a budget waits on disk under the name of a gate; it is not dropped. A URL that
   a precondition refuses ends with an outcome, which is logged.
4. During an outage no failure counts. Failures just before it was noticed do count.
5. Recently used hosts are in memory, the others on disk. Only the file grows with the number of
   hosts.

After a crash
=============

=================================  ================================================================
host records, robots.txt,          restored as of two or three seconds before, see records/
counters of domains
rests of hosts                     restored by the frontier: no host is contacted too early
learned traps, pauses, outages     lost: they are learned, or begin, again
rests of single origins            restored from the records of the origins
=================================  ================================================================

Stored times are epoch seconds.
"""
