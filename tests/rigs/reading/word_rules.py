"""Prints webcrawl/pipelines/datasets/words.json; needs the packages of .venv-datasets.

.venv-datasets/bin/python tests/rigs/reading/word_rules.py > webcrawl/pipelines/datasets/words.json
"""

import json

import spacy
from datatrove.pipeline.filters import c4_filters, gopher_quality_filter
from datatrove.utils.text import PUNCTUATION, TERMINAL_PUNCTUATION
from spacy.attrs import ORTH


def main():
    english = spacy.blank("en")
    tokenizer = english.tokenizer
    found = {
        "source": "spaCy (MIT) and datatrove (Apache-2.0), by tests/rigs/reading/word_rules.py",
        "prefix": tokenizer.prefix_search.__self__.pattern,
        "suffix": tokenizer.suffix_search.__self__.pattern,
        "infix": tokenizer.infix_finditer.__self__.pattern,
        "url": tokenizer.url_match.__self__.pattern,
        "special": sorted(
            " ".join(part[ORTH] for part in parts)
            for word, parts in tokenizer.rules.items()
            if word.split() == [word]
        ),
        "sentence_ends": "".join(sorted(english.add_pipe("sentencizer").punct_chars)),
        "punctuation": PUNCTUATION,
        "terminal": "".join(sorted(TERMINAL_PUNCTUATION)),
        "stop_words": gopher_quality_filter.STOP_WORDS,
        "policies": c4_filters.POLICY_SUBSTRINGS,
    }
    print(json.dumps(found, indent=0))


if __name__ == "__main__":
    main()
