"""The KV pool's invariant and its free list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealhost.host.engine.kv_pool import KvPool


def test_a_new_pool_is_free_and_every_block_can_be_taken_once():
    pool = KvPool(5)
    taken = [pool.take() for _ in range(5)]
    assert sorted(taken) == list(range(5))
    assert (pool.free, pool.used) == (0, 5)
    with pytest.raises(IndexError, match="the pool is empty"):
        pool.take()
    pool.check()


def test_a_shared_block_is_free_when_the_last_holder_lets_go():
    pool = KvPool(2)
    block = pool.take()
    pool.share(block)
    pool.release(block)
    assert pool.free == 1
    pool.release(block)
    assert pool.free == 2
    pool.check()


@pytest.mark.parametrize("block", [0, 1, 2, -1, 99])
def test_a_block_without_a_holder_can_be_neither_shared_nor_released(block):
    pool = KvPool(2)
    with pytest.raises(ValueError, match="a block that has a holder"):
        pool.release(block)
    with pytest.raises(ValueError, match="a block that has a holder"):
        pool.share(block)
    pool.check()


def test_a_pool_of_nothing_is_possible():
    KvPool(0).check()


def test_the_check_notices_a_lost_and_a_doubly_listed_block():
    lost = KvPool(3)
    lost._head = lost._next[lost._head]
    with pytest.raises(AssertionError, match="expected 3 free blocks, 2 are listed"):
        lost.check()
    circular = KvPool(3)
    circular._next[2] = 0
    with pytest.raises(AssertionError, match="listed twice"):
        circular.check()


@given(st.integers(1, 9), st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), max_size=200))
def test_free_and_used_always_add_up(total, actions):
    pool, held = KvPool(total), []
    for action, number in actions:
        if action == 0 and pool.free:
            held.append(pool.take())
        elif action == 1 and held:
            pool.release(held.pop(number % len(held)))
        elif held:
            held.append(held[number % len(held)])
            pool.share(held[-1])
        pool.check()
        assert pool.used == len(set(held))
