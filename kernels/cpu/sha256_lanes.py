"""SHA-256 of sixteen messages side by side, a lane of 32 bits for each, with AVX-512 (FIPS 180-4).

hash_sixteen(messages, blocks, states)
        Compresses `blocks` blocks of 64 bytes of each message into its state.

Layout  `messages` is sixteen addresses. `states` is eight lines of 64 bytes, words A to H, of a word for each message.
Thread  Reads and writes nothing else, so any number may run.
Why     The processor's own unit for SHA-256 does one message's rounds one after the other and is one for both threads
        of a core. Here a rotation, and a function of three words, is one instruction for sixteen messages.
Cost    1,690 arithmetic instructions and 64 that transpose, for sixteen blocks. 16 words of the schedule and 8 of the
        state leave 8 of 32 registers, and LLVM keeps the constants on the stack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .emit import I8, I32, I64, vector
from .hashing import BLOCK_BYTES
from .sha256 import round_constants

if TYPE_CHECKING:
    from .emit import Emit
    from .native import Library

LANES: Final = 16
_WORDS, _BYTES = vector(I32, LANES), vector(I8, BLOCK_BYTES)
_BIG_ENDIAN = [4 * word + 3 - byte for word in range(LANES) for byte in range(4)]
_STATE_WORDS = 8


def add_lanes(library: Library) -> None:
    """Adds `hash_sixteen` to a library; only for a processor with AVX-512."""
    library.native("hash_sixteen", _hash_sixteen)


def _hash_sixteen(k: Emit, messages: Any, blocks: Any, states: Any) -> None:
    kept = [k.var(k.load(k.at(states, BLOCK_BYTES * word), _WORDS)) for word in range(_STATE_WORDS)]
    starts = [k.load(k.at(messages, 8 * lane), I64) for lane in range(LANES)]
    with k.loop(blocks) as block:
        at = k.times(block, BLOCK_BYTES)
        begun = [k.get(word) for word in kept]
        ended = _compress(k, _transposed(k, [_big_endian(k, k.at(start, at)) for start in starts]), begun)
        for word, old, new in zip(kept, begun, ended, strict=True):
            k.set(word, k.b.add(old, new))
    for word, slot in enumerate(kept):
        k.store(k.at(states, BLOCK_BYTES * word), k.get(slot))


def _compress(k: Emit, words: list[Any], state: list[Any]) -> list[Any]:
    """The 64 rounds over a block of each message (FIPS 180-4, 6.2.2)."""
    a, b, c, d, e, f, g, h = state
    for number, constant in enumerate(round_constants()):
        if number >= len(words):
            words.append(_next_word(k, words))
        choice = k.b.xor(g, k.b.and_(e, k.b.xor(f, g)))
        majority = k.b.or_(k.b.and_(a, b), k.b.and_(c, k.b.or_(a, b)))
        added = k.b.add(
            k.b.add(h, k.b.add(words[number], k.all(_WORDS, constant))), k.b.add(choice, _mixed(k, e, 6, 11, 25))
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
    one = k.b.xor(_mixed(k, older, 7, 18), k.b.lshr(older, k.all(_WORDS, 3)))
    other = k.b.xor(_mixed(k, newer, 17, 19), k.b.lshr(newer, k.all(_WORDS, 10)))
    return k.b.add(k.b.add(words[-16], one), k.b.add(words[-7], other))


def _mixed(k: Emit, x: Any, *turns: int) -> Any:
    """A word turned right by so many bits, each way, and put together by exclusive or."""
    first, *rest = (k.math("fshr", x, x, k.all(_WORDS, bits)) for bits in turns)
    for one in rest:
        first = k.b.xor(first, one)
    return first


def _big_endian(k: Emit, address: Any) -> Any:
    raw = k.load(address, _BYTES)
    return k.b.bitcast(k.shuffle(raw, raw, _BIG_ENDIAN), _WORDS)


def _transposed(k: Emit, rows: list[Any]) -> list[Any]:
    """Word i of each of sixteen lines, as line i: each bit of a line's number changes places with that of a lane's."""
    rows = list(rows)
    for bit in (1, 2, 4, 8):
        first = [lane + LANES - bit if lane & bit else lane for lane in range(LANES)]
        second = [lane + LANES if lane & bit else lane + bit for lane in range(LANES)]
        for low in (row for row in range(LANES) if not row & bit):
            pair = rows[low], rows[low | bit]
            rows[low], rows[low | bit] = (k.shuffle(*pair, lanes) for lanes in (first, second))
    return rows
