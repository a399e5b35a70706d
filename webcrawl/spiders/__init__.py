"""The spiders: ``web`` is the main one; a user's own spiders live beside it."""
