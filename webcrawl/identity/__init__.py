"""Identity of the crawler, as site owners see it.

Modules: names (User-Agent and product tokens), keys (the signing key in its file),
signatures (those of requests and of the key directory).
"""
