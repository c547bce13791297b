"""From a model file's metadata to the vocabulary that guests get, and to the host's own spelling of every id.

Rules
* `token_bytes` is what detokenisation and the sandbox's integrity check trust; it is made here alone (clause 1.6).
* A user-defined token whose text looks like a marker (<|start|>) counts as control: older converters mixed them up, and
  a client's text must not become one. Converters of today and llama.cpp's list of end tokens decide the same.
* Which text a rule splits where is a guest's business; an unknown tokenizer *model* is refused here, because the host
  could not spell its ids.

Example:
    words = vocabulary(file)
    words.token_bytes[7042]  # b" Paris"
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from ..errors import WeightsError
from . import charsmap, fields
from .charsmap import Charsmap
from .gguf_types import Strings, ValueType

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ...sandbox import Vocabulary
    from .gguf import GgufFile


class Family(NamedTuple):
    """What a tokenizer model takes for granted where the file says nothing; as llama.cpp decides.

    Args:
        pre: The rule for splitting; None: the file must name it, for a guess would tokenise wrongly without a sign.
        blanks: Whether texts spell as SentencePiece's do, else through GPT-2's alphabet.
        merges: Whether the file must list merges.
        bos: Token id, -1: none.
        eos: Token id, -1: none.
        unknown: Token id, -1: none.
        add_bos: Whether a prompt begins with BOS.
        add_eos: Whether a prompt ends with EOS.
        add_space_prefix: Whether a space stands before the text.
    """

    pre: str | None
    blanks: bool
    merges: bool
    bos: int = -1
    eos: int = -1
    unknown: int = -1
    add_bos: bool = False
    add_eos: bool = False
    add_space_prefix: bool = False


FAMILIES = {
    "gpt2": Family(pre=None, blanks=False, merges=True),
    "gemma4": Family(pre="gemma4", blanks=True, merges=True, add_bos=True),
    "llama": Family("default", blanks=True, merges=False, bos=1, eos=2, unknown=0, add_bos=True, add_space_prefix=True),
    "t5": Family("default", blanks=True, merges=False, eos=1, unknown=2, add_eos=True),
}
"""Tokenizer models whose ids the host can spell."""

REFERENCE_GUESTS = {"gpt2": "bpe", "gemma4": "bpe", "llama": "spm", "t5": "unigram"}
"""The reference plugin that encodes for each tokenizer model."""

MAX_TOKENS = 1 << 20
"""Most tokens of a vocabulary: four times the largest in use; a guest holds one logit for each."""

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
"""Token types of GGUF that the host tells apart."""

MAX_TYPE = 6

SILENT_TYPES = (UNKNOWN, CONTROL)
"""Types that have no text in an answer."""

PRE_WITH_BOS = frozenset({"llama-bpe", "llama3", "llama-v3", "falcon3", "tekken"})
"""Split rules whose models begin with BOS when the file does not say; as llama.cpp decides."""

END_NAMES = frozenset(
    {
        b"<|im_end|>",
        b"<|eot_id|>",
        b"<|eom_id|>",
        b"<|endoftext|>",
        b"<|end_of_text|>",
        b"<|end|>",
        b"<|return|>",
        b"<|call|>",
        b"<end_of_turn>",
        b"<turn|>",
        b"<eos>",
        b"<end_of_utterance>",
        b"<EOT>",
        b"</s>",
        "<\uff5cend\u2581of\u2581sentence\uff5c>".encode(),
    }
)
"""Control tokens that end an answer, by their spelling: files often name one of several."""

_PREFIX = "tokenizer.ggml."

_MARKER = re.compile("<\\|.*\\|>|<\uff5c.*\uff5c>".encode(), re.DOTALL)

_BYTE_TEXT = re.compile(rb"<0x([0-9A-Fa-f]{2})>")


def vocabulary(file: GgufFile) -> Vocabulary:
    """Builds the vocabulary of a model file.

    Raises:
        WeightsError: a key is missing, malformed or out of range, or the tokenizer model is not supported.
    """
    from ...sandbox import Vocabulary  # noqa: PLC0415 — brings wasmtime, which light verbs do without (clause 6.5)

    model = fields.text(file, _PREFIX + "model")
    family = FAMILIES.get(model)
    if family is None:
        supported = ", ".join(FAMILIES)
        raise WeightsError(
            _PREFIX + "model", f"expected one of: {supported}; got {model}", "use a model with one of these"
        )
    texts = fields.strings(file, _PREFIX + "tokens")
    count = len(texts)
    if not 1 <= count <= MAX_TOKENS:
        raise WeightsError(_PREFIX + "tokens", f"expected 1 to {MAX_TOKENS} tokens, got {count}")
    # llama.cpp does not ask a Gemma 4 file either: one rule goes with the model
    pre = "gemma4" if model == "gemma4" else fields.text(file, _PREFIX + "pre", family.pre)
    types = _with_markers(texts, _types(file, count))
    add_bos = family.add_bos or (model == "gpt2" and pre in PRE_WITH_BOS)
    return Vocabulary(
        model=model,
        pre=pre,
        texts=texts,
        types=types,
        scores=_scores(file, count),
        merges=fields.strings(file, _PREFIX + "merges", None if family.merges else ()),
        bos=_token_id(file, "bos", count, family.bos),
        eos=_token_id(file, "eos", count, family.eos),
        unknown=_token_id(file, "unknown", count, family.unknown),
        add_bos=fields.boolean(file, _PREFIX + "add_bos_token", default=add_bos),
        add_eos=fields.boolean(file, _PREFIX + "add_eos_token", default=family.add_eos),
        add_space_prefix=fields.boolean(file, _PREFIX + "add_space_prefix", default=family.add_space_prefix),
        token_bytes=_hashed(_with_blanks(texts, types) if family.blanks else _byte_level(texts, types)),
        normalize=_normalizer(file) if model == "t5" else None,
    )


def end_ids(file: GgufFile, words: Vocabulary) -> frozenset[int]:
    """Ids that end an answer: EOS, the ids that the metadata names, and control tokens known by their spelling."""
    named = {words.eos, *(_token_id(file, name, len(words.texts), -1) for name in ("eot", "eom"))}
    control = np.flatnonzero(words.types == CONTROL).tolist()
    spelled = {index for index in control if words.texts[index] in END_NAMES}
    return frozenset((named | spelled) - {-1})


def _normalizer(file: GgufFile) -> Callable[[str], str] | None:
    """What a Unigram model does to a text before it is encoded; None: nothing."""
    blob = file.metadata.get(charsmap.KEY)
    if blob is not None and not (isinstance(blob, np.ndarray) and blob.dtype.itemsize == 1 and blob.dtype != np.bool_):
        raise WeightsError(charsmap.KEY, f"expected an array of UINT8, got {fields.describe(file, charsmap.KEY)}")
    replace = Charsmap(blob.tobytes()).normalize if blob is not None and blob.size else str
    if not fields.boolean(file, _PREFIX + "remove_extra_whitespaces", default=False):
        return replace
    return lambda text: " ".join(filter(None, replace(text).split(" ")))


def _types(file: GgufFile, count: int) -> NDArray[np.uint8]:
    key = _PREFIX + "token_type"
    found = fields.numbers(file, key, (ValueType.INT32, ValueType.UINT32), count)
    if found is None:
        return np.full(count, NORMAL, np.uint8)
    low, high = int(found.min()), int(found.max())
    if low < 0 or high > MAX_TYPE:
        raise WeightsError(key, f"expected token types from 0 to {MAX_TYPE}, got {low if low < 0 else high}")
    return found.astype(np.uint8)


def _with_markers(texts: tuple[bytes, ...], types: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The types, with markers that the file calls user-defined as control tokens."""
    for index in np.flatnonzero(types == USER_DEFINED).tolist():
        if texts[index] in END_NAMES or _MARKER.fullmatch(texts[index]):
            types[index] = CONTROL
    return types


def _scores(file: GgufFile, count: int) -> NDArray[np.float32]:
    found = fields.numbers(file, _PREFIX + "scores", (ValueType.FLOAT32,), count)
    return np.zeros(count, np.float32) if found is None else found.astype(np.float32)


def _token_id(file: GgufFile, name: str, count: int, default: int) -> int:
    """The id under a key; a default that the vocabulary lacks counts as none."""
    key = f"{_PREFIX}{name}_token_id"
    if key not in file.metadata:
        return default if default < count else -1
    return fields.integer(file, key, low=0, high=count - 1)


def byte_alphabet() -> dict[int, str]:
    """GPT-2's map from a printable character's code point to the byte that it stands for, as a latin-1 character.

    Source: `bytes_to_unicode` of OpenAI's GPT-2 encoder: printable latin-1 stands for itself, the other 68 bytes for
    the code points from 256 on.
    """
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = sorted(set(range(256)) - set(printable))
    return {code: chr(byte) for code, byte in zip(printable, printable, strict=True)} | {
        256 + index: chr(byte) for index, byte in enumerate(others)
    }


def _hashed(spelled: tuple[bytes, ...]) -> Strings:
    """The host's table with its hash, which is taken now that the strings have just been made."""
    return Strings.hashed(spelled, hashlib.sha256(b"MessagePack strings\n" + msgspec.msgpack.encode(spelled)).digest())


class _Alphabet(dict[int, str]):
    """Maps what the alphabet lacks to a character outside latin-1, so that encoding tells."""

    def __missing__(self, code: int) -> str:
        return "\uffff"


def _with_blanks(texts: tuple[bytes, ...], types: NDArray[np.uint8]) -> tuple[bytes, ...]:
    """What each id of a SentencePiece vocabulary spells: U+2581 is a space, <0x0A> a byte."""
    blank = "\u2581".encode()
    literal = np.isin(types, (CONTROL, USER_DEFINED, UNKNOWN))
    spelled = [
        text if as_is else text.replace(blank, b" ") for text, as_is in zip(texts, literal.tolist(), strict=True)
    ]
    for index in np.flatnonzero(types == BYTE).tolist():
        if found := _BYTE_TEXT.fullmatch(texts[index]):
            spelled[index] = bytes((int(found[1], 16),))
    return tuple(spelled)


def _byte_level(texts: tuple[bytes, ...], types: NDArray[np.uint8]) -> tuple[bytes, ...]:
    """What each id spells: through the alphabet, except for tokens that stand for their own text."""
    alphabet = _Alphabet(byte_alphabet())
    literal = np.isin(types, (CONTROL, USER_DEFINED, UNKNOWN)).tolist()
    return tuple(text if as_is else _through(alphabet, text) for text, as_is in zip(texts, literal, strict=True))


def _through(alphabet: _Alphabet, text: bytes) -> bytes:
    try:
        return text.decode().translate(alphabet).encode("latin-1")
    except UnicodeError:
        # a word outside the alphabet stands for itself, as in the `tokenizers` library's ByteLevel decoder
        return text
