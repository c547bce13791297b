"""One step of the model: phases over all layers, walked by every thread together.

Rules
* A phase is a list of tasks; a thread takes its own share first and then what others have left (clause 6.2).
* Phases are divided by `wait`, five to a layer in decode. Work that is cheaper than a barrier is done by every thread
  for itself: norms, merging and quantisation of up to SMALL tokens.
* Who does a task, and what else is in the batch, never changes a result (clause 4).

Data flow of a layer: x -> norm, quantise -> Q K V -> rotate, store, attend -> quantise -> output, added to x
-> norm, quantise -> gate, up, SwiGLU, quantise -> down, added to x.
"""

from __future__ import annotations

from . import words as w
from .attend import attention_phase, attention_tasks, store_phase
from .control import check, chunks, deal, first_of_qkv, first_tile, make_tiles, tasks_after_norm, wait, wait_ahead
from .kernelset import atomic_add, atomic_load, function, load, pause, sleep_on, wake_all
from .phases import (
    acts_of,
    embed_phase,
    gate_phase,
    head_phase,
    norm_phase,
    plain_of,
    project,
    qkv_phase,
    quantise_phase,
    settle_phase,
)
from .program import AHEAD
from .sync import EPOCH, IDLE, IDLE_SPINS, LONE_IDLE_SPINS, STOP


@function
def attention_half(
    context: int, thread: int, layer: int, local: int, n: int, post: int, qkv_tasks: int, out_tasks: int
) -> None:
    """X += output(attention(norm(x))); `post` is the post-norm of the layer before, which has not been added yet."""
    sync, threads = load(context + w.c_sync), load(context + w.c_threads)
    norm_phase(context, thread, local, load(layer + w.l_att_norm), 0, n, True, post, qkv_tasks)
    qkv_phase(context, thread, layer, local)
    alone = n == load(context + w.c_sequence_count)  # no token attends to another one of this step
    wait(sync, thread, threads, attention_tasks(context) if alone else n)
    if not alone:
        store_phase(context, thread, layer)
        wait(sync, thread, threads, attention_tasks(context))
    attention_phase(context, thread, layer, local, alone)
    wait_ahead(
        sync, thread, threads, tasks_after_norm(n, out_tasks), first_tile(layer + w.l_out, thread, threads), AHEAD
    )
    quantise_phase(context, thread, layer, local, out_tasks)
    project(
        context, thread, local, layer + w.l_out, n, acts_of(context, local, n), load(context + w.c_acts_stride),
        plain_of(context, local, n), load(context + w.c_plain_stride),
    )  # fmt: skip


@function
def feed_forward_half(
    context: int, thread: int, layer: int, local: int, n: int, unit_tasks: int, out_tasks: int
) -> None:
    """X += down(activation(gate(norm(x))) * up(norm(x)))."""
    norm_phase(
        context, thread, local, load(layer + w.l_ff_norm), 0, n, False, load(layer + w.l_post_att), unit_tasks
    )  # fmt: skip
    gate_phase(context, thread, layer, local)
    threads = load(context + w.c_threads)
    wait_ahead(
        load(context + w.c_sync), thread, threads, out_tasks, first_tile(layer + w.l_down, thread, threads), AHEAD
    )
    project(
        context, thread, local, layer + w.l_down, n, load(context + w.c_hid), load(context + w.c_hid_stride),
        load(context + w.c_hid_plain), load(context + w.c_hid_plain_stride),
    )  # fmt: skip


@function
def run(context: int, thread: int) -> None:
    """Everything that one thread does in a step."""
    sync, threads, n = load(context + w.c_sync), load(context + w.c_threads), load(context + w.c_n)
    local = load(context + w.c_local) + thread * load(context + w.c_local_stride)
    layer = load(context + w.c_layers)
    tiles = load(layer + w.l_query + w.m_tiles) + 2 * load(layer + w.l_key + w.m_tiles)
    qkv_tasks, out_tasks = tiles * chunks(n), load(layer + w.l_out + w.m_tiles) * chunks(n)
    unit_tasks = load(context + w.c_hidden) * chunks(n)
    rows = load(context + w.c_logits_count)
    head_tasks = load(load(context + w.c_head) + w.m_tiles) if rows > 0 else 0
    embed_phase(context, thread, local)
    post = 0
    for _number in range(load(context + w.c_layer_count)):
        wait_ahead(sync, thread, threads, tasks_after_norm(n, qkv_tasks), first_of_qkv(layer, thread, threads), AHEAD)
        attention_half(context, thread, layer, local, n, post, qkv_tasks, out_tasks)
        wait_ahead(
            sync, thread, threads, tasks_after_norm(n, unit_tasks), first_tile(layer + w.l_gate, thread, threads), AHEAD
        )
        feed_forward_half(context, thread, layer, local, n, unit_tasks, out_tasks)
        post = load(layer + w.l_post_ff)
        layer += w.l_end
    if post != 0:
        wait(sync, thread, threads, n)
        settle_phase(context, thread, local, post)
    wait_ahead(
        sync,
        thread,
        threads,
        tasks_after_norm(rows, head_tasks),
        first_tile(load(context + w.c_head), thread, threads),
        AHEAD,
    )
    norm_phase(
        context,
        thread,
        local,
        load(context + w.c_output_norm),
        load(context + w.c_logits_tokens),
        rows,
        True,
        0,
        head_tasks,
    )
    head_phase(context, thread, local)
    wait(sync, thread, threads, 0)


@function
def step(context: int) -> int:
    """Thread 0: checks the batch, wakes the others and runs."""
    fault = check(context)
    if fault != 0:
        return fault
    sync = load(context + w.c_sync)
    make_tiles(context)
    deal(sync, load(context + w.c_threads), load(context + w.c_n))
    if load(context + w.c_threads) > 1:
        atomic_add(sync + EPOCH, 1)
        if atomic_load(sync + IDLE) > 0:
            wake_all(sync + EPOCH)
    run(context, 0)
    return 0


@function
def work(context: int, thread: int) -> None:
    """Any other thread: runs each step, until stopped."""
    sync = load(context + w.c_sync)
    seen = 0
    while atomic_load(sync + STOP) == 0:
        spins, most = 0, LONE_IDLE_SPINS if load(context + w.c_n) == 1 else IDLE_SPINS
        while atomic_load(sync + EPOCH) == seen:
            spins += 1
            if spins < most:
                pause()
            else:
                atomic_add(sync + IDLE, 1)
                sleep_on(sync + EPOCH, seen)
                atomic_add(sync + IDLE, -1)
        seen = atomic_load(sync + EPOCH)
        if atomic_load(sync + STOP) == 0:
            run(context, thread)


@function
def enter(context: int, thread: int) -> int:
    """The entry point.

    Thread 0 is the caller: it checks the batch, runs one step with the others and returns 0, or a `program.Fault`.
    Another thread stays inside until the stop flag is set.
    """
    if thread == 0:
        return step(context)
    work(context, thread)
    return 0
