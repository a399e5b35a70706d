"""Everything that is known and decided per host: records, robots.txt, politeness, budgets.

What is decided about a URL
===========================

::

    the URL is found
         |
    gates                May it be queued now, or is it parked?         budgets/
         |
    the frontier         has the host's queue, and knows how long the host pauses
         |
    preconditions        Is the host excluded? Has it failed too often? politeness/preconditions.py
         |               What is its address? Does robots.txt allow     politeness/addresses.py
         |               the URL? Unknown facts are looked up first,    robots/lookup.py
         |               and no worker waits for them
         |
    the contact          is made by the package ``net``
         |
    after the contact    Is it a page, or a wall in its place?          politeness/walls.py
         |               Did the host fail, or the network?             politeness/outage.py
         |               How long do host and origin pause?             politeness/delays.py
         |               Which rules are in robots.txt?                 robots/rules_cache.py
         |
    the URL has ended    Is it retried? (the table of outcomes)         retry_policy.py
         |               Did it have new content?                       budgets/traps/keeper.py
         |
    records              Facts that survive a restart, in SQLite        records/

The package ``crawl.lease`` asks these questions, in this order.

What each fact belongs to
=========================

=================  ================================================================================
politeness key     the pause after a contact. The key is a host name, unless POLITENESS_KEY makes it
                   a registered domain or an address, or HOSTS_POLICY_FILE divides the host
host name          addresses, consecutive failures, times of the last contacts, pages and bytes,
                   fruitless URLs, walls: one ``HostRecord``
an origin          robots.txt (RFC 9309); consecutive failures, because a page may link to ports on
                   which nothing listens (politeness/origin_rests.py)
registered domain  pages, bytes, and the domains that link to it: a ``HostCounter``
the process        rules for hosts, pauses, outages: the same for all hosts
=================  ================================================================================

Invariants
==========

1. No page is fetched before the address of its host is known and permitted, unless a proxy looks up
   the address. With ROBOTSTXT_OBEY, no page is fetched before robots.txt was requested.
   robots/rules_cache.py says how long the rules are valid, and what applies if there are none.
2. A pause is never shorter than the delay policy says; Crawl-delay, Retry-After, back-off and
   jitter only make it longer. Only HOSTS_POLICY_FILE can shorten it, where the owner allows that.
3. A URL that is over a budget waits on disk under the name of a gate; it is not dropped. A URL that
   a precondition refuses ends with an outcome, which is logged.
4. During an outage no failure counts. Failures just before it was detected do count.
5. Recently used hosts are in memory, the others on disk. Only the file grows with the number of
   hosts.

After a crash
=============

=================================  ================================================================
host records, robots.txt,          restored as of two or three seconds before, see records/
counters of domains
pauses of hosts                    restored by the frontier: no host is contacted too early
learned traps, pauses, outages     lost: they are learned or detected again
pauses of single origins           restored from the records of the origins
=================================  ================================================================

Stored times are epoch seconds.
"""
