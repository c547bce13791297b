"""The reference tokenizers in their sandbox against the `tokenizers` library on one thread, in one run.

    python tests/bench/tokenizing.py MODEL.gguf [--json]

MODEL.gguf: any file with a byte-level BPE or a SentencePiece vocabulary; its weights are not read. What is timed is what
a request pays: a fresh instance, the guest, and the check of its answer. Each figure is the median of five, the two sides
taking turns. `ratio`: the library's time over ours, above 1 where we are faster; it is set up with the same vocabulary, and with the
publishers' rules (tests/plugins/publishers_rules.py). `doubling`: the worst growth of time from one size
to its double, from 50,000 to 400,000 bytes. `call_us`: what a text of one letter costs.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import random
import statistics
import sys
import time
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

os.environ["TOKENIZERS_PARALLELISM"] = "false"
TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "plugins"))

MEGABYTE = 1_000_000
PROMPT = 4_000
"""Characters of a usual prompt."""

REPEATS = 5
BLANK = "\u2581"
PATHOLOGICAL = ["a", "-", "_", "字", " ", "\n", "a b ", "<|im_", "é", "9"]
SENTENCES = [
    "The quick brown fox doesn't jump over 13 lazy dogs; it's 2,048 m away.",
    "Быстрая коричневая лиса прыгает через ленивую собаку, и никто этого не замечает.",
    "敏捷的棕色狐狸跳过了懒狗。今天天气很好、我们去公园散步吧。",
    "いろはにほへと ちりぬるを わかよたれそ つねならむ",
    "الثعلب البني السريع يقفز فوق الكلب الكسول",
    "def merge(left: list[int], right: list[int]) -> list[int]:\n    return sorted([*left, *right])\n",
    '{"id": 17, "name": "naïve café", "tags": ["a", "b"], "url": "https://example.org/?q=1&r=2"}',
    "👩‍👩‍👧 emoji 😀 and symbols → ∑ ≤ ½ € 🏳️‍🌈",
    "for (uint32_t i = 0; i < count; i++) {\n\t\ttotal += values[i] * 0.5f; /* half */\n\t}\n",
]


def mixed_text(size: int) -> str:
    """Prose of many languages, code and data, shuffled word by word as well as sentence by sentence; exactly `size` bytes."""
    chance = random.Random(7)
    words = " ".join(SENTENCES).split(" ") + (TESTS.parent / "README.md").read_text().split()
    parts, length = [], 0
    while length < size:
        part = chance.choice(SENTENCES) if chance.random() < 0.5 else " ".join(chance.choices(words, k=12)) + ". "
        parts.append(part + chance.choice(" \n"))
        length += len(parts[-1].encode())
    return "".join(parts).encode()[:size].decode(errors="ignore")


def seconds(work) -> float:
    """Processor time of this thread, on which both sides do all their work: neighbours disturb it least."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def median_times(*works) -> list[float]:
    """The median seconds of each, taking turns, after one round that warms everything up."""
    rounds = [[seconds(work) for work in works] for _ in range(REPEATS + 1)][1:]
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


def load(words, sandbox):
    from sealhost.host.weights.vocabulary import REFERENCE_GUESTS
    from sealhost.plugins import reference_plugin
    from sealhost.signing.declaration import read_plugin

    source = read_plugin(reference_plugin("tokenizer", REFERENCE_GUESTS[words.model]) / "plugin.wasm")
    facts = {one.name: getattr(source, one.name) for one in fields(source)}
    return sandbox.load_tokenizer(SimpleNamespace(**facts, sha256=hashlib.sha256(source.wasm).hexdigest()), words)


def library(words):
    """The `tokenizers` library with the same vocabulary and rule, or None when it has none."""
    if words.model == "llama":
        return sentencepiece_bpe(words)
    return unigram(words) if words.model == "t5" else byte_level(words)


def byte_level(words):
    from publishers_rules import ALIKE, STEPS, WHOLE_PIECES
    from tokenizers import Tokenizer, models, pre_tokenizers

    rule = next((rule for rule, names in ALIKE.items() if words.pre in names), words.pre)
    if words.model != "gpt2" or rule not in STEPS:
        return None
    vocabulary = {text.decode(): token for token, text in enumerate(words.texts)}
    merges = [tuple(merge.decode().split(" ")) for merge in words.merges]
    made = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=rule in WHOLE_PIECES))
    made.pre_tokenizer = pre_tokenizers.Sequence(STEPS[rule])
    return made


def with_blanks(model, words):
    """Spaces as U+2581, one before the text where the vocabulary wants it, as the publishers' files have it."""
    from tokenizers import Tokenizer, normalizers

    made, steps = Tokenizer(model), [normalizers.Replace(" ", BLANK)]
    made.normalizer = normalizers.Sequence([normalizers.Prepend(BLANK)] * words.add_space_prefix + steps)
    return made


def sentencepiece_bpe(words):
    """Scores as merges: every way to cut a piece into two pieces, in the order of the pieces' scores."""
    from tokenizers import models

    vocabulary = {text.decode(errors="replace"): token for token, text in enumerate(words.texts)}
    ordered = sorted(vocabulary, key=lambda text: -words.scores[vocabulary[text]])
    merges = [
        (text[:cut], text[cut:])
        for text in ordered
        if words.types[vocabulary[text]] == 1
        for cut in range(1, len(text))
        if text[:cut] in vocabulary and text[cut:] in vocabulary
    ]
    unknown = words.texts[words.unknown].decode()
    return with_blanks(models.BPE(vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True), words)


def unigram(words):
    """Without the file's normaliser, which is the host's own code here; so the mixed text is normalised before."""
    from tokenizers import models

    named = [
        text.decode() if kind == 1 else f"\ue000{token}"
        for token, (text, kind) in enumerate(zip(words.texts, words.types.tolist(), strict=True))
    ]
    scores = (words.scores * (words.types == 1)).tolist()  # the worst score, too, is that of a normal token
    listed = list(zip(named, scores, strict=True))
    return with_blanks(models.Unigram(listed, unk_id=words.unknown, byte_fallback=False), words)


def measure(words, sandbox) -> dict[str, object]:
    began = time.perf_counter()
    tokenizer = load(words, sandbox)
    found: dict[str, object] = {"model": words.model, "pre": words.pre, "load_s": time.perf_counter() - began}

    def encode(text: str) -> list[int]:
        return tokenizer.encode(text, add_special=False, parse_special=False)

    text = mixed_text(MEGABYTE)
    if words.normalize:
        text = words.normalize(text)
    prompts = [text[start : start + PROMPT].strip() for start in range(0, len(text), PROMPT)]
    peer = library(words)
    for name, batch in (("one_text", [text]), ("prompts", prompts)):
        works = [lambda batch=batch: [encode(one) for one in batch]]
        if peer is not None:
            alike = sum(encode(one) == peer.encode(one).ids for one in batch)
            assert alike == len(batch) or words.model == "llama"  # scores make other merges where they tie
            works.append(lambda batch=batch: [peer.encode(one) for one in batch])
        times = median_times(*works)
        found[name] = {"texts": len(batch), "mb_s": MEGABYTE / 1e6 / times[0]}
        if peer is not None:
            found[name] |= {"library_mb_s": MEGABYTE / 1e6 / times[1], "ratio": times[1] / times[0]}
    found["call_us"] = 1e6 * median_times(lambda: [encode("a") for _ in range(100)])[0] / 100
    found["doubling"] = {unit: worst_doubling(encode, unit) for unit in PATHOLOGICAL}
    return found


def worst_doubling(encode, unit: str) -> float:
    texts = [unit * (size // len(unit.encode())) for size in (50_000, 100_000, 200_000, 400_000)]
    times = median_times(*[lambda text=text: encode(text) for text in texts])
    return max(later / earlier for earlier, later in itertools.pairwise(times))


def main() -> None:
    from sealhost.host.weights.gguf import GgufFile
    from sealhost.host.weights.vocabulary import vocabulary
    from sealhost.sandbox import Sandbox

    parser = argparse.ArgumentParser(description="the reference tokenizers against the tokenizers library")
    parser.add_argument("model", type=Path)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    words = vocabulary(GgufFile.parse(memoryview(arguments.model.read_bytes())))
    with Sandbox() as sandbox:
        found = measure(words, sandbox)
    if arguments.json:
        print(json.dumps(found, ensure_ascii=False))
        return
    for key, value in found.items():
        print(f"{key:12} {value}")


if __name__ == "__main__":
    main()
