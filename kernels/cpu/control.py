"""How a step is shared out: checking the batch, dealing tasks, waiting for the others, cutting attention into tiles."""

from __future__ import annotations

from ..backend import KV_BLOCK_TOKENS
from ..layouts import LINE
from . import words as w
from .kernelset import (
    atomic_add,
    atomic_load,
    atomic_store,
    atomic_take,
    function,
    load,
    load32,
    pause,
    prefetch,
    sleep_on,
    store,
    store32,
    wake_all,
)
from .program import CHUNK, PARTITION_TOKENS, SMALL
from .sync import COUNTERS, ROUND, SLEEPERS, SPINS, THREAD_BYTES, THREADS


@function
def check_blocks(table: int, first: int, last: int, blocks: int) -> int:
    """Whether entries `first` to `last` of a block table are blocks of a cache of this size."""
    for entry in range(first, last + 1):
        block = load32(table + 4 * entry)
        if block < 0 or block >= blocks:
            return 0
    return 1


@function
def check_tables(context: int, sequence: int, first: int, last: int) -> int:
    """Whether a sequence's tables lead to blocks, for a run of tokens at positions `first` to `last`.

    Of layers with a window only entries that the run sees are looked at: others may be anything (clause 11.6).
    """
    row, window, block = sequence * load(context + w.c_table_stride), load(context + w.c_window), KV_BLOCK_TOKENS
    if check_blocks(load(context + w.c_tables) + row, 0, last // block, load(context + w.c_kv_blocks)) == 0:
        return 0
    if window == 0:
        return 1
    oldest = max(0, first + 1 - window) // block
    return check_blocks(
        load(context + w.c_window_tables) + row, oldest, last // block, load(context + w.c_window_blocks)
    )


@function
def check(context: int) -> int:  # noqa: PLR0911 — one return for each fault
    """Refuses ids out of range before anything is read through them; returns a `Fault` (clause 7.1)."""
    n, sequences_count = load(context + w.c_n), load(context + w.c_sequence_count)
    tokens, positions, sequences = (
        load(context + w.c_tokens),
        load(context + w.c_positions),
        load(context + w.c_sequences),
    )
    table_stride, vocab, limit = (
        load(context + w.c_table_stride),
        load(context + w.c_vocab),
        load(context + w.c_position_limit),
    )
    previous, previous_position, first = -1, -1, -1
    for index in range(n):
        token, position, sequence = (
            load32(tokens + 4 * index),
            load32(positions + 4 * index),
            load32(sequences + 4 * index),
        )
        if token < 0 or token >= vocab:
            return w.f_token
        if position < 0 or position >= limit or 4 * (position // KV_BLOCK_TOKENS) >= table_stride:
            return w.f_position
        if sequence == previous:
            if position != previous_position + 1:
                return w.f_order
        else:
            first = position
            if sequence != previous + 1 or sequence >= sequences_count:
                return w.f_order
        is_last = index + 1 == n or load32(sequences + 4 * (index + 1)) != sequence
        if is_last and check_tables(context, sequence, first, position) == 0:
            return w.f_block
        previous, previous_position = sequence, position
    if previous + 1 != sequences_count:
        return w.f_order
    for row in range(load(context + w.c_logits_count)):
        wanted = load32(load(context + w.c_logits_tokens) + 4 * row)
        if wanted < 0 or wanted >= n or load(load(context + w.c_logits_addresses) + 8 * row) == 0:
            return w.f_logits
    return 0


@function
def part_of(sync: int, thread: int) -> int:
    """What a thread writes for itself."""
    return sync + THREADS + THREAD_BYTES * thread


@function
def counter_of(sync: int, thread: int, rounds: int) -> int:
    """Counts a thread's tasks in a phase: those of one are dealt while others are still taken by those of the last."""
    return part_of(sync, thread) + COUNTERS + LINE * (rounds & 1)


@function
def deal(sync: int, threads: int, tasks: int) -> None:
    """Gives each thread its share of the first phase's tasks."""
    for thread in range(threads):
        store(counter_of(sync, thread, atomic_load(part_of(sync, 0) + ROUND)), tasks * thread // threads)


@function
def first_tile(matrix: int, thread: int, threads: int) -> int:
    """Where a thread's share of a matrix begins."""
    return load(matrix + w.m_data) + load(matrix + w.m_tiles) * thread // threads * load(matrix + w.m_tile_bytes)


@function
def first_of_qkv(layer: int, thread: int, threads: int) -> int:
    """Where a thread's share of queries, keys and values begins."""
    q_tiles, kv_tiles = load(layer + w.l_query + w.m_tiles), load(layer + w.l_key + w.m_tiles)
    tile, matrix = (q_tiles + 2 * kv_tiles) * thread // threads, layer + w.l_query
    if tile >= q_tiles + kv_tiles:
        tile, matrix = tile - q_tiles - kv_tiles, layer + w.l_value
    elif tile >= q_tiles:
        tile, matrix = tile - q_tiles, layer + w.l_key
    return load(matrix + w.m_data) + tile * load(matrix + w.m_tile_bytes)


@function
def wait_ahead(sync: int, thread: int, threads: int, tasks: int, ahead: int, size: int) -> None:
    """Ends a phase: returns when every thread has come; the next phase has `tasks` tasks.

    Each thread writes how many barriers it has come to, and its own share of the next tasks: who comes last has only to
    look. Meanwhile `size` bytes from `ahead` are asked for: the memory would idle, too.
    """
    own = part_of(sync, thread) + ROUND
    before = atomic_load(own)
    if threads == 1:
        store(counter_of(sync, thread, before), 0)
        return
    store(counter_of(sync, thread, before + 1), tasks * thread // threads)
    atomic_store(own, before + 1)
    if atomic_load(sync + SLEEPERS) > 0:
        wake_all(own)
    spins, most = 0, load(sync + SPINS)
    for other in range(threads):
        its = part_of(sync, other) + ROUND
        while atomic_load(its) == before:
            spins += 1
            if size > 0:
                for line in range(4):
                    prefetch(ahead + LINE * line)
                ahead += 4 * LINE
                size -= 4 * LINE
            elif spins < most:
                pause()
            else:
                atomic_add(sync + SLEEPERS, 1)
                sleep_on(its, before)
                atomic_add(sync + SLEEPERS, -1)


@function
def wait(sync: int, thread: int, threads: int, tasks: int) -> None:
    """`wait_ahead` when the next phase reads no weights."""
    wait_ahead(sync, thread, threads, tasks, 0, 0)


@function
def take(sync: int, thread: int, threads: int, tasks: int) -> int:
    """The next task of this thread's share, then of the others'; -1 when all are taken.

    A counter is looked at before it is counted up, as that would take its line from the thread that works by it. Nobody
    comes to the next barrier before all are taken, so where another has come there is nothing left.
    """
    rounds = atomic_load(part_of(sync, thread) + ROUND)
    for step in range(threads):
        owner = (thread + step) % threads
        if atomic_load(part_of(sync, owner) + ROUND) != rounds:
            return -1
        counter, end = counter_of(sync, owner, rounds), tasks * (owner + 1) // threads
        if atomic_load(counter) < end:
            task = atomic_take(counter)
            if task < end:
                return task
    return -1


@function
def tasks_after_norm(n: int, tasks: int) -> int:
    """Tasks of the next phase when a norm or quantisation of n tokens comes in between."""
    return tasks if n <= SMALL else n


@function
def chunks(n: int) -> int:
    """Column chunks of a product."""
    return (n + CHUNK - 1) // CHUNK


@function
def make_tiles(context: int) -> None:
    """Groups the batch's tokens into attention tiles: up to TILE_TOKENS neighbours of one sequence.

    Also notes how many partitions the longest of them has.
    """
    n, most = load(context + w.c_n), load(context + w.c_tile_tokens)
    tiles, sequences = load(context + w.c_tiles), load(context + w.c_sequences)
    positions, partitions = load(context + w.c_positions), 1
    count, first = 0, 0
    while first < n:
        size = 1
        sequence = load32(sequences + 4 * first)
        while size < most and first + size < n and load32(sequences + 4 * (first + size)) == sequence:
            size += 1
        store32(tiles + 8 * count, first)
        store32(tiles + 8 * count + 4, size)
        count += 1
        first += size
        partitions = max(partitions, load32(positions + 4 * (first - 1)) // PARTITION_TOKENS + 1)
    store(context + w.c_tile_count, count)
    store(context + w.c_partitions, partitions)
