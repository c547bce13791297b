"""Small models that `sentencepiece` trains here, and the vocabularies that a GGUF file would make of them."""

from __future__ import annotations

import io
import random

from plugin_harness import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER_DEFINED, VocabularyColumns
from random_texts import PARTS
from sentencepiece_reference import ADD_SPACE_PREFIX


def corpus(lines: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    made = ["".join(chance.choice(PARTS) * chance.choice([1, 1, 2]) for _ in range(20)) for _ in range(lines)]
    return [line.replace("\n", " ").replace("\0", "") for line in made]  # the trainer takes lines


def train(*, prefix: bool, user_defined: tuple[str, ...] = (), pieces: int = 2500, lines: int = 4000, **options):
    """A BPE model with byte fallback and no normalisation, as Llama's and Gemma's are."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus(lines, 1)),
        model_writer=model,
        vocab_size=pieces,
        add_dummy_prefix=prefix,
        user_defined_symbols=list(user_defined),
        **{
            "model_type": "bpe",
            "byte_fallback": True,
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
            "allow_whitespace_only_pieces": True,
            "split_by_unicode_script": False,
            "split_by_number": False,
            "character_coverage": 0.999,
            "max_sentence_length": 100_000,
            "minloglevel": 2,
        }
        | options,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def columns(processor, *, prefix: bool, user_defined: tuple[str, ...] = (), model: str = "llama") -> VocabularyColumns:
    ids = range(processor.vocab_size())
    kinds = [
        (UNKNOWN, processor.is_unknown),
        (CONTROL, processor.is_control),
        (UNUSED, processor.is_unused),
        (BYTE, processor.is_byte),
    ]
    texts = [processor.id_to_piece(one) for one in ids]
    types = [next((kind for kind, holds in kinds if holds(one)), NORMAL) for one in ids]
    for text in user_defined:
        types[texts.index(text)] = USER_DEFINED
    scores = [processor.get_score(one) for one in ids]
    flags = (ADD_SPACE_PREFIX if prefix else 0, 1, 2, 0)
    return VocabularyColumns(texts, [], "default", model, types, flags, scores)
