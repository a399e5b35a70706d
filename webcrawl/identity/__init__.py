"""Identity of the crawler, as site owners see it.

Modules: names (User-Agent and product tokens).
"""
