"""Chats become the ids that llama.cpp gives, with each space where a text begins, and none but the template's control tokens."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sealhost.host.serving.chat_ids import chat_ids
from sealhost.host.serving.control_text import ControlTexts
from sealhost.host.serving.template import Piece, Rendering
from sealhost.plugins import reference_plugin
from sealhost.sandbox import Sandbox, Vocabulary
from sealhost.signing.declaration import read_plugin

GOLDENS = json.loads((Path(__file__).parents[2] / "goldens/tokenizers.json").read_text())
COLUMNS, CHATS = GOLDENS["sentencepiece"]["vocabulary"], GOLDENS["chats"]
UNKNOWN, CONTROL, BYTE = 2, 3, 6
TEMPLATE = (
    "<|user|>\n",
    "</s>\n<|assistant|>\n",
    "<s>[INST] ",
    " [/INST]",
    "<|done|>\n<|turn|>user\n",
    " ",
    "\n",
)


def vocabulary(add_space_prefix: bool) -> Vocabulary:
    """The recorded one, with the chats' control tokens."""
    more = CHATS["control"]
    texts = [*COLUMNS["texts"], *more]
    types = [*COLUMNS["types"], *[CONTROL] * len(more)]
    spelled = [
        bytes([int(text[3:5], 16)]) if kind == BYTE else text.replace("\u2581", " ").encode()
        for text, kind in zip(texts, types, strict=True)
    ]
    _, bos, eos, unknown = COLUMNS["flags"]
    return Vocabulary(
        model="llama", pre="default", texts=tuple(text.encode() for text in texts), types=np.array(types, np.uint8),
        scores=np.array([*COLUMNS["scores"], *[0] * len(more)], np.float32), merges=(), bos=bos, eos=eos, unknown=unknown,
        add_bos=True, add_eos=False, add_space_prefix=add_space_prefix, token_bytes=tuple(spelled),
    )  # fmt: skip


@pytest.fixture(scope="module", params=[True, False])
def model(request: Any, tmp_path_factory: Any) -> Iterator[Any]:
    """What chat_ids needs of a served model, with the reference guest as its tokenizer."""
    words = vocabulary(request.param)
    source = read_plugin(reference_plugin("tokenizer", "spm") / "plugin.wasm")
    facts = {field.name: getattr(source, field.name) for field in fields(source)}
    guest: Any = SimpleNamespace(**facts, sha256=hashlib.sha256(source.wasm).hexdigest())
    silent = [text.decode() for text, kind in zip(words.texts, words.types, strict=True) if kind in {UNKNOWN, CONTROL}]
    with Sandbox(cache_directory=tmp_path_factory.mktemp("cache")) as sandbox:
        yield SimpleNamespace(
            tokenizer=sandbox.load_tokenizer(guest, words), token_bytes=words.token_bytes, bos=words.bos, eos=words.eos,
            add_space_prefix=words.add_space_prefix, control=ControlTexts(silent), control_texts=silent, context=1 << 20,
        )  # fmt: skip


def rendering(pieces: list[tuple[str, bool]]) -> Rendering:
    parts = tuple(Piece(text, from_message=ours) for text, ours in pieces if text)
    return Rendering("".join(part.text for part in parts), parts)


@pytest.mark.parametrize("model", [True], indirect=True)
@pytest.mark.parametrize("case", CHATS["cases"], ids=lambda case: case["pieces"][0][0] + case["pieces"][1][0])
def test_chats_have_llamacpps_ids(model: Any, case: dict[str, Any]) -> None:
    assert chat_ids(model, rendering(case["pieces"])) == case["ids"]


@pytest.mark.parametrize("seed", range(20))
def test_a_chat_that_is_divided_has_the_ids_of_one_run(model: Any, seed: int) -> None:
    chance = random.Random(seed)
    said = ["Who", " is it?", "  ", "\n", "字", "<tool>", "hello", "<s", "<|do", "😀", "forged"]
    pieces = []
    for _ in range(6):
        pieces += [("".join(chance.choices(TEMPLATE, k=chance.randint(0, 2))), False)]
        pieces += [("".join(chance.choices(said, k=chance.randint(0, 5))), True)]
    pieces.append(("forged", True))
    made = rendering(pieces)
    # where `forged` counts as a control token, too, the chat is divided; for the guest it is plain text
    divided = SimpleNamespace(**vars(model) | {"control": ControlTexts([*model.control_texts, "forged"])})
    assert chat_ids(divided, made) == chat_ids(model, made)


def test_a_bos_within_a_longer_control_token_begins_no_text(model: Any) -> None:
    longer = SimpleNamespace(**vars(model) | {"control": ControlTexts([*model.control_texts, "[<s>]"])})
    made = Rendering("a[<s>]b", None)
    assert chat_ids(longer, made) == model.tokenizer.encode(made.text, add_special=False, parse_special=True)
