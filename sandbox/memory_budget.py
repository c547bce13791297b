"""What the memories of all live instances may take together (clause 3.7).

    budget = MemoryBudget(8 << 30)
    budget.take("bpe", 98 << 20)     # GuestError "busy": no room for now
    budget.give_back(98 << 20)

* Each instance counts with all that its module declares, for it may touch all of it: so what was promised is there.
* Thread-safe; one for each engine.
"""

from __future__ import annotations

import threading

from .errors import GuestError


class MemoryBudget:
    """A sum that is kept below a limit.

    Args:
        limit_bytes: The limit; 0: none.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._taken = 0
        self._lock = threading.Lock()

    def take(self, plugin: str, size: int) -> None:
        """Counts an instance's memory.

        Raises:
            GuestError: "busy", when it would be more than the limit.
        """
        if not self._limit:
            return
        with self._lock:
            if self._taken + size > self._limit:
                found = f"{self._taken} and another {size}"
                problem = f"expected at most {self._limit} bytes in all live instances, got {found}"
                raise GuestError(plugin, "busy", problem, "try again later, or raise live_memory_bytes")
            self._taken += size

    def give_back(self, size: int) -> None:
        """Takes an instance's memory off again."""
        if self._limit:
            with self._lock:
                self._taken -= size
