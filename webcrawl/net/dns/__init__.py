"""Names to addresses: resolver, cache, messages."""
