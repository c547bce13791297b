"""One step of the model: phases over all layers, walked by every thread together.

Rules
* A phase is a list of tasks; a thread takes its own share first and then what others have left (clause 6.2).
* Phases are divided by `wait`, five to a layer in decode. Work that is cheaper than a barrier is done by every thread for
  itself: norms and quantisation of up to SMALL tokens.
* Who does a task, and what else is in the batch, never changes a result (clause 4).

Data flow of a layer: x -> norm, quantise -> Q K V -> rotate, store, attend -> quantise -> output, added to x
-> norm, quantise -> gate, up, SwiGLU, quantise -> down, added to x.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..backend import KV_BLOCK_TOKENS
from ..layouts import BLOCK, LINE, TILE_ROWS, Kind
from .program import CHUNK, PARTIAL_HEADER, PARTITION_BLOCKS, PARTITION_TOKENS, SMALL, STRIP, Context, Fault, Layer, Matrix
from .sync import ARRIVED, COUNTERS, EPOCH, IDLE, IDLE_SPINS, ROUND, SLEEPERS, SPINS, STOP
from .kernelset import (
    add_rows,
    atomic_add,
    atomic_load,
    atomic_store,
    atomic_take,
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
    norm_quantise,
    norm_quantise_wide,
    pause,
    products,
    put_pair,
    put_rows,
    quantise,
    rope,
    sleep_on,
    start_state,
    store,
    store32,
    store_kv,
    swiglu_quantise,
    wake_all,
)

if TYPE_CHECKING:
    from .dot import Dot
    from .native import Library


# Numba takes plain ints as constants, so the words' numbers are repeated as module names.
C = {member.name: int(member) for member in Context}
_KIND, _ROWS, _BLOCKS, _TILES, _TILE_BYTES, _DATA = (int(member) for member in list(Matrix)[:6])
_F16 = int(Kind.F16)
_ROW_BYTES = 4 * BLOCK
PUT, ADD, PAIR = range(3)
"""What a product does with its sums: replace, add to what is there, or replace with the sum of two columns."""

c_sync, c_threads, c_layer_count, c_layers = C["SYNC"], C["THREADS"], C["LAYER_COUNT"], C["LAYERS"]
c_dim, c_attention, c_hidden = C["DIM_BLOCKS"], C["ATTENTION_BLOCKS"], C["HIDDEN_BLOCKS"]
c_heads, c_kv_heads, c_head_dim, c_rope_half, c_tile_tokens = C["HEADS"], C["KV_HEADS"], C["HEAD_DIM"], C["ROPE_HALF"], C["TILE_TOKENS"]
c_epsilon, c_query_scale, c_one, c_rope = C["EPSILON"], C["QUERY_SCALE"], C["ONE"], C["ROPE_TABLE"]
c_embedding, c_head, c_output_norm = C["EMBEDDING"], C["HEAD"], C["OUTPUT_NORM"]
c_kv_head_bytes, c_kv_block_bytes = C["KV_HEAD_BYTES"], C["KV_BLOCK_BYTES"]
c_x, c_qkv, c_qkv_stride, c_att = C["X"], C["QKV"], C["QKV_STRIDE"], C["ATTENTION"]
c_acts, c_acts_stride, c_plain, c_plain_stride = C["ACTS"], C["ACTS_STRIDE"], C["PLAIN"], C["PLAIN_STRIDE"]
c_hid, c_hid_stride, c_hid_plain, c_hid_plain_stride = C["HIDDEN"], C["HIDDEN_STRIDE"], C["HIDDEN_PLAIN"], C["HIDDEN_PLAIN_STRIDE"]
c_tiles, c_tile_count = C["TILES"], C["TILE_COUNT"]
c_local, c_local_stride, c_local_acts, c_local_plain = C["LOCAL"], C["LOCAL_STRIDE"], C["LOCAL_ACTS"], C["LOCAL_PLAIN"]
c_local_lines, c_local_out, c_local_queries, c_local_scores = C["LOCAL_LINES"], C["LOCAL_OUT"], C["LOCAL_QUERIES"], C["LOCAL_SCORES"]
c_local_partials, c_local_states, c_local_seen = C["LOCAL_PARTIALS"], C["LOCAL_STATES"], C["LOCAL_SEEN"]
c_tokens, c_positions, c_sequences = C["TOKENS"], C["POSITIONS"], C["SEQUENCES"]
c_tables, c_table_stride = C["TABLES"], C["TABLE_STRIDE"]
c_logits_tokens, c_logits_addresses = C["LOGITS_TOKENS"], C["LOGITS_ADDRESSES"]
c_vocab, c_position_limit, c_kv_blocks = C["VOCAB"], C["POSITION_LIMIT"], C["KV_BLOCKS"]
c_n, c_sequence_count, c_logits_count = C["TOKEN_COUNT"], C["SEQUENCE_COUNT"], C["LOGITS_COUNT"]
f_token, f_position, f_order, f_block, f_logits = (int(fault) for fault in list(Fault)[1:])
l_att_norm, l_ff_norm, l_keys, l_values = (int(Layer[name]) for name in ("ATTENTION_NORM", "FEED_FORWARD_NORM", "KEYS", "VALUES"))
l_query, l_key, l_value, l_out = (int(Layer[name]) for name in ("QUERY", "KEY", "VALUE", "ATTENTION_OUTPUT"))
l_gate, l_up, l_down, l_end = (int(Layer[name]) for name in ("GATE", "UP", "DOWN", "END"))


@function
def check(context):
    """Refuses ids out of range before anything is read through them; returns a `Fault` (clause 7.1)."""
    n, sequences_count = load(context + c_n), load(context + c_sequence_count)
    tokens, positions, sequences = load(context + c_tokens), load(context + c_positions), load(context + c_sequences)
    tables, table_stride = load(context + c_tables), load(context + c_table_stride)
    vocab, limit, kv_blocks = load(context + c_vocab), load(context + c_position_limit), load(context + c_kv_blocks)
    previous, previous_position = -1, -1
    for index in range(n):
        token, position, sequence = load32(tokens + 4 * index), load32(positions + 4 * index), load32(sequences + 4 * index)
        if token < 0 or token >= vocab:
            return f_token
        if position < 0 or position >= limit or 4 * (position // KV_BLOCK_TOKENS) >= table_stride:
            return f_position
        if sequence == previous:
            if position != previous_position + 1:
                return f_order
        elif sequence != previous + 1 or sequence >= sequences_count:
            return f_order
        if index + 1 == n or load32(sequences + 4 * (index + 1)) != sequence:
            for entry in range(position // KV_BLOCK_TOKENS + 1):
                block = load32(tables + sequence * table_stride + 4 * entry)
                if block < 0 or block >= kv_blocks:
                    return f_block
        previous, previous_position = sequence, position
    if previous + 1 != sequences_count:
        return f_order
    for row in range(load(context + c_logits_count)):
        wanted = load32(load(context + c_logits_tokens) + 4 * row)
        if wanted < 0 or wanted >= n or load(load(context + c_logits_addresses) + 8 * row) == 0:
            return f_logits
    return 0


@function
def deal(sync, threads, tasks):
    """Gives each thread its share of the next phase's tasks."""
    for thread in range(threads):
        store(sync + COUNTERS + LINE * thread, tasks * thread // threads)


@function
def wait(sync, threads, tasks):
    """Ends a phase: returns when every thread has come; the next phase has `tasks` tasks."""
    here = atomic_load(sync + ROUND)
    if atomic_add(sync + ARRIVED, 1) == threads - 1:
        deal(sync, threads, tasks)
        atomic_store(sync + ARRIVED, 0)
        atomic_store(sync + ROUND, here + 1)
        if atomic_load(sync + SLEEPERS) > 0:
            wake_all(sync + ROUND)
        return
    spins = 0
    while atomic_load(sync + ROUND) == here:
        spins += 1
        if spins < SPINS:
            pause()
        else:
            atomic_add(sync + SLEEPERS, 1)
            sleep_on(sync + ROUND, here)
            atomic_add(sync + SLEEPERS, -1)


@function
def take(sync, thread, threads, tasks):
    """The next task of this thread's share, then of the others'; -1 when all are taken."""
    for step in range(threads):
        owner = (thread + step) % threads
        task = atomic_take(sync + COUNTERS + LINE * owner)
        if task < tasks * (owner + 1) // threads:
            return task
    return -1


@function
def chunks(n):
    """Column chunks of a product."""
    return (n + CHUNK - 1) // CHUNK


@function
def make_tiles(context):
    """Groups the batch's tokens into attention tiles: up to TILE_TOKENS neighbours of one sequence."""
    n, most = load(context + c_n), load(context + c_tile_tokens)
    tiles, sequences = load(context + c_tiles), load(context + c_sequences)
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
    store(context + c_tile_count, count)


@function
def attend_group(left, q, seen, table, blocks, keys, values, block_bytes, width, scores, partials, partial_bytes):
    """Runs the widest kernel that fits `left` queries; returns how many it took."""
    if left >= 6:
        attend6(q, seen, table, blocks, keys, values, block_bytes, width, scores, partials, partial_bytes)
        return 6
    if left >= 4:
        attend4(q, seen, table, blocks, keys, values, block_bytes, width, scores, partials, partial_bytes)
        return 4
    if left == 3:
        attend3(q, seen, table, blocks, keys, values, block_bytes, width, scores, partials, partial_bytes)
        return 3
    if left == 2:
        attend2(q, seen, table, blocks, keys, values, block_bytes, width, scores, partials, partial_bytes)
        return 2
    attend1(q, seen, table, blocks, keys, values, block_bytes, width, scores, partials, partial_bytes)
    return 1


@function
def key_value(context, layer, token, head):
    """Rotates one key and writes it and its value to the cache."""
    width, block_bytes = load(context + c_head_dim), load(context + c_kv_block_bytes)
    heads, kv_heads = load(context + c_heads), load(context + c_kv_heads)
    half = load(context + c_rope_half)
    position = load32(load(context + c_positions) + 4 * token)
    sequence = load32(load(context + c_sequences) + 4 * token)
    table = load(context + c_tables) + sequence * load(context + c_table_stride)
    block = load32(table + 4 * (position // KV_BLOCK_TOKENS))
    row = load(context + c_qkv) + token * load(context + c_qkv_stride)
    key, value = row + 4 * width * (heads + head), row + 4 * width * (heads + kv_heads + head)
    rope(key, load(context + c_rope) + position * half * 8, half, key, width, load(context + c_one))
    offset = block * block_bytes + head * load(context + c_kv_head_bytes)
    store_kv(key, value, load(layer + l_keys) + offset, load(layer + l_values) + offset, position % KV_BLOCK_TOKENS, width)


@function
def attend(context, layer, local, first, count, head):
    """Attention of one tile of tokens with one KV head."""
    width, half = load(context + c_head_dim), load(context + c_rope_half)
    heads, kv_heads = load(context + c_heads), load(context + c_kv_heads)
    group = heads // kv_heads
    queries, states = local + load(context + c_local_queries), local + load(context + c_local_states)
    scores, partials = local + load(context + c_local_scores), local + load(context + c_local_partials)
    seen = local + load(context + c_local_seen)
    positions = load(context + c_positions)
    state_bytes = PARTIAL_HEADER + 4 * width
    for token in range(count):
        position = load32(positions + 4 * (first + token))
        row = load(context + c_qkv) + (first + token) * load(context + c_qkv_stride) + 4 * width * head * group
        for member in range(group):
            index = token * group + member
            angles = load(context + c_rope) + position * half * 8
            rope(row + 4 * width * member, angles, half, queries + 4 * width * index, width, load(context + c_query_scale))
            start_state(states + index * state_bytes, width)
    total = count * group
    last = load32(positions + 4 * (first + count - 1))
    sequence = load32(load(context + c_sequences) + 4 * first)
    table = load(context + c_tables) + sequence * load(context + c_table_stride)
    offset = head * load(context + c_kv_head_bytes)
    keys, values = load(layer + l_keys) + offset, load(layer + l_values) + offset
    block_bytes = load(context + c_kv_block_bytes)
    for partition in range(last // PARTITION_TOKENS + 1):
        blocks = min(PARTITION_BLOCKS, last // KV_BLOCK_TOKENS + 1 - partition * PARTITION_BLOCKS)
        for index in range(total):
            position = load32(positions + 4 * (first + index // group))
            store32(seen + 4 * index, position + 1 - partition * PARTITION_TOKENS)
        done = 0
        while done < total:
            took = attend_group(
                total - done, queries + 4 * width * done, seen + 4 * done, table + 4 * PARTITION_BLOCKS * partition, blocks,
                keys, values, block_bytes, width, scores, partials, state_bytes,
            )  # fmt: skip
            for index in range(took):
                merge(states + (done + index) * state_bytes, partials + index * state_bytes, width)
            done += took
    for token in range(count):
        out = load(context + c_att) + 4 * width * ((first + token) * heads + head * group)
        for member in range(group):
            finish_state(states + (token * group + member) * state_bytes, out + 4 * width * member, width)


class Entry(NamedTuple):
    """The numba function, and the kernels that it calls besides kernelset.SHARED."""

    enter: Any
    library: Library


def build_entry(dot: Dot) -> Entry:
    """Makes the entry point `enter(context, thread)` with one version's matrix products.

    Thread 0 is the caller: it checks the batch, runs one step with the others and returns 0, or one of check.py's
    codes. Another thread stays inside until the stop flag is set.
    """
    made = products(dot)
    columns, unpack, embed = made.columns, made.unpack, made.embed

    @function
    def multiply(matrix, tile, local_lines, acts, stride, plain, plain_stride, first, n, spread, out):
        """One tile times `n` columns from `first`, to out[n][16]; the tile is unpacked already when `spread`."""
        columns(
            load(matrix + _DATA) + tile * load(matrix + _TILE_BYTES), local_lines, spread,
            acts + first * stride, stride, plain + first * plain_stride, plain_stride,
            load(matrix + _KIND), load(matrix + _BLOCKS), n, out,
        )  # fmt: skip

    @function
    def product(context, local, matrix, tile, chunk, n, acts, stride, plain, plain_stride, x, x_stride, mode):
        """One tile times one chunk of columns, added to or put into float32 rows, or put there in pairs."""
        if mode == PAIR and load(matrix + _KIND) >= _F16:
            mode, n = PUT, n // 2  # float matrices have one column a token
        lines, out = local + load(context + c_local_lines), local + load(context + c_local_out)
        first, end = chunk * CHUNK, min(n, (chunk + 1) * CHUNK)
        spread = end - first > SMALL
        if spread:
            unpack(load(matrix + _KIND), load(matrix + _DATA) + tile * load(matrix + _TILE_BYTES), load(matrix + _BLOCKS), lines)
        rows = min(TILE_ROWS, load(matrix + _ROWS) - tile * TILE_ROWS)
        while first < end:
            count = min(STRIP, end - first)
            multiply(matrix, tile, lines, acts, stride, plain, plain_stride, first, count, spread, out)
            if mode == PAIR:
                for pair in range(count // 2):
                    put_pair(x + (first // 2 + pair) * x_stride + LINE * tile, out + 2 * LINE * pair, rows)
            else:
                for column in range(count):
                    to = x + (first + column) * x_stride + LINE * tile
                    if mode == ADD:
                        add_rows(to, out + LINE * column, rows)
                    else:
                        put_rows(to, out + LINE * column, rows)
            first += count

    @function
    def gated(context, local, layer, unit, chunk, n, acts, stride, plain, plain_stride):
        """Gate and up for 32 hidden rows and one chunk of columns, then SwiGLU and quantisation."""
        lines, out = local + load(context + c_local_lines), local + load(context + c_local_out)
        first, end = chunk * CHUNK, min(n, (chunk + 1) * CHUNK)
        spread = end - first > SMALL
        blocks = load(context + c_dim)
        tile_lines = load(context + c_local_out) - load(context + c_local_lines)
        tile_lines = tile_lines // 4
        if spread:
            for tile in range(4):
                matrix = layer + (l_gate if tile < 2 else l_up)
                data = load(matrix + _DATA) + (2 * unit + tile % 2) * load(matrix + _TILE_BYTES)
                unpack(load(matrix + _KIND), data, blocks, lines + tile * tile_lines)
        hidden, hidden_plain = load(context + c_hid), load(context + c_hid_plain)
        while first < end:
            count = min(STRIP, end - first)
            for tile in range(4):
                matrix = layer + (l_gate if tile < 2 else l_up)
                to = out + tile * STRIP * LINE
                from_ = lines + tile * tile_lines
                multiply(matrix, 2 * unit + tile % 2, from_, acts, stride, plain, plain_stride, first, count, spread, to)
            for column in range(count):
                act = hidden + (first + column) * load(context + c_hid_stride)
                copy = 0 if hidden_plain == 0 else hidden_plain + (first + column) * load(context + c_hid_plain_stride)
                swiglu_quantise(out + LINE * column, STRIP * LINE, act, copy, unit)
            first += count

    @function
    def embed_token(context, index):
        matrix = load(context + c_embedding)
        token = load32(load(context + c_tokens) + 4 * index)
        tile = load(matrix + _DATA) + token // TILE_ROWS * load(matrix + _TILE_BYTES)
        blocks = load(matrix + _BLOCKS)
        embed(load(matrix + _KIND), tile, token % TILE_ROWS, blocks, load(context + c_x) + index * blocks * _ROW_BYTES)

    @function
    def norm_row(context, weight, source, index, acts, plain):
        """Norms and quantises row `source` of x to row `index` of the activations."""
        blocks = load(context + c_dim)
        x = load(context + c_x) + source * blocks * _ROW_BYTES
        copy = 0 if plain == 0 else plain + index * load(context + c_plain_stride)
        norm_quantise(x, weight, acts + index * load(context + c_acts_stride), copy, blocks, load(context + c_epsilon))

    @function
    def norm_row_wide(context, weight, source, index, acts, plain):
        """As `norm_row`, to rows 2 * index and 2 * index + 1, which together have 16 bits."""
        blocks, stride = load(context + c_dim), load(context + c_acts_stride)
        x = load(context + c_x) + source * blocks * _ROW_BYTES
        copy = 0 if plain == 0 else plain + index * load(context + c_plain_stride)
        act = acts + 2 * index * stride
        norm_quantise_wide(x, weight, act, act + stride, copy, blocks, load(context + c_epsilon))

    @function
    def quantise_row(context, index, acts, plain):
        """Quantises one row of attention output."""
        blocks = load(context + c_attention)
        x = load(context + c_att) + index * blocks * _ROW_BYTES
        copy = 0 if plain == 0 else plain + index * load(context + c_plain_stride)
        quantise(x, acts + index * load(context + c_acts_stride), copy, blocks)

    @function
    def run(context, thread):
        """Everything that one thread does in a step."""
        sync, threads = load(context + c_sync), load(context + c_threads)
        n, kv_heads = load(context + c_n), load(context + c_kv_heads)
        small = n <= SMALL
        local = load(context + c_local) + thread * load(context + c_local_stride)
        own_acts = local + load(context + c_local_acts)
        acts, plain = load(context + c_acts), load(context + c_plain)
        if small:
            acts = own_acts
            plain = 0 if plain == 0 else local + load(context + c_local_plain)
        stride, plain_stride = load(context + c_acts_stride), load(context + c_plain_stride)
        x, x_stride = load(context + c_x), load(context + c_dim) * _ROW_BYTES
        qkv, qkv_stride = load(context + c_qkv), load(context + c_qkv_stride)
        width = load(context + c_head_dim)
        layer = load(context + c_layers)
        single = n == load(context + c_sequence_count)
        columns_chunks = chunks(n)
        q_tiles, kv_tiles = load(layer + l_query + _TILES), load(layer + l_key + _TILES)
        qkv_tiles = q_tiles + 2 * kv_tiles
        qkv_tasks = qkv_tiles * chunks(2 * n)
        out_tiles = load(layer + l_out + _TILES)
        out_tasks = out_tiles * columns_chunks
        units = load(context + c_hidden)
        unit_tasks = units * columns_chunks
        kv_row = load(context + c_heads) * width * 4

        while True:
            task = take(sync, thread, threads, n)
            if task < 0:
                break
            embed_token(context, task)
        wait(sync, threads, qkv_tasks if small else n)
        attention_tasks = load(context + c_tile_count) * kv_heads

        for _number in range(load(context + c_layer_count)):
            weight = load(layer + l_att_norm)
            if small:
                for token in range(n):
                    norm_row_wide(context, weight, token, token, acts, plain)
            else:
                while True:
                    task = take(sync, thread, threads, n)
                    if task < 0:
                        break
                    norm_row_wide(context, weight, task, task, acts, plain)
                wait(sync, threads, qkv_tasks)
            while True:
                task = take(sync, thread, threads, qkv_tasks)
                if task < 0:
                    break
                chunk, tile = task // qkv_tiles, task % qkv_tiles
                matrix, to = layer + l_query, qkv
                if tile >= q_tiles + kv_tiles:
                    matrix, to, tile = layer + l_value, qkv + kv_row + kv_heads * width * 4, tile - q_tiles - kv_tiles
                elif tile >= q_tiles:
                    matrix, to, tile = layer + l_key, qkv + kv_row, tile - q_tiles
                product(context, local, matrix, tile, chunk, 2 * n, acts, stride, plain, plain_stride, to, qkv_stride, PAIR)
            wait(sync, threads, attention_tasks if single else n)
            if not single:
                while True:
                    task = take(sync, thread, threads, n)
                    if task < 0:
                        break
                    for head in range(kv_heads):
                        key_value(context, layer, task, head)
                wait(sync, threads, attention_tasks)
            while True:
                task = take(sync, thread, threads, attention_tasks)
                if task < 0:
                    break
                tile, head = load(context + c_tiles) + 8 * (task // kv_heads), task % kv_heads
                first = load32(tile)
                if single:
                    key_value(context, layer, first, head)
                attend(context, layer, local, first, load32(tile + 4), head)
            wait(sync, threads, out_tasks if small else n)
            if small:
                for token in range(n):
                    quantise_row(context, token, acts, plain)
            else:
                while True:
                    task = take(sync, thread, threads, n)
                    if task < 0:
                        break
                    quantise_row(context, task, acts, plain)
                wait(sync, threads, out_tasks)
            while True:
                task = take(sync, thread, threads, out_tasks)
                if task < 0:
                    break
                chunk, tile = task // out_tiles, task % out_tiles
                product(context, local, layer + l_out, tile, chunk, n, acts, stride, plain, plain_stride, x, x_stride, ADD)
            wait(sync, threads, unit_tasks if small else n)
            weight = load(layer + l_ff_norm)
            if small:
                for token in range(n):
                    norm_row(context, weight, token, token, acts, plain)
            else:
                while True:
                    task = take(sync, thread, threads, n)
                    if task < 0:
                        break
                    norm_row(context, weight, task, task, acts, plain)
                wait(sync, threads, unit_tasks)
            while True:
                task = take(sync, thread, threads, unit_tasks)
                if task < 0:
                    break
                gated(context, local, layer, task % units, task // units, n, acts, stride, plain, plain_stride)
            wait(sync, threads, out_tasks)
            hidden, hidden_stride = load(context + c_hid), load(context + c_hid_stride)
            hidden_plain, hidden_plain_stride = load(context + c_hid_plain), load(context + c_hid_plain_stride)
            while True:
                task = take(sync, thread, threads, out_tasks)
                if task < 0:
                    break
                chunk, tile = task // out_tiles, task % out_tiles
                product(
                    context, local, layer + l_down, tile, chunk, n, hidden, hidden_stride, hidden_plain, hidden_plain_stride,
                    x, x_stride, ADD,
                )  # fmt: skip
            layer += l_end
            last = layer == load(context + c_layers) + l_end * load(context + c_layer_count)
            if not last:
                wait(sync, threads, qkv_tasks if small else n)
        head_step(context, thread, sync, threads, local)

    @function
    def head_step(context, thread, sync, threads, local):
        """Final norm and the head for the wanted rows, straight to their addresses."""
        rows = load(context + c_logits_count)
        matrix = load(context + c_head)
        vocab_tiles = load(matrix + _TILES)
        tasks = vocab_tiles if rows > 0 else 0
        wanted, addresses = load(context + c_logits_tokens), load(context + c_logits_addresses)
        weight = load(context + c_output_norm)
        acts, plain = load(context + c_acts), load(context + c_plain)
        stride, plain_stride = load(context + c_acts_stride), load(context + c_plain_stride)
        if rows <= SMALL:
            acts = local + load(context + c_local_acts)
            plain = 0 if plain == 0 else local + load(context + c_local_plain)
            wait(sync, threads, tasks)
            for row in range(rows):
                norm_row_wide(context, weight, load32(wanted + 4 * row), row, acts, plain)
        else:
            wait(sync, threads, rows)
            while True:
                task = take(sync, thread, threads, rows)
                if task < 0:
                    break
                norm_row_wide(context, weight, load32(wanted + 4 * task), task, acts, plain)
            wait(sync, threads, tasks)
        out, lines = local + load(context + c_local_out), local + load(context + c_local_lines)
        while True:
            tile = take(sync, thread, threads, tasks)
            if tile < 0:
                break
            count = min(TILE_ROWS, load(matrix + _ROWS) - tile * TILE_ROWS)
            wide = load(matrix + _KIND) < _F16
            total = 2 * rows if wide else rows
            spread = total > SMALL
            if spread:
                unpack(load(matrix + _KIND), load(matrix + _DATA) + tile * load(matrix + _TILE_BYTES), load(matrix + _BLOCKS), lines)
            first = 0
            while first < total:
                strip = min(STRIP, total - first)
                multiply(matrix, tile, lines, acts, stride, plain, plain_stride, first, strip, spread, out)
                if wide:
                    for pair in range(strip // 2):
                        put_pair(load(addresses + 8 * (first // 2 + pair)) + LINE * tile, out + 2 * LINE * pair, count)
                else:
                    for row in range(strip):
                        put_rows(load(addresses + 8 * (first + row)) + LINE * tile, out + LINE * row, count)
                first += strip
        wait(sync, threads, 0)

    @function
    def step(context):
        fault = check(context)
        if fault != 0:
            return fault
        sync, threads = load(context + c_sync), load(context + c_threads)
        make_tiles(context)
        deal(sync, threads, load(context + c_n))
        atomic_add(sync + EPOCH, 1)
        if atomic_load(sync + IDLE) > 0:
            wake_all(sync + EPOCH)
        run(context, 0)
        return 0

    @function
    def work(context, thread):
        sync = load(context + c_sync)
        seen = 0
        while True:
            spins = 0
            while atomic_load(sync + EPOCH) == seen and atomic_load(sync + STOP) == 0:
                spins += 1
                if spins < IDLE_SPINS:
                    pause()
                else:
                    atomic_add(sync + IDLE, 1)
                    if atomic_load(sync + STOP) == 0:
                        sleep_on(sync + EPOCH, seen)
                    atomic_add(sync + IDLE, -1)
            if atomic_load(sync + STOP) != 0:
                return
            seen = atomic_load(sync + EPOCH)
            run(context, thread)

    @function
    def enter(context, thread):
        if thread == 0:
            return step(context)
        work(context, thread)
        return 0

    return Entry(enter, made.library)
