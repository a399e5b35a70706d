"""robots.txt: the rules of a host, cached for a day (RFC 9309).

`rules` answers, for one crawler, what one file allows: `grammar` reads the file, `match` finds the
rule that decides, `spelling` makes paths comparable. `rules_cache` keeps the answers of many hosts,
packed by `robots_record`, in a store that survives the process. `lookup` says what to fetch, as
robots.txt is a contact of its host like any other.

Invariant: no input makes these modules raise, or exceed their limits of time and memory.
"""
