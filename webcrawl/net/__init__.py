"""Everything that touches the network on behalf of one fetch.

Life of a fetch::

    HttpDownloadHandler ─► HttpConnections ─► Dialer ─► Resolver ─► name servers by UDP, or by TCP
          │ addresses that AddressGuard permits, and to no other
          │ connect, one at a time, plain or TLS; connections are reused within one host only
          ▼
    header, in time and within bounds; a content type that is wanted
          ▼
    body, fast enough, cut at PAGE_MAX_BYTES ─► ContentDecodingMiddleware ─► the spider's Response
          │ failed
          ▼
    an exception of `outcomes`, whose name is counted in the stats and decides on a retry

Modules. For every protocol: `guard` (the addresses and schemes that may be contacted), `fence`
(whether they still may), `limits` (the bounds, from the settings), `dialer` (new connections),
`outcomes`. Names, in `dns`: `wire` and `query` (DNS messages and their exchange), `servers` (the
system's name servers), `resolver` (one for a crawler) and its cache. HTTP, in `http`: `handler`,
`request` (as it is sent), `connections` (direct ones, those through proxies, and the pool of idle
ones), `exchange` (a request and its answer over one of them), `head` (heads that break the rules,
mended), `chunks` (chunked bodies), `answers` (the responses made of them), `decoding` (content
codings), `large_bodies`. FTP and Gopher: `contact` (the connection), `documents` (URLs, responses,
and lists as pages of links), `ftp`, `gopher`.

Invariants. One `download_request` sends at most one HTTP request: nothing here retries, follows a
redirect or races two connections, for the politeness of the frontier counts on it. Nothing is
sent to an address that the guard forbids. No answer takes more memory or time than its bounds,
whatever the server sends. Nothing here blocks: names are resolved without threads, and what is
decoded is bounded.
"""
