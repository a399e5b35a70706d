"""LARM's log storage: processing module, writer, reader, the lines of its logs."""

from webcrawl.pipelines.larm.pipeline import LarmPipeline

__all__ = ["LarmPipeline"]
