"""A processing module that prints and raises what a page could have: controls, markup, no end."""

from __future__ import annotations

from webcrawl.pipelines.module import ProcessingModule

HOSTILE = "[bold]T\x1b[2J\x1b]0;x\x07\x9b1A[/none]"


class PrintingModule(ProcessingModule):
    def process(self, page):
        print("begun", end=" ")
        print(f"{HOSTILE} done")
        raise ValueError(HOSTILE)
