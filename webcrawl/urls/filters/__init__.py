"""URL filters: the chain, path filters, scope, host rules, patterns."""
