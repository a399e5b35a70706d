"""robots.txt: the rules of a host, cached for a day (RFC 9309).

`rules` answers for one crawler what one file allows: `grammar` reads the file, `match` finds the
rule that decides, `spelling` makes paths comparable. `rules_cache` keeps the answers for many
hosts, as `robots_record` packs them, in a store that outlives the process. `lookup` says what to
fetch: robots.txt is a contact of its host like any other.

Invariant: no bytes make these modules raise, or take more than their bounds of time and memory.
"""
