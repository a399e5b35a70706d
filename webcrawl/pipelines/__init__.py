"""Processing modules: Scrapy item pipelines that get every fetched page (Mercator, section 3).

A processing module is a Scrapy item pipeline. It gets every ``webcrawl.items.Page`` that was
fetched and whose document was not seen before, whatever its content type and status, after its
links were submitted to the frontier; what a module does has no influence on where the crawl goes.
Modules run in the order of ITEM_PIPELINES, each getting what the one before it returned. The
default one is ``webcrawl.pipelines.warc.WarcPipeline``, which stores the whole exchange.

To write one, derive from ``webcrawl.pipelines.module.ProcessingModule``, which picks pages by
content type and takes care of the first three of these rules; docs/modules.md has an example. A
plain Scrapy pipeline does as well. The rules, each with its reason:

- A module lets what is not its own pass: other items by type, other pages by ``content_type``.
- A Page is shared by all modules and is not changed. A module passes data to a later one
  in an item of a class of its own.
- ``process_item`` runs in the reactor thread, where 50 ms are long. What takes longer, or may wait
  for a disk, is done in a thread: ``off_loop``.
- The URL counts as done when ``process_item`` of all modules has returned. A module that must not
  lose a page when the process is killed has written it by then; one that must not lose it when the
  power fails connects to ``webcrawl.signals.checkpoint`` and calls fsync there.
- Pages that go through no module, as their document was seen before or they are a robots.txt, are
  sent with the signal ``webcrawl.signals.unprocessed``.
- ``DropItem`` keeps a page from the modules after this one. Any other exception is logged and
  counted by Scrapy and concerns this page only. MODULE_MAX_FAILURES pages in a row end the crawl,
  whose last sentence names the command that gets them again. So does an ``OSError`` of a full or
  broken disk: such a page is fetched again when the crawl is resumed.
"""
