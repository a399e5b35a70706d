"""Storage of pages in WARC files: processing module, writer, records, recovery."""

from webcrawl.pipelines.warc.pipeline import WarcPipeline

__all__ = ["WarcPipeline"]
