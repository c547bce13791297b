"""Random modules into the parser, random answers into the host: nothing but our own errors comes of either.

In the quick suite each runs a few hundred examples; `-m soak` runs them for SEALHOST_FUZZ_S seconds each (100 by default).
"""

from __future__ import annotations

import os
import random
import struct
import time
from pathlib import Path

import numpy as np
import pytest
import wasmtime

from sealhost.plugins import reference_plugin
from sealhost.sandbox import AdmissionError, GuestError, Limits, OperatorLimits, SamplingParams, SandboxError
from sealhost.sandbox.admission import admit
from sealhost.sandbox.engine import Engine
from sealhost.sandbox.wasm_rewrite import with_global_exports

HERE = Path(__file__).parent
VOCABULARY = 260
ALLOWED = OperatorLimits(memory_bytes=1 << 26)
LIMITS = Limits(memory_bytes=1 << 26, init_ms=1, load_ms=1, step_ms=1, encode_ms=1)


def seconds() -> float:
    return float(os.environ.get("SEALHOST_FUZZ_S", "100"))


# ---- the parser


@pytest.fixture(scope="module")
def seeds(guest_of_bytes):
    """Modules that are let in: small ones with every section, and a reference guest."""
    first = (
        '(memory (export "memory") 2 2) (data (i32.const 64) "ab") (data "passive") (table 3 funcref) (elem (i32.const 1) $f) (elem func $f)'
        "(global $g (mut i64) (i64.const 7)) (global f32 (f32.const 1)) (func $f (param i32) (result i32) (local i64 f64) (i32.add (local.get 0) (i32.const 1)))"
    )
    second = '(memory (export "memory") 1 1) (func (param i32 v128) (result f64 i32) (drop (local.get 1)) (f64.const 0) (local.get 0))'
    exports = (
        '(func (export "sealhost_sampler_v1") (result i32) (i32.const 0)) (func (export "layout") (result i32) (i32.const 64))'
        '(func (export "init") (result i32) (i32.const 0)) (func (export "reset") (result i32) (i32.const 0))'
        '(func (export "step") (param i32) (result i32) (block (loop (br_if 1 (local.get 0)) (br 0))) (i32.const 0))'
    )
    small = [bytes(wasmtime.wat2wasm(f"(module {text} {exports})")) for text in (first, second)]
    standard = (reference_plugin("sampler", "standard") / "plugin.wasm").read_bytes()
    return [guest_of_bytes("sampler", wasm) for wasm in [*small, standard]]


@pytest.fixture(scope="module")
def raw_engine():
    engine = Engine(ALLOWED)
    yield engine.raw
    engine.close()


def mutated(wasm: bytes, chance: random.Random) -> bytes:
    data = bytearray(wasm)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        at = chance.randrange(len(data))
        kind = chance.randrange(6)
        if kind == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            data[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, 0x60, 0x70, chance.randrange(256)))
        elif kind == 2:
            del data[at : at + chance.choice((1, 1, 2, 20))]
        elif kind == 3:
            data[at:at] = chance.randbytes(chance.choice((1, 1, 2, 9)))
        elif kind == 4:
            size = chance.choice((1, 4, 40))
            other = chance.randrange(len(data))
            data[at : at + size] = data[other : other + size]
        else:
            data[at:at] = b"\x80\x80\x80\x80\x00"[chance.randrange(5) :]
        if not data:
            return b""
    return bytes(data)


def check_module(guest, wasm: bytes, engine: wasmtime.Engine) -> bool:
    """Whether it is let in as far as bytes decide; then what is built of it is exactly as valid as it is."""
    made = type(guest)(wasm, guest.role, tier=guest.tier)
    try:
        module = admit(made, LIMITS, ALLOWED)
    except AdmissionError as error:
        refusal = str(error)
    else:
        refusal = ""
    assert refusal.isprintable()
    if refusal:
        return False
    assert valid(engine, wasm) == valid(engine, with_global_exports(module))
    return True


def valid(engine: wasmtime.Engine, wasm: bytes) -> bool:
    try:
        wasmtime.Module.validate(engine, wasm)
    except wasmtime.WasmtimeError:
        return False
    return True


def test_a_bent_module_is_refused_or_as_valid_as_what_is_made_of_it(seeds, raw_engine):
    chance = random.Random(5)
    assert all(check_module(guest, guest.wasm, raw_engine) for guest in seeds)
    outcomes = [check_module(guest, mutated(guest.wasm, chance), raw_engine) for guest in seeds[:2] for _ in range(400)]
    outcomes += [check_module(seeds[2], mutated(seeds[2].wasm, chance), raw_engine) for _ in range(40)]
    assert 0 < sum(outcomes) < len(outcomes)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_bent_module_is_refused_for_a_long_time(seed, seeds, raw_engine):
    guest, until = seeds[seed], time.monotonic() + seconds()
    while time.monotonic() < until:
        number = random.getrandbits(64)
        wasm = mutated(guest.wasm, random.Random(number))
        try:
            check_module(guest, wasm, raw_engine)
        except Exception as error:
            raise AssertionError(f"mutated(seeds[{seed}].wasm, random.Random({number})) raised {error!r}") from error


# ---- answers

TIERS = ["full", "topk:4", "mask"]


def number(chance: random.Random) -> int:
    return chance.choice(
        (0, 1, 2, 3, 4, 16, 31, 32, 259, 260, 261, 2**31 - 1, 2**31, 2**32 - 1, chance.getrandbits(32))
    )


def some(chance: random.Random, size: int, *, ids: bool = False) -> bytes:
    """Bytes of an area: zeros, ones, anything, or ids that may be."""
    kind = 3 if ids and chance.random() < 0.5 else chance.randrange(4)
    if kind == 0:
        return bytes(size)
    if kind == 1:
        return b"\xff" * size
    if kind == 2:
        return chance.randbytes(size)
    return struct.pack(f"<{size // 4}I", *(chance.randrange(300) for _ in range(size // 4)))


def scribble(chance: random.Random) -> bytes:
    results = b"".join(
        struct.pack("<4I", chance.choice((16, 16, 16, 16, 20, 0, number(chance))), chance.choice((*range(10), number(chance))),
                    number(chance), chance.choice((1, 2, 3, number(chance))))
        for _ in range(4)
    )  # fmt: skip
    candidates = b"".join(
        struct.pack("<If", chance.choice((chance.randrange(262), number(chance))), chance.choice((0.5, np.inf, -np.inf, np.nan, -1e38)))
        for _ in range(64)
    )  # fmt: skip
    history = some(chance, 512, ids=True) if chance.random() < 0.2 else bytes(512)
    status = chance.choice((0, 0, 0, 0, 0, 0, 1, -1, -0x40000000, -0x40000005, -(2**31)))
    return b"".join(
        (results, some(chance, 256, ids=True), candidates, history, some(chance, 64), some(chance, 4100), struct.pack("<i", status))
    )  # fmt: skip


def check_answers(sampler, chance: random.Random) -> str:
    """One slot or two, one step: what came of it, which must be something the host knows."""
    slots = range(chance.choice((1, 2)))
    params = SamplingParams(
        temperature=chance.choice((0, 1, 1e-6)), top_k=chance.choice((0, 1, 500)), top_p=chance.choice((1, 0.5)),
        repetition_penalty=chance.choice((1, 2)), presence_penalty=chance.choice((0, 1)), seed=chance.getrandbits(64),
        logit_bias=((3, -np.inf),) if chance.random() < 0.3 else (),
    )  # fmt: skip
    with sampler.session(params, [1, 2], choices=slots, config=scribble(chance)) as session:
        session.accept(0, (5, 6, 7))
        for slot in slots:
            row = np.full(VOCABULARY, chance.choice((0.0, 1.0, np.nan, np.inf, -np.inf)))
            row[7] = chance.choice((0, np.nan))
            session.logits(slot)[:] = row
        try:
            session.prepare(slots)
            decisions = session.step(slots)
        except GuestError as error:
            failure = error
        else:
            failure = None
        if failure is not None:
            assert str(failure).isprintable()
            assert failure.kind in {"invalid", "empty", "error"}
            with pytest.raises(SandboxError):
                session.step(slots)
            return failure.kind
        for decision, room in zip(decisions, (3, 0)[: len(slots)], strict=True):
            assert all(0 <= token < VOCABULARY for token in decision.tokens)
            assert 0 <= decision.backtrack <= room
            assert len(decision.tokens) <= 64
            assert not (decision.stop and decision.tokens)
        for slot, decision in enumerate(decisions):
            session.accept(slot, decision.tokens, decision.backtrack)
        session.log()
    return "ok"


@pytest.mark.parametrize("tier", TIERS)
def test_any_answer_is_a_decision_or_an_error_of_its_guest(tier, scribbler):
    chance, sampler = random.Random(tier), scribbler(tier)
    outcomes = [check_answers(sampler, chance) for _ in range(1_000)]
    assert set(outcomes) == {"ok", "invalid", "empty", "error"}


@pytest.mark.soak
@pytest.mark.parametrize("tier", TIERS)
def test_any_answer_is_a_decision_or_an_error_for_a_long_time(tier, scribbler):
    until, sampler = time.monotonic() + seconds(), scribbler(tier)
    while time.monotonic() < until:
        number = random.getrandbits(64)
        try:
            check_answers(sampler, random.Random(number))
        except Exception as error:
            raise AssertionError(
                f"check_answers(scribbler({tier!r}), random.Random({number})) raised {error!r}"
            ) from error
