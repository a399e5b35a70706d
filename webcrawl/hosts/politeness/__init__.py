"""Politeness: the preconditions of a contact, and the rest of the host after it."""
