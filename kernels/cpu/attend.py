"""Attention phases: rotate and store keys and values, attend, and put partitions together.

With many tokens a task takes one tile and KV head through all partitions. With few, a task is one partition, so that a
long context keeps every thread busy; each thread then merges what it needs. The arithmetic is the same: clause 4.3.
"""

from __future__ import annotations

from ..backend import KV_BLOCK_TOKENS
from . import words as w
from .control import take
from .kernelset import (
    attend1,
    attend2,
    attend3,
    attend4,
    attend6,
    finish_state,
    function,
    load,
    load32,
    merge,
    norm_head,
    rope,
    start_state,
    store32,
    store_kv,
)
from .program import PARTIAL_HEADER, PARTITION_BLOCKS, PARTITION_TOKENS, SMALL


@function
def attend_group(
    left: int,
    q: int,
    seen: int,
    low: int,
    cap: int,
    table: int,
    blocks: int,
    keys: int,
    values: int,
    block_bytes: int,
    width: int,
    scores: int,
    partials: int,
    partial_bytes: int,
) -> int:
    """Runs the widest kernel that fits `left` queries; returns how many it took."""
    if left >= 6:
        attend6(q, seen, low, cap, table, blocks, keys, values, block_bytes, width, scores, partials, partial_bytes)
        return 6
    if left >= 4:
        attend4(q, seen, low, cap, table, blocks, keys, values, block_bytes, width, scores, partials, partial_bytes)
        return 4
    if left == 3:
        attend3(q, seen, low, cap, table, blocks, keys, values, block_bytes, width, scores, partials, partial_bytes)
        return 3
    if left == 2:
        attend2(q, seen, low, cap, table, blocks, keys, values, block_bytes, width, scores, partials, partial_bytes)
        return 2
    attend1(q, seen, low, cap, table, blocks, keys, values, block_bytes, width, scores, partials, partial_bytes)
    return 1


@function
def block_table(context: int, layer: int, token: int) -> int:
    """The block table of a token's sequence that a layer goes by (clause 11.6)."""
    sequence = load32(load(context + w.c_sequences) + 4 * token)
    return load(context + load(layer + w.l_tables)) + sequence * load(context + w.c_table_stride)


@function
def key_value(context: int, layer: int, token: int, head: int) -> None:
    """Rotates one key and writes it and its value to the cache."""
    width, heads = load(context + w.c_head_dim), load(context + w.c_heads)
    half = load(context + w.c_rope_half)
    position = load32(load(context + w.c_positions) + 4 * token)
    norm = load(layer + w.l_key_norm)
    block = load32(block_table(context, layer, token) + 4 * (position // KV_BLOCK_TOKENS))
    row = load(context + w.c_qkv) + token * load(context + w.c_qkv_stride)
    key = row + 4 * width * (heads + head)
    value = key + 4 * width * load(context + w.c_kv_heads)
    if norm != 0:
        norm_head(key, norm, key, width, load(context + w.c_epsilon))
    rope(key, load(layer + w.l_rope) + position * half * 8, half, key, width, load(context + w.c_one))
    offset = block * load(context + w.c_kv_block_bytes) + head * load(context + w.c_kv_head_bytes)
    store_kv(
        key,
        value,
        load(layer + w.l_keys) + offset,
        load(layer + w.l_values) + offset,
        position % KV_BLOCK_TOKENS,
        width,
    )


@function
def first_partition(context: int, layer: int, token: int) -> int:
    """The first partition that a token sees anything of."""
    window = load(layer + w.l_window)
    if window == 0:
        return 0
    return max(0, load32(load(context + w.c_positions) + 4 * token) + 1 - window) // PARTITION_TOKENS


@function
def gather_queries(context: int, layer: int, local: int, first: int, count: int, head: int) -> int:
    """Norms, rotates and scales the queries of a tile that share a KV head; returns how many."""
    width, half = load(context + w.c_head_dim), load(context + w.c_rope_half)
    group = load(context + w.c_heads) // load(context + w.c_kv_heads)
    queries, scale = local + load(context + w.c_local_queries), load(context + w.c_query_scale)
    norm = load(layer + w.l_query_norm)
    for token in range(first, first + count):
        position = load32(load(context + w.c_positions) + 4 * token)
        angles = load(layer + w.l_rope) + position * half * 8
        row = load(context + w.c_qkv) + token * load(context + w.c_qkv_stride) + 4 * width * head * group
        for member in range(group):
            query = row + 4 * width * member
            if norm != 0:  # not in place: other tasks read the same row
                norm_head(query, norm, queries, width, load(context + w.c_epsilon))
                query = queries
            rope(query, angles, half, queries, width, scale)
            queries += 4 * width
    return count * group


@function
def attend_partition(
    context: int,
    layer: int,
    local: int,
    first: int,
    total: int,
    last: int,
    head: int,
    partition: int,
    group: int,
    done: int,
    partials: int,
) -> int:
    """Attends from query `done` of a tile over one partition; returns how many queries it took."""
    width, seen = load(context + w.c_head_dim), local + load(context + w.c_local_seen)
    positions, window, cap = load(context + w.c_positions), load(layer + w.l_window), load(context + w.c_attention_cap)
    start, low = partition * PARTITION_BLOCKS, 0
    blocks = min(PARTITION_BLOCKS, last // KV_BLOCK_TOKENS + 1 - start)
    if window != 0:  # whole blocks that the oldest query does not see are not read
        skip = max(0, (load32(positions + 4 * first) + 1 - window) // KV_BLOCK_TOKENS - start)
        start += skip
        blocks -= skip
    if window != 0 or cap != 0:
        low = local + load(context + w.c_local_low)
    for index in range(total):
        position = load32(positions + 4 * (first + index // group))
        store32(seen + 4 * index, position + 1 - start * KV_BLOCK_TOKENS)
        if low != 0:
            oldest = 0 if window == 0 else max(0, position + 1 - window)
            store32(low + 4 * index, oldest - start * KV_BLOCK_TOKENS)
    offset = head * load(context + w.c_kv_head_bytes)
    queries = local + load(context + w.c_local_queries) + 4 * width * done
    return attend_group(
        total - done, queries, seen + 4 * done, 0 if low == 0 else low + 4 * done, cap,
        block_table(context, layer, first) + 4 * start, blocks,
        load(layer + w.l_keys) + offset, load(layer + w.l_values) + offset, load(context + w.c_kv_block_bytes), width,
        local + load(context + w.c_local_scores), partials, PARTIAL_HEADER + 4 * width,
    )  # fmt: skip


@function
def attend_tile(context: int, layer: int, local: int, first: int, count: int, head: int) -> None:
    """All partitions of one tile and KV head, to the attention rows."""
    width, heads = load(context + w.c_head_dim), load(context + w.c_heads)
    group = heads // load(context + w.c_kv_heads)
    states, partials = local + load(context + w.c_local_states), local + load(context + w.c_local_partials)
    state_bytes = PARTIAL_HEADER + 4 * width
    total = gather_queries(context, layer, local, first, count, head)
    for index in range(total):
        start_state(states + index * state_bytes, width)
    last = load32(load(context + w.c_positions) + 4 * (first + count - 1))
    for partition in range(first_partition(context, layer, first), last // PARTITION_TOKENS + 1):
        done = 0
        while done < total:
            took = attend_partition(context, layer, local, first, total, last, head, partition, group, done, partials)
            for index in range(took):
                merge(states + (done + index) * state_bytes, partials + index * state_bytes, width)
            done += took
    for index in range(total):
        row = (first + index // group) * heads + head * group + index % group
        finish_state(states + index * state_bytes, load(context + w.c_att) + 4 * width * row, width)


@function
def attend_split(context: int, layer: int, local: int, first: int, count: int, head: int, partition: int) -> None:
    """One partition of one tile and KV head, to the shared partials [partition][token][head]."""
    heads, width = load(context + w.c_heads), load(context + w.c_head_dim)
    group = heads // load(context + w.c_kv_heads)
    last = load32(load(context + w.c_positions) + 4 * (first + count - 1))
    if partition > last // PARTITION_TOKENS or partition < first_partition(context, layer, first):
        return
    state_bytes = PARTIAL_HEADER + 4 * width
    gather_queries(context, layer, local, first, count, head)
    for token in range(count):
        row = (partition * SMALL + first + token) * heads + head * group
        done = token * group
        while done < (token + 1) * group:
            to = load(context + w.c_partials) + (row + done - token * group) * state_bytes
            end = (token + 1) * group
            done += attend_partition(context, layer, local, first, end, last, head, partition, group, done, to)


@function
def merge_row(context: int, layer: int, local: int, token: int) -> int:
    """Puts one token's partitions together in this thread's own row; returns its address."""
    heads, width = load(context + w.c_heads), load(context + w.c_head_dim)
    state, row = local + load(context + w.c_local_states), local + load(context + w.c_local_row)
    state_bytes = PARTIAL_HEADER + 4 * width
    last = load32(load(context + w.c_positions) + 4 * token)
    earliest = first_partition(context, layer, token)
    for head in range(heads):
        start_state(state, width)
        for partition in range(earliest, last // PARTITION_TOKENS + 1):
            at = (partition * SMALL + token) * heads + head
            merge(state, load(context + w.c_partials) + at * state_bytes, width)
        finish_state(state, row + 4 * width * head, width)
    return row


@function
def store_phase(context: int, thread: int, layer: int) -> None:
    """Writes the batch's keys and values to the cache."""
    sync, threads, n = load(context + w.c_sync), load(context + w.c_threads), load(context + w.c_n)
    while True:
        task = take(sync, thread, threads, n)
        if task < 0:
            break
        for head in range(load(context + w.c_kv_heads)):
            key_value(context, layer, task, head)


@function
def attention_tasks(context: int) -> int:
    """Tasks of the attention phase."""
    tiles = load(context + w.c_tile_count) * load(context + w.c_kv_heads)
    return tiles * load(context + w.c_partitions) if load(context + w.c_n) <= SMALL else tiles


@function
def attention_phase(context: int, thread: int, layer: int, local: int, stores: int) -> None:
    """Attends; when no two tokens are of one sequence, `stores` says to write each key and value on the way."""
    sync, threads, n = load(context + w.c_sync), load(context + w.c_threads), load(context + w.c_n)
    kv_heads, tasks = load(context + w.c_kv_heads), attention_tasks(context)
    tiles = load(context + w.c_tile_count)
    while True:
        task = take(sync, thread, threads, tasks)
        if task < 0:
            break
        partition, place = task // (tiles * kv_heads), task % (tiles * kv_heads)
        tile, head = load(context + w.c_tiles) + 8 * (place // kv_heads), place % kv_heads
        first, count = load32(tile), load32(tile + 4)
        last = load32(load(context + w.c_positions) + 4 * first)
        if stores and (n > SMALL or partition == last // PARTITION_TOKENS):
            key_value(context, layer, first, head)
        if n <= SMALL:
            attend_split(context, layer, local, first, count, head, partition)
        else:
            attend_tile(context, layer, local, first, count, head)
