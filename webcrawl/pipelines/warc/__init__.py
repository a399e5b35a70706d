"""WARC: processing module, writer, records, recovery."""
