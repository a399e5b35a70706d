"""Fetching of single URLs over the network, for every protocol.

The life of a fetch::

    HttpDownloadHandler ─► HttpConnections ─► Dialer ─► Resolver ─► name servers by UDP, or by TCP
          │ only to addresses that AddressGuard permits
          │ connect, one at a time, plain or TLS; connections are reused within one host only
          ▼
    header, received in time and within the limits, with a content type that is wanted
          ▼
    body, fast enough, cut at PAGE_MAX_BYTES ─► ContentDecodingMiddleware ─► the spider's Response
          │ failed
          ▼
    an exception of `outcomes`, whose name is counted in the stats and decides on a retry

Modules. For every protocol: `guard` (the addresses and schemes that may be contacted), `fence`
(whether the host still belongs to this process), `limits` (the limits, from the settings), `dialer`
(new connections), `outcomes` (names and exceptions of failures), `latencies` (histograms of the
process). DNS, in `dns`: `wire` and `query` (DNS messages and their exchange), `servers` (the
system's name servers), `resolver` (one per crawler, with a cache). HTTP, in `http`: `handler`,
`request` (in the form that is sent), `connections` (direct ones, those through proxies, and the
pool of idle ones), `exchange` (a request and its answer over a connection), `answer` (its header
and body, from the bytes that are received), `head` (repairs malformed heads), `chunks` (chunked
bodies), `responses` (made from answers), `decoding` (content codings), `large_bodies`. FTP and
Gopher: `contact` (the connection), `documents` (URLs, responses, and lists as pages of links),
`ftp`, `gopher`.

Invariants. One `download_request` sends at most one HTTP request. Nothing here retries, follows a
redirect or opens two connections at a time, because the frontier's politeness depends on it.
Nothing is sent to an address that the guard forbids. No answer takes more memory or time than its
limits. Nothing here blocks: names are resolved without threads, and decoding is bounded.
"""
