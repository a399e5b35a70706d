"""robots.txt: what a host allows, remembered for a day (RFC 9309).

`rules` reads one file and answers for one user agent; `cache` keeps the answers for many hosts in
bounded memory. Fetching is not done here: robots.txt is a request to the host like any other, so
whoever leases the host fetches it, follows its redirects as further contacts (five at most, then
it counts as missing), and puts what came into the cache.

Invariant: no bytes make these modules raise, or take more than their bounds of time and memory.
"""
