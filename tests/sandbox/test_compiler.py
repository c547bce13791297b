"""Compilation in the child process."""

from __future__ import annotations

import dataclasses
import io
import json
import resource
import runpy

import pytest
import wasmtime

from sealhost.sandbox import AdmissionError, CompileLimits, OperatorLimits, Sandbox, abi, compile_child
from sealhost.sandbox.compiler import CompileError, compile_module
from sealhost.sandbox.engine import Engine
from sealhost.sandbox.wasm_rewrite import unsigned


@pytest.fixture
def fresh_engine():
    engine = Engine(OperatorLimits())
    yield engine
    engine.close()


def wasm_of(text: str) -> bytes:
    return bytes(wasmtime.wat2wasm(text))


def test_child_compiles_what_this_engine_loads(fresh_engine):
    compiled = compile_module(wasm_of('(module (func (export "f")))'), fresh_engine.settings, CompileLimits())
    assert [e.name for e in wasmtime.Module.deserialize(fresh_engine.raw, compiled).exports] == ["f"]


class Standard:
    """Stands in for a standard stream."""

    def __init__(self, data: bytes = b"") -> None:
        self.buffer = io.BytesIO(data)
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text


@pytest.mark.parametrize(("text", "code"), [('(module (func (export "f")))', 0), ("(module (func (result i32)))", 1)])
def test_childs_program_limits_itself_before_it_reads_the_module(text, code, fresh_engine, monkeypatch):
    """The child's own code, run here with its limits recorded instead of set."""
    header = json.dumps({"settings": fresh_engine.settings, "limits": dataclasses.asdict(CompileLimits())})
    source, result, complaint = Standard(header.encode() + b"\n" + wasm_of(text)), Standard(), Standard()
    limited = {}

    def set_limit(number: int, pair: tuple[int, int]) -> None:
        assert source.buffer.tell() == len(header) + 1
        limited[number] = pair

    for name, stream in (("stdin", source), ("stdout", result), ("stderr", complaint)):
        monkeypatch.setattr(f"sys.{name}", stream)
    monkeypatch.setattr("resource.setrlimit", set_limit)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(compile_child.__file__, run_name="__main__")
    assert ended.value.code == code
    assert limited[resource.RLIMIT_CPU] == (60, 60)
    assert limited[resource.RLIMIT_AS] == (2 << 30, 2 << 30)
    assert limited[resource.RLIMIT_CORE] == (0, 0)
    assert set(limited) >= {resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE}
    assert bool(result.buffer.getvalue()) == (code == 0)
    assert ("type mismatch" in complaint.text) == (code == 1)


def test_child_refuses_what_does_not_validate_with_the_validators_words(fresh_engine):
    with pytest.raises(CompileError) as caught:
        compile_module(wasm_of("(module (func (result i32)))"), fresh_engine.settings, CompileLimits())
    assert caught.value.clause == "1.12"
    assert "type mismatch" in caught.value.problem


def test_child_is_stopped_after_its_wall_clock_limit(fresh_engine):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with pytest.raises(CompileError, match="within") as caught:
        compile_module(bomb(), fresh_engine.settings, CompileLimits(wall_seconds=0.02))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert caught.value.clause == "1.13"
    assert after.ru_utime - before.ru_utime < 5  # its limit of processor time is 60 s


def test_child_is_stopped_after_its_cpu_limit(fresh_engine):
    with pytest.raises(CompileError, match="1 s of CPU") as caught:
        compile_module(bomb(), fresh_engine.settings, CompileLimits(cpu_seconds=1))
    assert caught.value.clause == "1.13"


def test_child_is_stopped_at_its_memory_limit(fresh_engine):
    with pytest.raises(CompileError, match="bytes") as caught:
        compile_module(bomb(), fresh_engine.settings, CompileLimits(memory_bytes=160 << 20))
    assert caught.value.clause == "1.13"


def test_child_cannot_write_more_than_its_limit(fresh_engine):
    with pytest.raises(CompileError) as caught:
        compile_module(wasm_of("(module)"), fresh_engine.settings, CompileLimits(output_bytes=64))
    assert caught.value.clause == "1.13"


def bomb(functions: int = 2) -> bytes:
    """Functions of 490 KiB, within the bounds of clause 1.10: three seconds of work each for the compiler."""
    step = b"\x20\0\x20\1\x6c\x22\0\x45\x0d\0"  # local.get 0, local.get 1, i32.mul, local.tee 0, i32.eqz, br_if 0
    body = b"\0" + step * 50_000 + b"\x0b"
    code = unsigned(functions) + (unsigned(len(body)) + body) * functions
    sections = {1: b"\1\x60\2\x7f\x7f\0", 3: unsigned(functions) + bytes(functions), 10: code}
    return b"\0asm\1\0\0\0" + b"".join(bytes((n,)) + unsigned(len(p)) + p for n, p in sections.items())


def test_compile_bomb_is_refused_as_a_plugin(build_guest, tmp_path, monkeypatch):
    monkeypatch.setattr("sealhost.sandbox.host.compile_module", compile_module)  # whatever the other tests compile with
    limits = CompileLimits(wall_seconds=0.05)
    text = "(func (param i32) " + "(block (br_if 0 (local.get 0)) " * 3000 + ")" * 3000 + ")"
    with (
        Sandbox(cache_directory=tmp_path / "cache", compile_limits=limits) as sandbox,
        pytest.raises(AdmissionError) as caught,
    ):
        sandbox.load_sampler(build_guest("sampler", text * 40), 260)
    assert caught.value.clause == "1.13"


FIELD_BOMBS = {  # R122: what has stalled hosts; the clause, or None when it must simply work
    "15,000 nested blocks": (
        "(func (param i32) " + "(block (br_if 0 (local.get 0)) " * 15_000 + ")" * 15_000 + ")",
        None,
    ),
    "15,000 blocks in a row": ("(func (param i32) " + "(block (br_if 0 (local.get 0)))" * 15_000 + ")", None),
    "50,000 locals": ("(func " + "(local i64)" * 50_000 + ")", "1.10"),
    "10,000 functions": ("(func)" * 10_000, None),
    "25,000 functions": ("(func)" * 25_000, "1.10"),
    "10 MB of data": (f'(data "{"x" * 10_000_000}")', "1.1"),
    "10,001 data segments": ('(data "x")' * 10_001, "1.11"),
}


@pytest.mark.parametrize("name", FIELD_BOMBS)
def test_bombs_from_the_field_work_or_are_refused(name, build_guest, tmp_path):
    text, clause = FIELD_BOMBS[name]
    guest = build_guest("sampler", text)
    with Sandbox(cache_directory=tmp_path / "cache") as sandbox:
        if clause is None:
            assert sandbox.load_sampler(guest, 260).vocab_size == 260
        else:
            with pytest.raises(AdmissionError) as caught:
                sandbox.load_sampler(guest, 260)
            assert caught.value.clause == clause


def test_code_that_was_made_just_now_but_not_for_this_engine_is_a_refusal(build_guest, tmp_path, monkeypatch):
    with Sandbox(cache_directory=tmp_path / "cache") as sandbox:
        monkeypatch.setattr("sealhost.sandbox.host.compile_module", lambda *_: b"not machine code")
        with pytest.raises(AdmissionError) as caught:
            sandbox.load_sampler(build_guest("sampler"), 260)
    assert caught.value.clause == "2.2"


def test_code_with_other_exports_than_the_abi_is_a_refusal(build_guest, tmp_path, monkeypatch, fresh_engine):
    other = wasmtime.Module(
        fresh_engine.raw, '(module (memory (export "memory") 1) (func (export "step")))'
    ).serialize()
    with Sandbox(cache_directory=tmp_path / "cache") as sandbox:
        monkeypatch.setattr("sealhost.sandbox.host.compile_module", lambda *_: bytes(other))
        with pytest.raises(AdmissionError, match="exports") as caught:
            sandbox.load_sampler(build_guest("sampler"), 260)
    assert caught.value.clause == "2.2"


def test_code_without_a_memory_is_a_refusal(build_guest, tmp_path, monkeypatch, fresh_engine):
    functions = " ".join(
        f'(func (export "{name}") {"(param i32)" if name == "step" else ""} (result i32) (i32.const 0))'
        for name in abi.EXPORTS["sampler"]
    )
    other = wasmtime.Module(fresh_engine.raw, f'(module (global (export "memory") i32 (i32.const 1)) {functions})')
    with Sandbox(cache_directory=tmp_path / "cache") as sandbox:
        monkeypatch.setattr("sealhost.sandbox.host.compile_module", lambda *_: bytes(other.serialize()))
        with pytest.raises(AdmissionError, match="no memory is exported as 'memory'") as caught:
            sandbox.load_sampler(build_guest("sampler"), 260)
    assert caught.value.clause == "1.15"
