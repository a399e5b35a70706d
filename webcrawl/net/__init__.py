"""Everything that touches the network on behalf of one fetch.

Life of a fetch::

    HttpDownloadHandler ─► GuardedResolver ─► Resolver ─► name servers over UDP, TCP when truncated
          │ connect, one at a time, plain or TLS; connections are reused within one host only
          ▼
    answer, cut at PAGE_MAX_BYTES ─► ContentDecodingMiddleware ─► the spider's Response
          │ failed
          ▼
    an exception of `outcomes`, whose name is counted in the stats and decides on a retry

Modules: `dnswire`, `dnschannel` and `dnsquery` (DNS messages and their exchange), `dnsservers`
(whom to ask), `dns` (the resolver and its cache), `shared` (the one resolver of a crawler), `http`
(the download handler), `answers` (its responses), `decoding` (content codings), `limits` (the
bounds, from the settings), `outcomes` (how it ended).

Invariants. One `download_request` sends at most one HTTP request: nothing here retries, follows a
redirect or races two connections, for the politeness of the frontier counts on it. No answer
takes more memory than its bounds, whatever the server sends. Nothing here blocks: names are
resolved without threads, and what is decoded is bounded.
"""
