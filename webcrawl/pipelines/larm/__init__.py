"""Storage of pages in the files of LARM: processing module, writer, reader and line format."""

from webcrawl.pipelines.larm.pipeline import LarmPipeline

__all__ = ["LarmPipeline"]
