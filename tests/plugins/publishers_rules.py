"""The pre-tokenizers of the models' publishers (`tokenizer.json`), for each name that tokenizer.ggml.pre may have."""

from __future__ import annotations

import runpy

from tokenizers import Regex, pre_tokenizers

import sealhost.plugins

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN35 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K = TEKKEN.replace(f"{LOWER}+|", f"{LOWER}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|").replace(
    rf"{LOWER}*|\p{{N}}", rf"{LOWER}*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{{N}}{{1,3}}"
)
CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
LISTED_PUNCTUATION = "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"


def listed_letters() -> str:
    """deepseek-llm's list of letters, as a class of characters."""
    script = runpy.run_path(str(sealhost.plugins.PLUGINS / "tokenizers/unicode_tables.py"), run_name="unicode_tables")
    ranges = [part.split("-") for part in script["DEEPSEEK_LETTERS"].split()]
    return "[" + "".join("-".join(chr(int(point, 16)) for point in part) for part in ranges) + "]"


def split(pattern: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split(Regex(pattern), "isolated")


ALPHABET = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
ALPHABET_AFTER_GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)

STEPS = {
    "gpt-2": [ALPHABET_AFTER_GPT2],
    # `Digits` in the files; the library's follows the Unicode of its Rust compiler, 13 numbers ahead of its regex engine
    "smollm": [split(r"\p{N}"), ALPHABET_AFTER_GPT2],
    "llama-bpe": [split(CL100K), ALPHABET],
    "dbrx": [split(CL100K), ALPHABET],
    "qwen2": [split(CL100K.replace("{1,3}", "")), ALPHABET],
    "qwen35": [split(QWEN35), ALPHABET],
    "tekken": [split(TEKKEN), ALPHABET],
    "gpt-4o": [split(O200K), ALPHABET],
    "deepseek-llm": [
        *map(split, (r"[\r\n]", rf"\s?{listed_letters()}+", LISTED_PUNCTUATION, r"\s+$", CJK, r"\p{N}")),
        ALPHABET,
    ],
    "deepseek-coder": [*map(split, (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK, r"\p{N}")), ALPHABET],
    # the last two see the alphabet's letters: a byte that it spells as a fraction is a number to them
    "falcon": [
        pre_tokenizers.Punctuation("contiguous"),
        ALPHABET_AFTER_GPT2,
        pre_tokenizers.Digits(individual_digits=False),
        split("[0-9][0-9][0-9]"),
    ],
    "default": [*map(split, (r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]")), ALPHABET],
}

ALIKE = {
    "gpt-2": ("gpt-neox", "mpt", "olmo", "phi-2"),
    "smollm": ("starcoder", "refact", "command-r", "codeshell", "minerva-7b"),
    "llama-bpe": ("llama3", "llama-v3", "falcon3", "glm4"),
    "dbrx": ("smaug-bpe", "chatglm-bpe"),
    "qwen2": ("deepseek-r1-qwen", "stablelm2", "megrez"),
    "gpt-4o": ("llama4",),
}
"""Names that mean the same rule."""

WHOLE_PIECES = {"llama-bpe", "tekken"}
"""Rules whose publishers take a piece that is a token as it is."""

APART = {"deepseek-llm", "falcon", "gpt-neox"}
"""Rules that llama.cpp has in another form, or not by this name: it keeps numbers together (deepseek-llm), it does not
look for numbers among the letters of GPT-2's alphabet (falcon). Their own vocabularies have no token that shows it."""
