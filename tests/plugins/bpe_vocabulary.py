"""A small byte-level BPE vocabulary, trained on random texts."""

from __future__ import annotations

import json

from plugin_harness import CONTROL, NORMAL, VocabularyColumns
from random_texts import texts
from tokenizers import Tokenizer, models, pre_tokenizers, trainers


def trained(size: int) -> VocabularyColumns:
    """So many normal tokens, and two control tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts(2000, 1), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    words = sorted(model["vocab"], key=model["vocab"].__getitem__)
    merges = [" ".join(merge) for merge in model["merges"]]
    types = [NORMAL] * len(words) + [CONTROL] * 2
    return VocabularyColumns([*words, "<|im_start|>", "<|im_end|>"], merges, types=types)
