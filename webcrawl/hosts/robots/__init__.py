"""robots.txt: what a host allows, remembered for a day (RFC 9309).

`rules` answers for one crawler what one file allows: `grammar` reads the file, `match` finds the
rule that decides, `spelling` makes paths comparable. `cache` keeps the answers for many hosts, as
`entry` packs them, in a store that outlives the process. Fetching is not done here: robots.txt is
a request to the host like any other, so whoever leases the host fetches it, follows its redirects
as further contacts (five at most, then it counts as missing), and puts what came into the cache.

Invariant: no bytes make these modules raise, or take more than their bounds of time and memory.
"""
