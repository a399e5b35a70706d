"""The purpose of a crawl, and the preferences of site owners for it."""
