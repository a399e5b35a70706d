"""LARM's log storage: processing module, writer, reader, and the format of its log lines."""

from webcrawl.pipelines.larm.pipeline import LarmPipeline

__all__ = ["LarmPipeline"]
