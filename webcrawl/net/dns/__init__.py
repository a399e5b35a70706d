"""Resolves host names to addresses: resolver with a cache, name servers, DNS messages."""
