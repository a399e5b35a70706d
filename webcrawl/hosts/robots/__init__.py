"""robots.txt: the rules of a host, cached for a day (RFC 9309).

`rules` decides what one file allows one crawler: `grammar` parses the file, `match` finds the rule
that decides, and `spelling` makes paths comparable. `rules_cache` keeps the answers of many hosts,
packed by `robots_record`, in a store that survives the process. `lookup` decides which robots.txt
to fetch, as fetching it is a contact of its host like any other.

Invariant: no input makes these modules raise, or exceed their limits of time and memory.
"""
