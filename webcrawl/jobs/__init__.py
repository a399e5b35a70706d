"""A job directory, looked at beside its crawl: check, inspect, replay, audit."""
