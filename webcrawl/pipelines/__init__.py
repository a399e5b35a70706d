"""Processing modules: Scrapy item pipelines that get every fetched page (Mercator, section 3).

A processing module is a Scrapy item pipeline. It gets every fetched ``webcrawl.items.Page`` whose
document was not seen before, with any content type and status. By then the page's links have
been submitted to the frontier, so a module cannot change which links are followed. Modules run in
the order of ITEM_PIPELINES; each gets what the one before it returned. The default module is
``webcrawl.pipelines.warc.WarcPipeline``, which stores the whole exchange.

To write one, derive from ``webcrawl.pipelines.module.ProcessingModule``. It selects pages by
content type and follows the first three rules below for you; docs/howto/write-a-module.md has an
example. A plain Scrapy pipeline also works. The rules are:

- A module passes on all items that it does not handle: it checks their type, and the
  ``content_type`` of pages.
- All modules share one Page, so a module must not change it. To pass data to a later module, return
  an item of your own class.
- ``process_item`` runs in the reactor thread, where 50 ms is long. Set ``off_loop`` for work that
  takes longer or may wait for a disk; it then runs in a thread.
- A URL counts as done when ``process_item`` of every module has returned. By then, a module that
  must not lose a page when the process is killed must have written it. A module that must not lose
  a page in a power failure connects to ``webcrawl.signals.checkpoint`` and calls fsync there.
- Pages that go through no module are sent with the signal ``webcrawl.signals.unprocessed``. These
  are robots.txt files and pages whose document was seen before.
- ``DropItem`` keeps a page from the modules after this one. Scrapy logs and counts any other
  exception; it affects this page only. After MODULE_MAX_FAILURES failed pages in a row the crawl
  ends, and its last message names the command that fetches them again. An ``OSError`` of a full or
  broken disk also ends the crawl; that page is fetched again when the crawl is resumed.
"""
