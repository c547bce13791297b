"""SHA-256 of eight or sixteen messages side by side, a lane of 32 bits for each, with AVX2 or AVX-512 (FIPS 180-4).

hash_eight(messages, blocks, states), hash_sixteen(messages, blocks, states)
        Compresses `blocks` blocks of 64 bytes of each message into its state.

Layout  `messages` is as many addresses. `states` is eight lines, words A to H, of a word for each message.
Thread  Reads and writes nothing else, so any number may run.
Why     The processor's own unit for SHA-256, where it has one, does one message's rounds one after the other and is one
        for both threads of a core. Here an addition is one instruction for all messages; with AVX-512 so is a rotation,
        and a function of three words.
Cost    Sixteen blocks: 1,690 arithmetic instructions and 64 that transpose. 16 words of the schedule and 8 of the
        state leave 8 of 32 registers, and LLVM keeps the constants on the stack. Eight blocks with AVX2: twice as many.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from .emit import I8, I32, I64, vector
from .hashing import BLOCK_BYTES
from .sha256 import round_constants

if TYPE_CHECKING:
    from .emit import Emit
    from .native import Library

_WORD_BYTES, _STATE_WORDS = 4, 8


def add_eight(library: Library) -> None:
    """Adds `hash_eight` to a library; worth it with AVX2."""
    library.native("hash_eight", partial(_hash_lanes, 8))


def add_sixteen(library: Library) -> None:
    """Adds `hash_sixteen` to a library; worth it with AVX-512."""
    library.native("hash_sixteen", partial(_hash_lanes, 16))


def _hash_lanes(lanes: int, k: Emit, messages: Any, blocks: Any, states: Any) -> None:
    line = _WORD_BYTES * lanes
    kept = [k.var(k.load(k.at(states, line * word), vector(I32, lanes))) for word in range(_STATE_WORDS)]
    starts = [k.load(k.at(messages, 8 * lane), I64) for lane in range(lanes)]
    with k.loop(blocks) as block:
        words = []
        for part in range(0, BLOCK_BYTES, line):
            at = k.at(k.times(block, BLOCK_BYTES), part)
            words += _transposed(k, [_big_endian(k, k.at(start, at), lanes) for start in starts])
        begun = [k.get(word) for word in kept]
        for word, old, new in zip(kept, begun, _compress(k, words, begun), strict=True):
            k.set(word, k.b.add(old, new))
    for word, slot in enumerate(kept):
        k.store(k.at(states, line * word), k.get(slot))


def _compress(k: Emit, words: list[Any], state: list[Any]) -> list[Any]:
    """The 64 rounds over a block of each message (FIPS 180-4, 6.2.2)."""
    a, b, c, d, e, f, g, h = state
    for number, constant in enumerate(round_constants()):
        if number >= len(words):
            words.append(_next_word(k, words))
        choice = k.b.xor(g, k.b.and_(e, k.b.xor(f, g)))
        majority = k.b.or_(k.b.and_(a, b), k.b.and_(c, k.b.or_(a, b)))
        added = k.b.add(
            k.b.add(h, k.b.add(words[number], k.all(a.type, constant))), k.b.add(choice, _mixed(k, e, 6, 11, 25))
        )
        a, b, c, d, e, f, g, h = (
            k.b.add(added, k.b.add(majority, _mixed(k, a, 2, 13, 22))),
            a,
            b,
            c,
            k.b.add(d, added),
            e,
            f,
            g,
        )
    return [a, b, c, d, e, f, g, h]


def _next_word(k: Emit, words: list[Any]) -> Any:
    """The next word of the message schedule."""
    older, newer = words[-15], words[-2]
    one = k.b.xor(_mixed(k, older, 7, 18), k.b.lshr(older, k.all(older.type, 3)))
    other = k.b.xor(_mixed(k, newer, 17, 19), k.b.lshr(newer, k.all(newer.type, 10)))
    return k.b.add(k.b.add(words[-16], one), k.b.add(words[-7], other))


def _mixed(k: Emit, x: Any, *turns: int) -> Any:
    """A word turned right by so many bits, each way, and put together by exclusive or."""
    first, *rest = (k.math("fshr", x, x, k.all(x.type, bits)) for bits in turns)
    for one in rest:
        first = k.b.xor(first, one)
    return first


def _big_endian(k: Emit, address: Any, words: int) -> Any:
    raw = k.load(address, vector(I8, _WORD_BYTES * words))
    order = [_WORD_BYTES * word + 3 - byte for word in range(words) for byte in range(_WORD_BYTES)]
    return k.b.bitcast(k.shuffle(raw, raw, order), vector(I32, words))


def _transposed(k: Emit, rows: list[Any]) -> list[Any]:
    """Word i of each of as many lines, as line i: each bit of a line's number changes places with that of a lane's."""
    rows, lanes = list(rows), range(len(rows))
    for bit in (1 << place for place in range(len(rows).bit_length() - 1)):
        first = [lane + len(rows) - bit if lane & bit else lane for lane in lanes]
        second = [lane + len(rows) if lane & bit else lane + bit for lane in lanes]
        for low in (row for row in lanes if not row & bit):
            pair = rows[low], rows[low | bit]
            rows[low], rows[low | bit] = (k.shuffle(*pair, picked) for picked in (first, second))
    return rows
