"""What a step of a sampler decides, and how a guest's answer becomes that (plugins/README.md, chapter 2).

    answer = reader.read(slot, raw_result)     # Decision: final; Draw: the host still draws, by these rules

Rules
* Every answer is copied out of guest memory once, and checked on the copy (README clause 8.2).
* What breaks a rule is an `AnswerError`; the session turns it into a GuestError of kind "invalid".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from . import abi
from .layout import mask_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .layout import SamplerLayout
    from .memory import GuestMemory
    from .tier import Tier

# plain integers: an enumeration's operators cost a microsecond each in the step
_TOKEN, _PASS, _EDITED = int(abi.Action.TOKEN), int(abi.Action.PASS), int(abi.Action.EDITED)
_MASK, _SPARSE, _STOP = int(abi.Action.MASK), int(abi.Action.SPARSE), int(abi.Action.STOP)
_BACKTRACK, _FAST_FORWARD = int(abi.Action.BACKTRACK), int(abi.Action.FAST_FORWARD)

BIAS_ENTRY = np.dtype([("id", "<u4"), ("bias", "<f4")])
"""struct sealhost_bias."""


class AnswerError(Exception):
    """An answer that breaks a rule; the text is "expected X, got Y"."""


class Decision(NamedTuple):
    """What one choice does next.

    Attributes:
        tokens: Ids to append now, in order.
        backtrack: Generated ids to take back first.
        stop: This choice ends here; `tokens` is empty then.
    """

    tokens: tuple[int, ...]
    backtrack: int = 0
    stop: bool = False


STOP = Decision((), stop=True)

_make = tuple.__new__


def one(token: int) -> Decision:
    """`Decision((token,))` without the detour through its keywords: it is made for nearly every token."""
    return _make(Decision, ((token,), 0, False))


@dataclass(frozen=True, slots=True)
class Draw:
    """The host draws, from the logits that the model wrote.

    Attributes:
        edited: From what the guest made of them, logits or candidates, instead.
        allowed: Ids that may be drawn at all, applied last. Shape: (vocabulary,), bool. None: all.
        bias: Added to the logits, beside the request's own. Shape: (n,), `BIAS_ENTRY`. None: nothing.
    """

    edited: bool = False
    allowed: NDArray[np.bool_] | None = None
    bias: NDArray[np.void] | None = None


Answer: TypeAlias = Decision | Draw

PASS, EDITED = Draw(), Draw(edited=True)

_PLAIN: dict[int, Answer] = {_PASS: PASS, _STOP: STOP}


class AnswerReader:
    """Reads the answers of one instance.

    Args:
        memory: Of the guest.
        layout: Checked.
        tier: Of the plugin.
        vocab_size: Ids are below it.
    """

    __slots__ = ("_layout", "_memory", "_tier", "_vocab_size")

    def __init__(self, memory: GuestMemory, layout: SamplerLayout, tier: Tier, vocab_size: int) -> None:
        self._memory = memory
        self._layout = layout
        self._tier = tier
        self._vocab_size = vocab_size

    def read(self, slot: int, result: tuple[int, int, int, int], room: int, left: int) -> Answer:
        """Checks one answer.

        Args:
            slot: Whose it is.
            result: Fields of struct sealhost_result, copied.
            room: Ids that it may take back.
            left: Ids that its history has room for.

        Raises:
            AnswerError: When it breaks a rule.
        """
        size, action, token, count = result
        if size == 0:  # as the host left it
            raise AnswerError("expected a result for a row that wants an answer, got none written")
        if size < abi.RESULT.size:
            raise AnswerError(f"expected a result of {abi.RESULT.size} bytes, got size {size}")
        if action == _TOKEN:
            return self._token(token)
        if action == _EDITED and self._tier.name != "mask":
            return EDITED
        return _PLAIN.get(action) or self._from_area(slot, (action, token, count), room, left)

    def _token(self, token: int) -> Decision:
        if token >= self._vocab_size:
            raise AnswerError(f"expected a token below {self._vocab_size}, got {token}")
        return one(token)

    def _from_area(self, slot: int, result: tuple[int, int, int], room: int, left: int) -> Answer:
        """Answers that point at the slot's answer area."""
        action, token, count = result
        if action == _MASK:
            return Draw(allowed=self._mask(slot))
        if action == _SPARSE:
            return Draw(bias=self._sparse(slot, count))
        if action == _FAST_FORWARD:
            return self._fast_forward(slot, count, left)
        if action == _BACKTRACK:
            return self._backtrack(slot, (token, count), room, left)
        raise AnswerError(f"expected an action of tier {self._tier}, got action {action}")

    def _mask(self, slot: int) -> NDArray[np.bool_]:
        size = mask_bytes(self._vocab_size)
        if size > self._layout.answer_capacity:
            raise AnswerError(f"expected an answer area of {size} bytes for a mask, got {self._layout.answer_capacity}")
        bits = np.unpackbits(self._answer(slot, size), bitorder="little").view(np.bool_)
        if bits[self._vocab_size :].any():
            raise AnswerError(f"expected no bits in the mask from {self._vocab_size} on, got some")
        allowed = bits[: self._vocab_size]
        if not allowed.any():
            raise AnswerError("expected at least one id in the mask, got none")
        return allowed

    def _sparse(self, slot: int, count: int) -> NDArray[np.void]:
        self._check_count("bias entries", count, 1, self._layout.answer_capacity // abi.BIAS.size)
        entries = self._answer(slot, count * abi.BIAS.size).view(BIAS_ENTRY)
        self._check_ids(entries["id"])
        with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN
            is_number = entries["bias"] < np.inf
        if not is_number.all():
            raise AnswerError("expected biases that are finite or -inf, got another")
        return entries

    def _fast_forward(self, slot: int, count: int, left: int) -> Decision:
        self._check_count("ids", count, 1, min(self._layout.answer_capacity // 4, left))
        return Decision(self._ids(slot, count))

    def _backtrack(self, slot: int, result: tuple[int, int], room: int, left: int) -> Decision:
        off, count = result
        self._check_count("ids to take back", off, 1, room)
        self._check_count("ids", count, 0, min(self._layout.answer_capacity // 4, left + off))
        return Decision(self._ids(slot, count), off)

    def _ids(self, slot: int, count: int) -> tuple[int, ...]:
        ids = self._answer(slot, 4 * count).view(np.uint32)
        self._check_ids(ids)
        return tuple(ids.tolist())

    def _check_count(self, what: str, found: int, least: int, most: int) -> None:
        if most < least:
            raise AnswerError(f"expected no {what}, for there is room for none, got {found}")
        if not least <= found <= most:
            raise AnswerError(f"expected {least} to {most} {what}, got {found}")

    def _check_ids(self, ids: NDArray[np.uint32]) -> None:
        if ids.size and int(ids.max()) >= self._vocab_size:
            raise AnswerError(f"expected ids below {self._vocab_size}, got {int(ids.max())}")

    def _answer(self, slot: int, size: int) -> NDArray[np.uint8]:
        """A copy of the first bytes of a slot's answer area."""
        return self._memory.array(self._layout.answer + slot * self._layout.answer_capacity, size, np.uint8).copy()
