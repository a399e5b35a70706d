"""Preconditions of a contact, and the rest that follows it."""
