"""Host names to addresses: resolver, cache, DNS messages."""
