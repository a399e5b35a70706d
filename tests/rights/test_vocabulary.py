"""The table of words: what each source says about each of the five purposes."""

import pytest
from text_tables import each, table

from webcrawl.errors import FatalError
from webcrawl.rights.policy import RightsPolicy
from webcrawl.rights.purposes import PURPOSES
from webcrawl.rights.vocabulary import ALLOW, REFUSE, verdict_of

ALL = " ".join(PURPOSES)
CASES = table(f"""
    content-usage     | train-ai=n                                | train                  |
    content-usage     | train-ai=n, search=y                      | train                  | search
    content-usage     | ai-use=n                                  | agent                  |
    content-usage     | train-genai=n, ai-output=n                | agent train            |
    content-usage     | bots=n                                    | {ALL}                  |
    content-usage     | bots=n, search=y     | agent train archive research | search
    content-usage     | all=y, train-ai=n    | train    | search agent archive research
    content-usage     | train-ai=n, train-ai=y                    | train                  |
    content-usage     | train-ai=y, train-ai=n                    | train                  |
    content-usage     | tdm=n                                     | train research         |
    content-usage     | train-ai=n;until=2027                     | train                  |
    content-usage     | Train-AI=n, train-ai=no, ai-use, nosuch=n |                        |
    content-signal    | search=yes, ai-train=no                   | train                  | search
    content-signal    | Search=NO, AI-Input = no                  | search agent           |
    content-signal    | ai-train=yes, use=reference               | train                  |
    content-signal    | use=immediate                             | search train           |
    content-signal    | use=full, ai-train=n, train-ai=no         |                        |
    tdmrep            | tdm-reservation=1                         | train research         |
    tdmrep            | tdm-reservation=0                         |      | train research
    tdmrep            | tdm-reservation=2, tdm-policy=/1          |                        |
    rsl               | ai-train=prohibits                        | train                  |
    rsl               | all=prohibits                             | {ALL}                  |
    rsl               | others=prohibits, search=permits          | agent train            | search
    rsl               | ai-all=permits, ai-input=prohibits        | agent                  | train
    robots            | noindex, nofollow                         | search                 |
    robots            | none                                      | search                 |
    robots            | noai noimageai                            | agent train            |
    robots            | noarchive                                 | archive                |
    robots            | index, all, notoai                        |                        |
    robots-for-images | noimageai                                 | agent train            |
    license           | https://a.test/noai, ai-train=no          |                        |
    gptbot            | Disallow: /                               |                        |
""")


@each("source text refused allowed", *CASES)
def test_each_source_has_its_own_words(source, text, refused, allowed):
    verdicts = {purpose: verdict_of(source, text, purpose) for purpose in PURPOSES}
    expected = dict.fromkeys(refused.split(), REFUSE) | dict.fromkeys(allowed.split(), ALLOW)
    assert {purpose: verdict for purpose, verdict in verdicts.items() if verdict} == expected


def test_another_policy_is_refused():
    with pytest.raises(FatalError, match="RIGHTS_POLICY must be use, strict or record, not 'all'"):
        RightsPolicy.from_settings({"RIGHTS_POLICY": "all"})
