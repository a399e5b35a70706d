"""Limits of hosts and domains: quotas, reputation, depths, traps."""
