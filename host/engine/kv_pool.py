"""The blocks of the KV cache: who holds which, and which are free.

Rules
* free + used == total, at every moment (clause 2.5).
* Taking and giving back cost the same whatever the pool's size: the free list runs through one array of next indices.
* A block can have several holders, for forks and shared prefixes; it is free again when the last one lets go.

Example:
    pool = KvPool(512)
    block = pool.take()
    pool.release(block)
"""

from __future__ import annotations

from array import array

_END = -1
"""End of the free list."""


class KvPool:
    """A fixed number of blocks.

    Args:
        total: Number of blocks.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.free = total
        self._next = array("i", [*range(1, total), _END] if total else [])
        self._holders = array("i", bytes(4 * total))
        self._head = 0 if total else _END

    @property
    def used(self) -> int:
        """Blocks that have a holder."""
        return self.total - self.free

    def take(self) -> int:
        """A free block, held once. The caller has seen that `free` is not 0."""
        block = self._head
        if block == _END:
            raise IndexError("expected a free KV block, the pool is empty; look at `free` first")
        self._head = self._next[block]
        self._holders[block] = 1
        self.free -= 1
        return block

    def share(self, block: int) -> None:
        """Adds a holder to a block that has one."""
        self._held(block)
        self._holders[block] += 1

    def release(self, block: int) -> None:
        """Takes one holder away; without holders the block is free."""
        self._held(block)
        self._holders[block] -= 1
        if self._holders[block] == 0:
            self._next[block] = self._head
            self._head = block
            self.free += 1

    def check(self) -> None:
        """Walks everything and raises AssertionError where the rules are broken; for tests."""
        listed, block = set[int](), self._head
        while block != _END:
            if block in listed:
                raise AssertionError(f"expected each free block once, block {block} is listed twice")
            listed.add(block)
            block = self._next[block]
        unheld = {index for index, holders in enumerate(self._holders) if holders == 0}
        if listed != unheld or len(listed) != self.free or self.free + self.used != self.total:
            raise AssertionError(f"expected {len(unheld)} free blocks, {len(listed)} are listed, {self.free} counted")

    def _held(self, block: int) -> None:
        if not 0 <= block < self.total or self._holders[block] == 0:
            raise ValueError(f"expected a block that has a holder, got {block}")
