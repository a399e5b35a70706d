"""HTTP and HTTPS: download handler, connections, the exchange on the wire, decoding."""
