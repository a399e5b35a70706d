"""Politeness: the checks before a host is contacted, and its pause after each contact."""
