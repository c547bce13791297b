"""The context that a step runs on: a table of int64 words that names every address and size.

Compiled code takes the table's address alone. Words are numbered here and nowhere else; the model fills them in.
"""

from __future__ import annotations

from enum import IntEnum, auto

from ..backend import KV_BLOCK_TOKENS

WORD = 8


class _Offset(IntEnum):
    """Members count from 0 in steps of one word, so that a member is a byte offset."""

    @staticmethod
    def _generate_next_value_(_name: str, _start: int, count: int, _last: list[int]) -> int:
        return WORD * count


class Context(_Offset):
    """Words of the context."""

    SYNC = auto()
    THREADS = auto()
    LAYER_COUNT = auto()
    DIM_BLOCKS = auto()
    ATTENTION_BLOCKS = auto()
    HIDDEN_BLOCKS = auto()
    HEADS = auto()
    KV_HEADS = auto()
    HEAD_DIM = auto()
    ROPE_HALF = auto()
    TILE_TOKENS = auto()
    STRIP = auto()
    EPSILON = auto()
    QUERY_SCALE = auto()
    ONE = auto()
    # 0 in a model without them: addresses of float32, whether the gate is GELU's, rows before their post-norm
    EMBEDDING_SCALE = auto()
    ATTENTION_CAP = auto()
    LOGIT_CAP = auto()
    GELU = auto()
    Y = auto()
    LAYERS = auto()
    EMBEDDING = auto()
    HEAD = auto()
    OUTPUT_NORM = auto()
    KV_HEAD_BYTES = auto()
    KV_BLOCK_BYTES = auto()
    KV_BLOCKS = auto()
    # layers with a window: 0 in a model without them, the longest; blocks of their cache
    WINDOW = auto()
    WINDOW_BLOCKS = auto()
    VOCAB = auto()
    POSITION_LIMIT = auto()
    # scratch that all threads share
    X = auto()
    QKV = auto()
    QKV_STRIDE = auto()
    ATTENTION = auto()
    ACTS = auto()
    ACTS_STRIDE = auto()
    WIDE_STRIDE = auto()
    PLAIN = auto()
    PLAIN_STRIDE = auto()
    HIDDEN = auto()
    HIDDEN_STRIDE = auto()
    HIDDEN_PLAIN = auto()
    HIDDEN_PLAIN_STRIDE = auto()
    TILES = auto()
    TILE_COUNT = auto()
    PARTITIONS = auto()
    PARTIALS = auto()
    PARTIALS_MOST = auto()
    # scratch of one thread: base, bytes between threads, and offsets in it
    LOCAL = auto()
    LOCAL_STRIDE = auto()
    LOCAL_ACTS = auto()
    LOCAL_PLAIN = auto()
    LOCAL_LINES = auto()
    LOCAL_OUT = auto()
    LOCAL_QUERIES = auto()
    LOCAL_SCORES = auto()
    LOCAL_PARTIALS = auto()
    LOCAL_STATES = auto()
    LOCAL_SEEN = auto()
    LOCAL_LOW = auto()
    LOCAL_X = auto()
    LOCAL_ROW = auto()
    # the batch
    TOKENS = auto()
    POSITIONS = auto()
    SEQUENCES = auto()
    TABLES = auto()
    WINDOW_TABLES = auto()
    TABLE_STRIDE = auto()
    LOGITS_TOKENS = auto()
    LOGITS_ADDRESSES = auto()
    TOKEN_COUNT = auto()
    SEQUENCE_COUNT = auto()
    LOGITS_COUNT = auto()
    END = auto()


class Matrix(_Offset):
    """Words of a matrix descriptor."""

    KIND = auto()
    ROWS = auto()
    BLOCKS = auto()
    TILES = auto()
    TILE_BYTES = auto()
    DATA = auto()
    FEW = auto()
    END = auto()


class Layer(IntEnum):
    """Byte offsets in one layer's entry; matrices are embedded descriptors. What a model lacks is 0.

    TABLES is the context's word for its block tables: Context.TABLES, or WINDOW_TABLES (clause 11.6).
    """

    ATTENTION_NORM = 0
    FEED_FORWARD_NORM = WORD
    KEYS = 2 * WORD
    VALUES = 3 * WORD
    ROPE = 4 * WORD
    WINDOW = 5 * WORD
    TABLES = 6 * WORD
    BIAS = 7 * WORD
    QUERY_NORM = 8 * WORD
    KEY_NORM = 9 * WORD
    POST_ATTENTION_NORM = 10 * WORD
    POST_FEED_FORWARD_NORM = 11 * WORD
    QUERY = 12 * WORD
    KEY = 12 * WORD + Matrix.END
    VALUE = 12 * WORD + 2 * Matrix.END
    ATTENTION_OUTPUT = 12 * WORD + 3 * Matrix.END
    GATE = 12 * WORD + 4 * Matrix.END
    UP = 12 * WORD + 5 * Matrix.END
    DOWN = 12 * WORD + 6 * Matrix.END
    END = 12 * WORD + 7 * Matrix.END


SMALL = 8
"""Tokens up to which each thread norms and quantises for itself: cheaper than a barrier."""
FEW_COLUMNS = 12
"""Columns of a product up to which a packed tile is read directly: unpacking it would not pay."""
FEW_COLUMNS_DECODED = 2
"""The same where reading a packed tile costs more: planes to put together, integer factors of scales."""
CHUNK = 128
"""Columns of one task in a matrix product: their activations stay in the second-level cache."""
STRIP = 16
"""Columns between visits to the output: their sums stay in the first-level cache."""
SQUARE = 16
"""Columns of a product on tile registers, which takes no fewer."""
SQUARES_STRIP = 64
"""The same with tile registers, for to configure them takes as long as four of their products."""
AHEAD = 96 << 10
"""Bytes of its next weights that a thread asks for while it waits for the others; they fit its second-level cache."""
QUERIES = 12
"""Queries that attend together in prefill; the keys are read once for them."""
PARTITION_BLOCKS = 16
"""KV blocks whose attention is summed before it is merged with that of the next ones."""
PARTITION_TOKENS = PARTITION_BLOCKS * KV_BLOCK_TOKENS
SCALED_WEIGHTS = 2
"""Blocks' worth of weights behind a query's scores: a KV block's times the scales of two groups of dimensions."""
SCORES_BYTES = 4 * (PARTITION_TOKENS + SCALED_WEIGHTS * KV_BLOCK_TOKENS)
"""Scratch of one query's attention to a partition."""
PARTIAL_HEADER = 64
"""Bytes before the values of a partial: float32 peak and sum, padded to a cache line."""


class Form(IntEnum):
    """What a product multiplies: a packed or an unpacked tile, with activations of 8 or (wide) 16 bits."""

    PACKED = 0
    UNPACKED = 1
    WIDE = 2
    WIDE_UNPACKED = 3


class Fault(IntEnum):
    """What compiled code answers to a batch that it refuses."""

    NONE = 0
    TOKEN = 1
    POSITION = 2
    ORDER = 3
    BLOCK = 4
    LOGITS = 5
