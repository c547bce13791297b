"""Threads start and stop with their model, and never keep a process."""

import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

from sealhost.kernels.cpu import arena
from sealhost.kernels.cpu.sync import ROUND, THREAD_BYTES, THREADS
from sealhost.kernels.errors import KernelError
from sealhost.kernels.formats import Format
from sealhost.kernels.reference import ReferenceBackend


def kernel_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("sealhost-kernel")]


def test_close_stops_the_threads_and_can_be_repeated(build, runner, cpu, tiny_spec):
    before = len(kernel_threads())
    model = build(cpu, tiny_spec, threads=3)
    runner(model).step(([1], 0, [0]))
    assert len(kernel_threads()) == before + 2
    model.close()
    model.close()
    assert len(kernel_threads()) == before


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_closed_model_refuses_to_step(build, runner, cpu, tiny_spec, backend):
    model = build(cpu if backend == "cpu" else ReferenceBackend(), tiny_spec)
    model.close()
    with pytest.raises(KernelError, match="open model"):
        runner(model).step(([1], 0, [0]))


def test_a_model_that_is_dropped_stops_its_threads(cpu, tiny_spec, model_tensors):
    before = len(kernel_threads())
    builder = cpu.builder(tiny_spec, threads=2)
    for role, layer, tensor in model_tensors(tiny_spec, Format.Q4_1):
        builder.put(role, layer, tensor)
    model = builder.finish(kv_blocks=2, max_tokens=4, max_sequences=1)
    gone = weakref.ref(model)
    assert len(kernel_threads()) == before + 1
    del model, builder
    gc.collect()
    assert gone() is None
    assert len(kernel_threads()) == before


def test_signals_that_interrupt_steps_change_no_logits(build, runner, backends, tiny_spec):
    taken, tokens = [], list(range(1, 50))
    for backend in backends.values():
        model = runner(build(backend, tiny_spec, threads=2))
        expected = model.step((tokens, 0, [0, 1, 2, 3]))
        wanted, before = len(taken) + 10, signal.signal(signal.SIGALRM, lambda *_: taken.append(1))
        signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
        try:
            while len(taken) < wanted:
                assert np.array_equal(model.step((tokens, 0, [0, 1, 2, 3])), expected)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def test_an_arena_keeps_all_that_it_gave_until_it_goes(monkeypatch):
    monkeypatch.setattr(arena, "CHUNK_BYTES", 1)
    given = arena.Arena()
    chunks = [weakref.ref(given.take(2 << 20).base) for _ in range(4)]  # the arrays themselves are dropped
    gc.collect()
    assert all(chunk() is not None for chunk in chunks)
    assert len({id(chunk()) for chunk in chunks}) == 4
    del given
    assert all(chunk() is None for chunk in chunks)


def test_models_run_at_the_same_time_from_different_threads(build, runner, cpu, tiny_spec):
    runs = [runner(build(cpu, tiny_spec)) for _ in range(3)]
    expected = runs[0].step(([1, 2, 3], 0, [0]))
    wrong = []

    def work(run):
        wrong.extend(run for _ in range(50) if not np.array_equal(run.step(([1, 2, 3], 0, [0])), expected))

    threads = [threading.Thread(target=work, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("rounds", [2**31 - 3, -3])
def test_counting_barriers_past_the_largest_number_changes_nothing(build, runner, cpu, tiny_spec, rounds):
    logits = []
    for first in (0, rounds):
        model = build(cpu, tiny_spec, threads=3)
        for thread in range(3):
            at = THREADS + THREAD_BYTES * thread + ROUND
            model._crew.sync[at : at + 4].view(np.int32)[0] = first
        logits.append([runner(model).step(([token], token, [0])) for token in range(4)])
        model.close()
    assert np.array_equal(*logits)


def test_more_threads_than_processors_get_there_too(build, runner, cpu, tiny_spec):
    run = runner(build(cpu, tiny_spec, threads=2 * (os.cpu_count() or 1) + 3))
    first = run.step(([1, 2, 3], 0, [0]))
    for _ in range(5):
        assert np.array_equal(run.step(([1, 2, 3], 0, [0])), first)


SCRIPT = """
import sys
sys.path.insert(0, {here!r})
import conftest
import numpy as np
from sealhost.kernels.cpu import CpuBackend
builder = CpuBackend().builder(conftest.TINY, threads=2)
for place in conftest._model_tensors(conftest.TINY, conftest.Format.Q4_1):
    builder.put(*place)
model = builder.finish(kv_blocks=4, max_tokens=4, max_sequences=1)
run = conftest.Runner(model)
run.step(([1], 0, [0]))
"""


def run_script(extra, **options):
    script = SCRIPT.format(here=str(Path(__file__).parent)) + extra
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False, **options
    )


@pytest.mark.parametrize("ending", ["", "sys.exit(3)", "1 / 0", "globals().update(model=None, run=None, builder=None)"])
def test_a_process_ends_without_close(cpu, ending):
    done = run_script(ending)
    assert done.returncode == {"": 0, "sys.exit(3)": 3, "1 / 0": 1}.get(ending, 0), done.stderr


def test_an_interrupt_ends_a_process_that_is_stepping(cpu):
    script = (
        SCRIPT.format(here=str(Path(__file__).parent))
        + "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's `&` has it ignored
        + "print('ready', flush=True)\nwhile True: run.step(([1], 0, [0]))"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGINT or b"KeyboardInterrupt" in errors


def test_a_start_from_the_cache_imports_no_compiler(cpu):
    script = "import sys; from sealhost.kernels.cpu import CpuBackend; CpuBackend(); print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "False\n"
