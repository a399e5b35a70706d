"""Politeness: what is checked before a contact, and how long the host rests after it."""
