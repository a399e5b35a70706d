"""Files that an operator publishes about the crawler, and checks of what is published.

Modules: published (the files, with the key that belongs to them), check (what others see of them).
The command is ``scrapy identity``.
"""
