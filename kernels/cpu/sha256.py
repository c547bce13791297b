"""SHA-256 of two messages side by side, with the SHA extensions of x86 (FIPS 180-4; Intel 64 SDM, SHA256RNDS2).

hash_two(first, second, blocks, states)
        Compresses `blocks` blocks of 64 bytes of each message into its state.

Layout  `states` is four lines of 16 bytes: the first message's words F E B A and H G D C, low to high, as the
        instructions want them, then the second's.
Thread  Reads and writes nothing else, so any number may run.
Why     Of one message each SHA256RNDS2 waits for the one before (4 cycles), while the unit could begin one every 2:
        two messages take hardly longer than one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .emit import I8, I32, vector
from .hashing import BLOCK_BYTES

if TYPE_CHECKING:
    from .emit import Emit
    from .native import Library

_WORDS, _BYTES = vector(I32, 4), vector(I8, 16)
_BIG_ENDIAN = [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12]
_QUADS = 16
"""Groups of four rounds."""


def round_constants() -> list[int]:
    """The 64 words K of FIPS 180-4, 4.2.2: the first 32 bits of the fractions of the first primes' cube roots."""
    primes = [n for n in range(2, 312) if all(n % d for d in range(2, n))]
    return [_cube_root(prime << 96) & 0xFFFFFFFF for prime in primes]


def _cube_root(value: int) -> int:
    """The largest integer whose cube is at most `value`."""
    low, high = 0, 1 << 40
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**3 <= value else (low, middle)
    return low


def add_pairs(library: Library) -> None:
    """Adds `hash_two` to a library; only for a processor that has the instructions."""
    library.native("hash_two", _hash_two)


def _hash_two(k: Emit, first: Any, second: Any, blocks: Any, states: Any) -> None:
    messages = first, second
    kept = [[k.var(k.load(k.at(states, 32 * number + 16 * half), _WORDS)) for half in (0, 1)] for number in (0, 1)]
    with k.loop(blocks) as block:
        begun = [[k.get(half) for half in halves] for halves in kept]
        ended = _compress(k, [k.at(message, k.times(block, BLOCK_BYTES)) for message in messages], begun)
        for halves, before, after in zip(kept, begun, ended, strict=True):
            for half, old, new in zip(halves, before, after, strict=True):
                k.set(half, k.b.add(old, new))
    for number, halves in enumerate(kept):
        for half, slot in enumerate(halves):
            k.store(k.at(states, 32 * number + 16 * half), k.get(slot))


def _compress(k: Emit, blocks: list[Any], states: list[list[Any]]) -> list[list[Any]]:
    """The 64 rounds over one block of each message, in turns of four."""
    constants = round_constants()
    schedules = [[_big_endian(k, k.at(block, 16 * quad)) for quad in range(4)] for block in blocks]
    states = [list(state) for state in states]
    for quad in range(_QUADS):
        four = k.const_lanes(_WORDS, constants[4 * quad : 4 * quad + 4])
        for words, state in zip(schedules, states, strict=True):
            if quad >= len(words):
                words.append(_next_words(k, words[-4:]))
            added = k.b.add(words[quad], four)
            state[1] = _call(k, "sha256rnds2", state[1], state[0], added)
            state[0] = _call(k, "sha256rnds2", state[0], state[1], k.shuffle(added, added, [2, 3, 0, 0]))
    return states


def _next_words(k: Emit, last: list[Any]) -> Any:
    """Four more words of the message schedule (FIPS 180-4, 6.2.2) from the sixteen before them."""
    oldest, older, newer, newest = last
    seventh_last = k.shuffle(newer, newest, [1, 2, 3, 4])
    return _call(k, "sha256msg2", k.b.add(_call(k, "sha256msg1", oldest, older), seventh_last), newest)


def _big_endian(k: Emit, address: Any) -> Any:
    raw = k.load(address, _BYTES)
    return k.b.bitcast(k.shuffle(raw, raw, _BIG_ENDIAN), _WORDS)


def _call(k: Emit, name: str, *operands: Any) -> Any:
    return k.call(f"llvm.x86.{name}", _WORDS, *operands)
