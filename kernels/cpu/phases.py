"""The phases of a step that multiply matrices, and those that make their activations.

Every function is what one thread does in a phase: it takes tasks until none are left. A task of a product is one tile
of 16 rows times one chunk of columns; a column is a row of activations.
"""

from __future__ import annotations

from ..layouts import LINE, TILE_ROWS
from . import words as w
from .attend import merge_row
from .control import chunks, take, wait
from .kernelset import (
    add_rows,
    cap_tile,
    columns,
    embed,
    function,
    geglu_quantise,
    load,
    load32,
    norm_quantise,
    norm_quantise_wide,
    prefetch_own,
    put_rows,
    quantise,
    scale_row,
    settle,
    swiglu_quantise,
    unpack,
)
from .program import CHUNK, SMALL, SQUARE


@function
def acts_of(context: int, local: int, n: int) -> int:
    """Where n tokens' activations are: in the thread's own memory when it makes them itself."""
    return local + load(context + w.c_local_acts) if n <= SMALL else load(context + w.c_acts)


@function
def plain_of(context: int, local: int, n: int) -> int:
    """Where their float32 copies are; 0 when no matrix wants them."""
    plain = load(context + w.c_plain)
    return local + load(context + w.c_local_plain) if plain != 0 and n <= SMALL else plain


@function
def residual(context: int, local: int) -> int:
    """Where x is: in the thread's own memory when a few tokens have post-norms, which each thread adds for itself."""
    own = load(context + w.c_local_x)
    return local + own if own != 0 and load(context + w.c_n) <= SMALL else load(context + w.c_x)


@function
def settle_row(context: int, local: int, post: int, row: int) -> None:
    """Norms one row of y and adds it to x."""
    blocks = load(context + w.c_dim)
    at = row * blocks * w.ROW_BYTES
    settle(residual(context, local) + at, load(context + w.c_y) + at, post, blocks, load(context + w.c_epsilon))


@function
def settle_phase(context: int, thread: int, local: int, post: int) -> None:
    """Adds what is left in y to x, all rows."""
    n = load(context + w.c_n)
    if n <= SMALL:
        for row in range(n):
            settle_row(context, local, post, row)
        return
    sync, threads = load(context + w.c_sync), load(context + w.c_threads)
    while True:
        row = take(sync, thread, threads, n)
        if row < 0:
            break
        settle_row(context, local, post, row)


@function
def norm_row(context: int, local: int, weight: int, source: int, index: int, n: int, wide: int) -> None:
    """Norms and quantises row `source` of x to row `index` of the activations, of 8 or 16 bits."""
    blocks = load(context + w.c_dim)
    x = residual(context, local) + source * blocks * w.ROW_BYTES
    acts, plain = acts_of(context, local, n), plain_of(context, local, n)
    copy = 0 if plain == 0 else plain + index * load(context + w.c_plain_stride)
    if wide:
        act = acts + index * load(context + w.c_wide_stride)
        norm_quantise_wide(x, weight, act, copy, blocks, load(context + w.c_epsilon))
    else:
        act = acts + index * load(context + w.c_acts_stride)
        norm_quantise(x, weight, act, copy, blocks, load(context + w.c_epsilon))


@function
def norm_phase(
    context: int, thread: int, local: int, weight: int, wanted: int, n: int, wide: int, post: int, tasks: int
) -> None:
    """Norms and quantises n rows of x (those that `wanted` lists, unless it is 0); then `tasks` are dealt.

    Unless `post` is 0, it is the weight with which y is normed and added to x before that.
    """
    if n <= SMALL:
        for row in range(n):
            if post != 0:
                settle_row(context, local, post, row)
            norm_row(context, local, weight, row if wanted == 0 else load32(wanted + 4 * row), row, n, wide)
        return
    sync, threads = load(context + w.c_sync), load(context + w.c_threads)
    while True:
        row = take(sync, thread, threads, n)
        if row < 0:
            break
        if post != 0:
            settle_row(context, local, post, row)
        norm_row(context, local, weight, row if wanted == 0 else load32(wanted + 4 * row), row, n, wide)
    wait(sync, thread, threads, tasks)


@function
def quantise_row(context: int, x: int, index: int, acts: int, plain: int) -> None:
    """Quantises a row of attention output."""
    copy = 0 if plain == 0 else plain + index * load(context + w.c_plain_stride)
    quantise(x, acts + index * load(context + w.c_acts_stride), copy, load(context + w.c_attention))


@function
def quantise_phase(context: int, thread: int, layer: int, local: int, tasks: int) -> None:
    """Quantises the attention's output; then `tasks` are dealt."""
    n = load(context + w.c_n)
    acts, plain = acts_of(context, local, n), plain_of(context, local, n)
    if n <= SMALL:
        for row in range(n):
            quantise_row(context, merge_row(context, layer, local, row), row, acts, plain)
        return
    sync, threads = load(context + w.c_sync), load(context + w.c_threads)
    row_bytes = load(context + w.c_attention) * w.ROW_BYTES
    while True:
        row = take(sync, thread, threads, n)
        if row < 0:
            break
        quantise_row(context, load(context + w.c_att) + row * row_bytes, row, acts, plain)
    wait(sync, thread, threads, tasks)


@function
def multiply(
    matrix: int,
    tile: int,
    lines: int,
    form: int,
    acts: int,
    stride: int,
    plain: int,
    plain_stride: int,
    first: int,
    count: int,
    out: int,
) -> None:
    """One tile times `count` columns from `first`, to out[count][16]."""
    columns(
        load(matrix + w.m_data) + tile * load(matrix + w.m_tile_bytes), lines, form,
        acts + first * stride, stride, plain + first * plain_stride, plain_stride,
        load(matrix + w.m_kind), load(matrix + w.m_blocks), count, out,
    )  # fmt: skip


@function
def form_of(matrix: int, count: int, wide: int) -> int:
    """In which form a tile is multiplied with that many columns."""
    if count <= load(matrix + w.m_few):
        return w.WIDE if wide else w.PACKED
    return w.WIDE_UNPACKED if wide else w.UNPACKED


@function
def spread(matrix: int, tile: int, count: int, lines: int) -> None:
    """Unpacks a tile when it pays for that many columns."""
    if count > load(matrix + w.m_few):
        data = load(matrix + w.m_data) + tile * load(matrix + w.m_tile_bytes)
        unpack(load(matrix + w.m_kind), data, load(matrix + w.m_blocks), lines, count)


@function
def strip_of(context: int, left: int) -> int:
    """How many of the columns that are left go next: of several strips none is shorter than a square."""
    strip = load(context + w.c_strip)
    return left if left < strip + SQUARE else strip


@function
def product(
    context: int,
    local: int,
    matrix: int,
    tile: int,
    chunk: int,
    n: int,
    acts: int,
    stride: int,
    plain: int,
    plain_stride: int,
    x: int,
    x_stride: int,
    wide: int,
    put: int,
    bias: int,
) -> None:
    """One tile times one chunk of n columns: put into float32 rows, plus a bias unless it is 0, or else added there."""
    lines, out = local + load(context + w.c_local_lines), local + load(context + w.c_local_out)
    first, end = chunk * CHUNK, min(n, (chunk + 1) * CHUNK)
    form = form_of(matrix, end - first, wide)
    spread(matrix, tile, end - first, lines)
    rows = min(TILE_ROWS, load(matrix + w.m_rows) - tile * TILE_ROWS)
    to = x + LINE * tile
    while first < end:
        count = strip_of(context, end - first)
        for column in range(count):
            prefetch_own(to + (first + column) * x_stride)
        multiply(matrix, tile, lines, form, acts, stride, plain, plain_stride, first, count, out)
        for column in range(count):
            if put:
                put_rows(to + (first + column) * x_stride, out + LINE * column, rows)
                if bias != 0:
                    add_rows(to + (first + column) * x_stride, bias + LINE * tile, rows)
            else:
                add_rows(to + (first + column) * x_stride, out + LINE * column, rows)
        first += count


@function
def embed_row(context: int, local: int, row: int) -> None:
    """Looks up one token's row of the embedding."""
    matrix = load(context + w.c_embedding)
    blocks = load(matrix + w.m_blocks)
    token = load32(load(context + w.c_tokens) + 4 * row)
    tile = load(matrix + w.m_data) + token // TILE_ROWS * load(matrix + w.m_tile_bytes)
    to = residual(context, local) + row * blocks * w.ROW_BYTES
    embed(load(matrix + w.m_kind), tile, token % TILE_ROWS, blocks, to)
    scale = load(context + w.c_embedding_scale)
    if scale != 0:
        scale_row(to, blocks, scale)


@function
def embed_phase(context: int, thread: int, local: int) -> None:
    """Looks up the tokens' rows of the embedding."""
    sync, threads, n = load(context + w.c_sync), load(context + w.c_threads), load(context + w.c_n)
    if residual(context, local) != load(context + w.c_x):
        for row in range(n):
            embed_row(context, local, row)
        return
    while True:
        task = take(sync, thread, threads, n)
        if task < 0:
            break
        embed_row(context, local, task)


@function
def qkv_phase(context: int, thread: int, layer: int, local: int) -> None:
    """Queries, keys and values, side by side in one row a token."""
    sync, threads, n = load(context + w.c_sync), load(context + w.c_threads), load(context + w.c_n)
    q_tiles, kv_tiles = load(layer + w.l_query + w.m_tiles), load(layer + w.l_key + w.m_tiles)
    all_tiles = q_tiles + 2 * kv_tiles
    acts, plain = acts_of(context, local, n), plain_of(context, local, n)
    stride, plain_stride = load(context + w.c_wide_stride), load(context + w.c_plain_stride)
    to, to_stride, bias = load(context + w.c_qkv), load(context + w.c_qkv_stride), load(layer + w.l_bias)
    while True:
        task = take(sync, thread, threads, all_tiles * chunks(n))
        if task < 0:
            break
        tile, matrix, start = task % all_tiles, layer + w.l_query, 0
        if tile >= q_tiles + kv_tiles:
            matrix, start = layer + w.l_value, q_tiles + kv_tiles
        elif tile >= q_tiles:
            matrix, start = layer + w.l_key, q_tiles
        product(
            context, local, matrix, tile - start, task // all_tiles, n, acts, stride, plain, plain_stride,
            to + LINE * start, to_stride, True, True, 0 if bias == 0 else bias + LINE * start,
        )  # fmt: skip


@function
def project(
    context: int, thread: int, local: int, matrix: int, n: int, acts: int, stride: int, plain: int, plain_stride: int
) -> None:
    """A matrix times n columns: added to x, or put into y where a norm comes in between."""
    sync, threads = load(context + w.c_sync), load(context + w.c_threads)
    tiles = load(matrix + w.m_tiles)
    x, y, x_stride = load(context + w.c_x), load(context + w.c_y), load(context + w.c_dim) * w.ROW_BYTES
    while True:
        task = take(sync, thread, threads, tiles * chunks(n))
        if task < 0:
            break
        product(
            context,
            local,
            matrix,
            task % tiles,
            task // tiles,
            n,
            acts,
            stride,
            plain,
            plain_stride,
            x if y == 0 else y,
            x_stride,
            False,
            y != 0,
            0,
        )


@function
def gated(context: int, local: int, layer: int, unit: int, first: int, end: int, acts: int, plain: int) -> None:
    """Gate and up for 32 hidden rows and one chunk of columns, then the activation and quantisation."""
    lines, out = local + load(context + w.c_local_lines), local + load(context + w.c_local_out)
    stride, plain_stride = load(context + w.c_acts_stride), load(context + w.c_plain_stride)
    tile_lines = (out - lines) // 4
    chunk = end - first
    for part in range(4):
        spread(layer + (w.l_gate if part < 2 else w.l_up), 2 * unit + part % 2, chunk, lines + part * tile_lines)
    hidden_stride, plain_hidden = load(context + w.c_hid_stride), load(context + w.c_hid_plain)
    gelu, room = load(context + w.c_gelu), (load(context + w.c_strip) + SQUARE) * LINE
    while first < end:
        count = strip_of(context, end - first)
        for column in range(count):
            prefetch_own(load(context + w.c_hid) + (first + column) * hidden_stride + unit * w.ACT_BYTES)
        for part in range(4):
            matrix, to = layer + (w.l_gate if part < 2 else w.l_up), out + part * room
            form, at = form_of(matrix, chunk, False), lines + part * tile_lines
            multiply(matrix, 2 * unit + part % 2, at, form, acts, stride, plain, plain_stride, first, count, to)
        for column in range(count):
            act = load(context + w.c_hid) + (first + column) * hidden_stride
            copy = 0 if plain_hidden == 0 else plain_hidden + (first + column) * load(context + w.c_hid_plain_stride)
            if gelu:
                geglu_quantise(out + LINE * column, room, act, copy, unit)
            else:
                swiglu_quantise(out + LINE * column, room, act, copy, unit)
        first += count


@function
def gate_phase(context: int, thread: int, layer: int, local: int) -> None:
    """Gate, up and SwiGLU; a task is 32 hidden rows, which make one record of the activations of `down`."""
    sync, threads, n = load(context + w.c_sync), load(context + w.c_threads), load(context + w.c_n)
    units = load(context + w.c_hidden)
    acts, plain = acts_of(context, local, n), plain_of(context, local, n)
    while True:
        task = take(sync, thread, threads, units * chunks(n))
        if task < 0:
            break
        first = task // units * CHUNK
        gated(context, local, layer, task % units, first, min(n, first + CHUNK), acts, plain)


@function
def head_tile(context: int, local: int, matrix: int, tile: int, rows: int) -> None:
    """One tile of the head for the wanted rows, straight to their addresses."""
    lines, out = local + load(context + w.c_local_lines), local + load(context + w.c_local_out)
    addresses, form = load(context + w.c_logits_addresses), form_of(matrix, rows, True)
    acts, plain = acts_of(context, local, rows), plain_of(context, local, rows)
    stride, plain_stride = load(context + w.c_wide_stride), load(context + w.c_plain_stride)
    count, cap = min(TILE_ROWS, load(matrix + w.m_rows) - tile * TILE_ROWS), load(context + w.c_logit_cap)
    spread(matrix, tile, rows, lines)
    first = 0
    while first < rows:
        some = strip_of(context, rows - first)
        multiply(matrix, tile, lines, form, acts, stride, plain, plain_stride, first, some, out)
        for row in range(some):
            if cap != 0:
                cap_tile(out + LINE * row, cap)
            put_rows(load(addresses + 8 * (first + row)) + LINE * tile, out + LINE * row, count)
        first += some


@function
def head_phase(context: int, thread: int, local: int) -> None:
    """The head for the wanted rows."""
    sync, threads, rows = load(context + w.c_sync), load(context + w.c_threads), load(context + w.c_logits_count)
    matrix = load(context + w.c_head)
    tasks = load(matrix + w.m_tiles) if rows > 0 else 0
    while True:
        tile = take(sync, thread, threads, tasks)
        if tile < 0:
            break
        head_tile(context, local, matrix, tile, rows)
