"""Records what `sentencepiece` and llama.cpp answer for two small vocabularies, so that quick tests can do without them.

    pip install llama-cpp-python==0.3.36 sentencepiece==0.2.3
    python tests/plugins/make_tokenizer_goldens.py         # writes tests/goldens/tokenizers.json

Each part of the file: `vocabulary` (the columns of a VocabularyColumns), and `cases`: text, ids. The part `llama.cpp` has
ids for each rule for splitting that llama.cpp takes from the models' publishers as it is.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

import gguf

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bpe_vocabulary import trained
from llamacpp_vocabularies import LlamaCpp
from plugin_harness import VocabularyColumns
from publishers_rules import ALIKE, APART, STEPS
from random_texts import texts
from sentencepiece_models import columns, train

TARGET = Path(__file__).resolve().parents[1] / "goldens/tokenizers.json"
USER_DEFINED = ("<tool>", "hello")
TEXTS = [
    "Hello world, it's 12345 things!  Don't   PANIC\n\n\tok",
    "def f(x):\n    return x**2 + 1.5e-3  # 100%",
    "Größe naïve e\u0301a\u0308 ÀÉ МоскВА привет",
    "今天天气很好。いろは 한국어 テスト",
    "http://example.org/?q=1&r=<tool>hello",
    "👩‍👩‍👧 😀🏽 →∑≤½ €5",
    " leading and trailing ",
    "\r\n\r\n mixed \n  \n breaks\t",
    "CamelCaseWORDS McDonald's IT'S",
    "$1,234.56 + 999 = `code`",
]


def sentencepiece_part() -> dict[str, object]:
    processor = train(prefix=True, user_defined=USER_DEFINED, pieces=900, lines=1000, character_coverage=0.98)
    words = columns(processor, prefix=True, user_defined=USER_DEFINED)
    samples = [text for text in [*TEXTS, *texts(30, 51)] if not text.startswith(USER_DEFINED)]
    return {"vocabulary": asdict(words), "cases": [{"text": text, "ids": processor.encode(text)} for text in samples]}


def llamacpp_ids(words: VocabularyColumns, folder: Path) -> list[list[int]]:
    path = folder / f"{words.pre}.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(words.model)
    writer.add_tokenizer_pre(words.pre)
    writer.add_token_list(words.texts)
    writer.add_token_types(words.types)
    writer.add_token_merges(words.merges)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    peer = LlamaCpp(path)
    ids = [peer.encode(text) for text in TEXTS]
    peer.close()
    return ids


def llamacpp_part() -> dict[str, object]:
    """The ids for each rule; the other names of a rule must give the same.

    Raises:
        ValueError: llama.cpp takes two names for different rules that mean the same one here.
    """
    words, ids = trained(600), {}
    with tempfile.TemporaryDirectory() as folder:
        for rule in sorted(STEPS.keys() - APART):
            ids[rule] = llamacpp_ids(replace(words, pre=rule), Path(folder))
            for name in set(ALIKE.get(rule, ())) - APART:
                if llamacpp_ids(replace(words, pre=name), Path(folder)) != ids[rule]:
                    raise ValueError(f"expected {name} to mean {rule}")
    return {"vocabulary": asdict(words), "texts": TEXTS, "ids": ids}


def main() -> None:
    parts = {"sentencepiece": sentencepiece_part(), "llama.cpp": llamacpp_part()}
    lines = (
        json.dumps(parts, ensure_ascii=True, separators=(",", ":"))
        .replace('{"text"', '\n{"text"')
        .replace("]],", "]],\n")
    )
    TARGET.write_text(lines + "\n", encoding="ascii")
    sys.stdout.write(f"wrote {TARGET.name}, {TARGET.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
