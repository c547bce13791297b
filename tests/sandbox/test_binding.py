"""The way into a guest below the public one: that it is there, says what the public one says, and shares nothing."""

from __future__ import annotations

import runpy
from types import SimpleNamespace

import pytest
import wasmtime

from sealhost.sandbox import GuestError, OperatorLimits, SamplingParams, Sandbox, SandboxError, binding

LOOP = '(func (export "step") (param i32) (result i32) (loop $l (br $l)) (i32.const 0))'
TRAP = '(func (export "step") (param i32) (result i32) (unreachable))'


def load(sandbox, build_guest, text=""):
    return sandbox.load_sampler(build_guest("sampler", text), 260)


def kind_of_failure(sampler) -> str:
    with sampler.session(SamplingParams(), []) as session, pytest.raises(GuestError) as caught:
        session.step()
    return caught.value.kind


def test_public_call_does_the_same_as_the_private_one(sandbox, build_guest, monkeypatch, byte_vocabulary):
    monkeypatch.setattr(binding, "AVAILABLE", False)
    sampler = load(sandbox, build_guest)
    with sampler.session(SamplingParams(), []) as session:
        session.logits(0)[9] = 1
        assert session.step()[0].tokens[0] == 9
    assert kind_of_failure(load(sandbox, build_guest, LOOP)) == "timeout"
    assert kind_of_failure(load(sandbox, build_guest, TRAP)) == "trap"
    tokenizer = sandbox.load_tokenizer(build_guest("tokenizer"), byte_vocabulary)
    assert tokenizer.encode("ok", add_special=False, parse_special=False) == [111, 107]


def test_binding_without_its_private_side_is_noticed(monkeypatch):
    monkeypatch.delattr("wasmtime._bindings._wasmtime_func_call_unchecked")
    assert runpy.run_path(binding.__file__)["AVAILABLE"] is False


def test_native_function_with_another_prototype_is_never_called(monkeypatch):
    monkeypatch.setattr("wasmtime._bindings._wasmtime_context_set_epoch_deadline.argtypes", [])
    assert runpy.run_path(binding.__file__)["AVAILABLE"] is False


def test_private_side_of_the_binding_is_there():
    assert binding.AVAILABLE  # when a new release lacks it, steps cost five times as much: look at binding.py


def test_call_that_cannot_be_made_is_an_error_of_its_guest(sandbox, build_guest, monkeypatch):
    def broken(*_arguments):
        raise wasmtime.WasmtimeError("no such luck")

    monkeypatch.setattr("sealhost.sandbox.instance.bind", lambda *_: SimpleNamespace(call=broken))
    with load(sandbox, build_guest).session(SamplingParams(), []) as session:
        with pytest.raises(GuestError, match="step could not run: no such luck"):
            session.step()
        with pytest.raises(SandboxError, match="failed"):
            session.step()


def test_trap_without_a_code_is_told_in_its_own_words(sandbox, build_guest, monkeypatch):
    def trapping(*_arguments):
        raise wasmtime.Trap("made by hand")

    monkeypatch.setattr("sealhost.sandbox.instance.bind", lambda *_: SimpleNamespace(call=trapping))
    with (
        load(sandbox, build_guest).session(SamplingParams(), []) as session,
        pytest.raises(GuestError, match="step trapped: made by hand"),
    ):
        session.step()


def test_native_error_becomes_an_exception(sandbox, build_guest, monkeypatch):
    with load(sandbox, build_guest).session(SamplingParams(), []) as session:
        error = wasmtime.WasmtimeError("from below")
        monkeypatch.setattr(binding, "_CALL", lambda *_: error._consume())
        with pytest.raises(GuestError, match="from below"):
            session.step()


def test_a_frame_is_one_calls_alone_and_nobodys_after_a_trap(sandbox_cache, sandbox, build_guest, monkeypatch):
    made, during = binding._CALL, []
    with Sandbox(OperatorLimits(memory_bytes=1 << 20, table_elements=1000), cache_directory=sandbox_cache) as own:
        scratch = own._engine.scratch
        good, bad = load(own, build_guest), load(own, build_guest, TRAP)
        scratch.clear()

        def call(*arguments):
            during.append(list(scratch))
            return made(*arguments)

        monkeypatch.setattr(binding, "_CALL", call)
        with good.session(SamplingParams(), []) as session, good.session(SamplingParams(), []) as other:
            session.step()
            (frame,) = scratch
            other.step()
            assert scratch == [frame]
        assert kind_of_failure(bad) == "trap"
        assert scratch == []
        assert during == [[], [], []]
