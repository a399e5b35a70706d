"""Columns of the text dataset that are computed from the text, as datatrove computes them.

``words`` divides a text into words, ``signals`` has the numbers of known quality rules, and
``minhash`` has the values by which ``clusters`` finds near-duplicates. ``addresses`` finds and
replaces email and IP addresses.
"""
