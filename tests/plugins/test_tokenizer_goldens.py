"""What `sentencepiece` and llama.cpp answered for small vocabularies (make_tokenizer_goldens.py)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from plugin_harness import VocabularyColumns
from publishers_rules import APART, STEPS

GOLDENS = json.loads((Path(__file__).parents[1] / "goldens/tokenizers.json").read_text())
RULES = GOLDENS["llama.cpp"]["ids"]


def recorded(part: str) -> VocabularyColumns:
    facts = GOLDENS[part]["vocabulary"]
    return VocabularyColumns(**facts | {"flags": tuple(facts["flags"])})


def test_sentencepieces_ids_are_the_guests(load_spm):
    guest, cases = load_spm(recorded("sentencepiece")), GOLDENS["sentencepiece"]["cases"]
    assert len(cases) >= 30
    for case in cases:
        assert guest.encode(case["text"]) == case["ids"], case["text"]


def test_every_rule_has_its_ids():
    assert RULES.keys() == STEPS.keys() - APART


@pytest.mark.parametrize("name", RULES)
def test_llamacpps_ids_are_the_guests(load_tokenizer, name):
    guest = load_tokenizer(replace(recorded("llama.cpp"), pre=name))
    for text, ids in zip(GOLDENS["llama.cpp"]["texts"], RULES[name], strict=True):
        assert guest.encode(text) == ids, text
