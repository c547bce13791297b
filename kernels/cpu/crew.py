"""The persistent threads of one model: parked in compiled code, woken for each step, stopped with the model.

A thread refers to the context and to the kernels, never to the model, so that a model that is dropped without `close`
is collected, and its finaliser stops the threads. They are daemons: parked ones do not keep the interpreter alive.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from .arena import address
from .sync import EPOCH, SPINS, STOP, sync_bytes, wake_from_python

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .loader import Kernels

_JOIN_SECONDS = 5.0
"""A thread leaves within microseconds of the stop flag; the bound only keeps a defect from hanging the caller."""


class Crew:
    """Threads 1 to n - 1 of a model's step; the caller of the step is thread 0.

    Attributes:
        sync: The sync area. Shape: (sync_bytes,), uint8.
    """

    def __init__(self, sync: NDArray[np.uint8], threads: int) -> None:
        if len(sync) < sync_bytes(threads):
            raise ValueError(f"expected a sync area of {sync_bytes(threads)} bytes, got {len(sync)}")
        self.sync = sync
        self._size = threads
        self._spins = sync[SPINS : SPINS + 8].view(np.int64)
        self._threads: list[threading.Thread] = []

    def start(self, kernels: Kernels, context: NDArray[np.int64], keep: object) -> None:
        """Starts the threads.

        Args:
            kernels: Compiled code.
            context: The table that it runs on.
            keep: Whatever owns the memory that the context names; lives until the threads end.
        """
        for number in range(1, self._size):
            call = kernels.binder(address(context), number)
            thread = threading.Thread(
                target=_park, args=(call, kernels, context, keep), name=f"sealhost-kernel-{number}", daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def set_spins(self, spins: int) -> None:
        """How long a thread spins in a barrier of the next step before it sleeps."""
        self._spins[0] = spins

    def stop(self) -> None:
        """Ends the threads and waits for them; idempotent."""
        self.sync[STOP : STOP + 4].view(np.int32)[0] = 1
        self.sync[EPOCH : EPOCH + 4].view(np.int32)[0] += 1
        wake_from_python(address(self.sync) + EPOCH)
        for thread in self._threads:
            thread.join(_JOIN_SECONDS)
        self._threads.clear()


def _park(call: object, *_keep: object) -> None:
    """Runs until stopped; its arguments keep the memory alive for as long as compiled code may touch it."""
    call()  # type: ignore[operator]
