"""The constants and structs of `plugins/sdk/c/sealhost.h`, ABI version 1.

Names follow the header. Everything is little-endian; `struct` formats carry no padding of their own, so a test compares
their sizes with the header's.
"""

from __future__ import annotations

import struct
from enum import IntEnum, IntFlag

from .wasm_binary import I32, FunctionType

ABI_MAJOR = 1
ABI_MINOR = 0

ERROR = -0x40000000
"""Statuses at or below are errors; above and negative is "-needed"."""


class Status(IntEnum):
    """Status codes of all calls."""

    OK = 0
    ERROR = ERROR
    ERROR_CONFIG = -0x40000001
    ERROR_UNSUPPORTED = -0x40000002
    ERROR_INPUT = -0x40000003
    ERROR_CAPACITY = -0x40000004
    ERROR_EMPTY = -0x40000005


class RowFlag(IntFlag):
    """sealhost_row.flags."""

    NEW = 1
    ACCEPT = 2
    SAMPLE = 4
    FORK = 8
    CLOSE = 16


class Action(IntEnum):
    """sealhost_result.action."""

    TOKEN = 1
    PASS = 2
    EDITED = 3
    MASK = 4
    SPARSE = 5
    STOP = 6
    BACKTRACK = 7
    FAST_FORWARD = 8


class EncodeFlag(IntFlag):
    """Flags of encode()."""

    ADD_SPECIAL = 1
    PARSE_SPECIAL = 2


class VocabTag(IntEnum):
    """Sections of the vocabulary stream."""

    MODEL = 1
    PRE = 2
    FLAGS = 3
    TOKENS = 4
    MERGES = 5


class VocabFlag(IntFlag):
    """sealhost_vocab_flags.bits."""

    ADD_BOS = 1
    ADD_EOS = 2
    ADD_SPACE_PREFIX = 4


class TokenType(IntEnum):
    """Types column, as in GGUF."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


SAMPLER_LAYOUT = struct.Struct("<22I")
ROW = struct.Struct("<4I2Q4Ifi5f5I")
BIAS = struct.Struct("<If")
CANDIDATE = struct.Struct("<If")
RESULT = struct.Struct("<4I")
TOKENIZER_LAYOUT = struct.Struct("<8I")
VOCAB_FLAGS = struct.Struct("<Iiii")
TOKEN_TABLE = struct.Struct("<2I3i3I")
SECTION = struct.Struct("<II")

LOGITS_ALIGNMENT = 4096
"""Bytes: the page of the host's memory, so that a row can be pinned for a device's copy engine."""
MAX_ROWS = 64
MAX_CONFIG_BYTES = 16 << 10
MAX_VOCABULARY = 1 << 23
"""Ids: thirty times the largest vocabulary in use."""
MAX_BACKTRACK = 1 << 16
"""Ids of one answer; the operator's limit is far lower."""
MIN_AREA_BYTES = 4096
"""Least capacity of a tokenizer's input and output."""
MIN_ERROR_BYTES, MAX_ERROR_BYTES = 64, 4096
LOG_BYTES = 4096
"""Bytes of text in the log ring; its struct has a counter before them."""
LOG_SIZE = 4 + LOG_BYTES
MAX_ANSWER_BYTES = 1 << 20
"""Of one slot: a mask over eight million ids, or a quarter of a million ids."""

MEMORY = "memory"
_NONE_TO_I32 = FunctionType(b"", bytes((I32,)))
_I32_TO_I32 = FunctionType(bytes((I32,)), bytes((I32,)))
_TWO_TO_I32 = FunctionType(bytes((I32, I32)), bytes((I32,)))

EXPORTS: dict[str, dict[str, FunctionType]] = {
    "sampler": {
        "sealhost_sampler_v1": _NONE_TO_I32,
        "layout": _NONE_TO_I32,
        "init": _NONE_TO_I32,
        "step": _I32_TO_I32,
        "reset": _NONE_TO_I32,
    },
    "tokenizer": {
        "sealhost_tokenizer_v1": _NONE_TO_I32,
        "layout": _NONE_TO_I32,
        "load": _TWO_TO_I32,
        "encode": _TWO_TO_I32,
        "token_bytes": _TWO_TO_I32,
    },
}
"""Functions that a module of each role exports, with their types (clause 1.9)."""

OPTIONAL_EXPORTS: dict[str, dict[str, FunctionType]] = {"sampler": {"vocabulary": _I32_TO_I32}, "tokenizer": {}}
"""Functions that a module may export besides; then with these types."""
