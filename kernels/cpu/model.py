"""A model on the CPU: packed weights, cache, threads, and the one compiled call that is a step."""

from __future__ import annotations

import threading
import time
import weakref
from operator import is_
from typing import TYPE_CHECKING, Any

import numpy as np

from ..batch import StepBatch
from ..errors import BatchError, KernelError
from .arena import address
from .crew import Crew
from .pace import Pace, size_class
from .program import WORD, Context, Fault

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..backend import DecoderSpec
    from .arena import Arena
    from .loader import Kernels
    from .memory import Capacity, StepMemory
    from .pace import Mode

_ARRAYS = (
    ("tokens", Context.TOKENS, np.int32),
    ("positions", Context.POSITIONS, np.int32),
    ("sequences", Context.SEQUENCES, np.int32),
    ("block_tables", Context.TABLES, np.int32),
    ("window_tables", Context.WINDOW_TABLES, np.int32),
    ("logits_tokens", Context.LOGITS_TOKENS, np.int32),
    ("logits_addresses", Context.LOGITS_ADDRESSES, np.uint64),
)
_COUNTED = ("tokens", "sequences", "logits")
"""What the words from Context.TOKEN_COUNT on count."""
_FAULTS = {
    Fault.TOKEN: "token ids of 0 to {vocab} exclusive",
    Fault.POSITION: "positions of 0 to {limit} exclusive that the block tables have room for",
    Fault.ORDER: "each sequence's tokens together, at consecutive positions, sequences numbered from 0",
    Fault.BLOCK: "KV block ids of 0 to {blocks} exclusive, and 0 to {window_blocks} in window_tables",
    Fault.LOGITS: "logits of tokens that are in the batch, at addresses other than 0",
}


class CpuModel:
    """See `backend.Model`."""

    def __init__(
        self, kernels: Kernels, spec: DecoderSpec, capacity: Capacity, weights: Arena, memory: StepMemory, keep: object
    ) -> None:
        self._spec, self._capacity, self._memory, self._weight_bytes = spec, capacity, memory, weights.used
        self._lock = threading.Lock()
        self._bound: tuple[object, ...] = ()
        self._most = (0, 0, 0)
        first = Context.TOKEN_COUNT // WORD
        self._counts = memory.context[first : first + len(_COUNTED)]
        self._mode: Mode | None = None
        self._crew = Crew(memory.sync, capacity.threads)
        self._paces = {size: Pace(capacity.threads) for size in map(size_class, range(1, capacity.max_tokens + 1))}
        owner = (kernels, weights, memory, keep)
        self._owner: object = owner
        self._enter = kernels.binder(address(memory.context), 0)
        self._crew.start(kernels, memory.context, owner)
        self._finalizer = weakref.finalize(self, self._crew.stop)

    @property
    def spec(self) -> DecoderSpec:
        """Hyperparameters it was built with."""
        return self._spec

    @property
    def memory_bytes(self) -> dict[str, int]:
        """Bytes held, by purpose: weights, kv, scratch."""
        return {"weights": self._weight_bytes, "kv": self._memory.kv_bytes, "scratch": self._memory.scratch_bytes}

    def step(self, batch: StepBatch) -> None:
        """Runs every token of the batch; see `backend.Model.step`.

        Raises:
            BatchError: a count, id or address is out of range; nothing was computed.
            KernelError: the model is closed.
        """
        with self._lock:
            if not self._finalizer.alive:
                raise KernelError("expected an open model, got one that was closed")
            self._bind(batch)
            if batch.token_count == 0:
                return
            if not self._memory.whole:
                self._memory.reach(int(batch.positions[: batch.token_count].max()) + 1)
            self._run(batch.token_count)

    def warm_up(self) -> None:
        """Runs one token, so that the first request finds the threads running and the weights mapped."""
        logits = np.empty(self._spec.vocab, np.float32)
        batch = StepBatch.allocate(max_tokens=1, max_sequences=1, max_blocks=1)
        batch.add([0], start=0, blocks=[0], logits_address=address(logits))
        self.step(batch)

    def close(self) -> None:
        """Stops the threads and lets go of the memory; idempotent, waits for a running step."""
        with self._lock:
            self._finalizer()
            self._owner = None
            self._bound = ()

    def _run(self, tokens: int) -> None:
        pace = self._paces[size_class(tokens)]
        mode = pace.choose()
        if mode is not self._mode:
            self._memory.put(Context.THREADS, mode.threads)
            self._crew.set_spins(mode.spins)
            self._mode = mode
        start = time.perf_counter()
        fault = self._enter()
        if fault:
            self._refuse(Fault(fault))
        pace.record((time.perf_counter() - start) / tokens)

    def _bind(self, batch: StepBatch) -> None:
        """Puts the batch's counts, and where it is another batch also its addresses, into the context."""
        arrays = (
            batch.tokens, batch.positions, batch.sequences, batch.block_tables, batch.window_tables,
            batch.logits_tokens, batch.logits_addresses,
        )  # fmt: skip
        if not self._bound or not all(map(is_, arrays, self._bound)):
            self._bind_arrays(arrays)
        counts = (batch.token_count, batch.sequence_count, batch.logits_count)
        for name, value, most in zip(_COUNTED, counts, self._most, strict=True):
            if not 0 <= value <= most:
                raise BatchError(f"expected at most {most} {name} in a step, got {value}")
        self._counts[:] = counts

    def _bind_arrays(self, arrays: tuple[NDArray[Any], ...]) -> None:
        for (name, _, dtype), array in zip(_ARRAYS, arrays, strict=True):
            if (
                array.dtype != dtype
                or not array.flags.c_contiguous
                or array.ndim != (2 if name.endswith("tables") else 1)
            ):
                raise BatchError(
                    f"expected {name} as a contiguous {np.dtype(dtype).name} array, got {array.dtype} {array.shape}"
                )
        tables, window_tables = arrays[3:5]
        if window_tables.shape != tables.shape:
            raise BatchError(f"expected window_tables of {tables.shape}, as block_tables, got {window_tables.shape}")
        for (_, word, _), array in zip(_ARRAYS, arrays, strict=True):
            self._memory.put(word, address(array))
        self._memory.put(Context.TABLE_STRIDE, tables.shape[1] * 4)
        tokens, positions, sequences, rows_of_tables, _, logits_tokens, logits_addresses = map(len, arrays)
        rows = self._capacity.max_sequences
        self._most = (
            min(self._capacity.max_tokens, tokens, positions, sequences),
            min(rows, rows_of_tables),
            min(rows, logits_tokens, logits_addresses),
        )
        self._bound = arrays

    def _refuse(self, fault: Fault) -> None:
        limits = {
            "vocab": self._spec.vocab,
            "limit": self._memory.position_limit,
            "blocks": self._capacity.kv_blocks,
            "window_blocks": self._capacity.window_blocks,
        }
        raise BatchError(f"expected {_FAULTS[fault].format(**limits)}; the step was refused before it read anything")
