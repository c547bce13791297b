"""The SentencePiece guest against `sentencepiece`, on models that it trains here."""

from __future__ import annotations

import pytest
from random_texts import texts
from sentencepiece_models import columns, train
from sentencepiece_reference import BLANK

pytestmark = pytest.mark.oracle

USER_DEFINED = ("<tool>", "hello", "字")
COUNT = 20_000


@pytest.mark.parametrize("user_defined", [(), USER_DEFINED], ids=["plain", "user-defined"])
@pytest.mark.parametrize("prefix", [True, False], ids=["prefix", "no prefix"])
def test_random_texts_agree(load_spm, prefix, user_defined):
    processor = train(prefix=prefix, user_defined=user_defined)
    guest = load_spm(columns(processor, prefix=prefix, user_defined=user_defined))
    samples = [*texts(COUNT, 21), "", " ", BLANK, f"a{BLANK}b {BLANK}", "<s></s><unk>", "x<tool>y<tool> z", "<0x41>"]
    for text in samples:
        expected = processor.encode(text)
        if prefix and text.startswith(user_defined):
            expected = expected[1:]  # README rule 4: no space before a token of its own
        assert guest.encode(text) == expected, text
