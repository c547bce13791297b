"""Compilation in the child process, and the cache of its results."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import resource
import runpy
import stat
from pathlib import Path

import pytest
import wasmtime

from sealhost.sandbox import AdmissionError, CompileLimits, OperatorLimits, SamplingParams, Sandbox, abi, compile_child
from sealhost.sandbox.cache import MAC_BYTES, NONCE_BYTES, CodeCache
from sealhost.sandbox.compiler import CompileError, compile_module
from sealhost.sandbox.engine import Engine
from sealhost.sandbox.wasm_rewrite import unsigned

KEY = bytes(range(32))
HEAD = NONCE_BYTES + MAC_BYTES
"""Bytes before an entry's own."""


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


def test_second_load_needs_neither_compiler_nor_guest(build_guest, tmp_path, monkeypatch, byte_vocabulary):
    directory = tmp_path / "cache"
    with Sandbox(cache_directory=directory) as sandbox:
        sandbox.load_sampler(build_guest("sampler"), 260)
        sandbox.load_tokenizer(build_guest("tokenizer"), byte_vocabulary)
    monkeypatch.setattr("sealhost.sandbox.host.compile_module", lambda *_: pytest.fail("compiled again"))
    monkeypatch.setattr("sealhost.sandbox.sampler.prepare", lambda *_: pytest.fail("prepared again"))
    with Sandbox(cache_directory=directory) as sandbox:
        sampler = sandbox.load_sampler(build_guest("sampler"), 260)
        tokenizer = sandbox.load_tokenizer(build_guest("tokenizer"), byte_vocabulary)
        assert tokenizer.encode("ok", add_special=False, parse_special=False) == [111, 107]
        with sampler.session(SamplingParams(), []) as session:
            session.logits(0)[9] = 1
            assert session.step() == [((9,), 0, False)]


@pytest.mark.parametrize("damage", ["flip", "nonce", "mac", "truncate", "cut nonce", "empty", "swap"])
def test_damaged_cache_entries_are_compiled_again(damage, build_guest, tmp_path):
    directory = tmp_path / "cache"
    with Sandbox(cache_directory=directory) as sandbox:
        sandbox.load_sampler(build_guest("sampler"), 260)
    entries = sorted(p for p in directory.iterdir() if p.name != "host.key")
    assert len(entries) == 2
    contents = [p.read_bytes() for p in entries]
    for path, raw, other in zip(entries, contents, reversed(contents), strict=True):
        bent = {
            "flip": raw[:-9] + bytes((raw[-9] ^ 1,)) + raw[-8:], "nonce": bytes((raw[0] ^ 1,)) + raw[1:],
            "mac": raw[:16] + bytes((raw[16] ^ 1,)) + raw[17:], "truncate": raw[:-1], "cut nonce": raw[:9], "empty": b"",
            "swap": other,
        }  # fmt: skip
        path.write_bytes(bent[damage])
    with Sandbox(cache_directory=directory) as sandbox:
        sandbox.load_sampler(build_guest("sampler"), 260)
    # compilation is deterministic, and only nonce and MAC are new
    assert [p.read_bytes()[HEAD:] for p in entries] == [raw[HEAD:] for raw in contents]
    cache = CodeCache(directory)
    assert all(cache.get(bytes.fromhex(p.name)) is not None for p in entries)


def test_compiled_code_of_another_configuration_is_not_loaded(build_guest, tmp_path):
    directory = tmp_path / "cache"
    for stack in (256 << 10, 512 << 10):
        with Sandbox(OperatorLimits(stack_bytes=stack), cache_directory=directory) as sandbox:
            sandbox.load_sampler(build_guest("sampler"), 260)
    assert len([p for p in directory.iterdir() if p.name != "host.key"]) == 4


def test_authentic_entries_that_this_engine_does_not_take_are_made_again(build_guest, tmp_path):
    directory = tmp_path / "cache"
    with Sandbox(cache_directory=directory) as sandbox:
        sandbox.load_sampler(build_guest("sampler"), 260)
    entries = {p.name: p.read_bytes() for p in directory.iterdir() if p.name != "host.key"}
    cache = CodeCache(directory)
    for name, raw in entries.items():
        cache.put(bytes.fromhex(name), raw[HEAD:200] + b"code of another machine")
    with Sandbox(cache_directory=directory) as sandbox:
        assert sandbox.load_sampler(build_guest("sampler"), 260).history_capacity == 64
    made = {p.name: p.read_bytes()[HEAD:] for p in directory.iterdir() if p.name != "host.key"}
    assert made == {name: raw[HEAD:] for name, raw in entries.items()}


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


def test_sandbox_works_without_a_cache(build_guest):
    with Sandbox(use_cache=False) as sandbox:
        assert sandbox.load_sampler(build_guest("sampler"), 260).history_capacity == 64


def test_key_of_a_mac_never_serves_two_entries(tmp_path):
    cache, written = CodeCache(tmp_path / "cache"), set()
    for _ in range(3):
        cache.put(KEY, b"code")
        written.add((tmp_path / "cache" / KEY.hex()).read_bytes())
        assert cache.get(KEY) == b"code"
    assert len({raw[:16] for raw in written}) == len({raw[16:32] for raw in written}) == 3


def test_cache_is_private_and_survives_a_new_process(tmp_path):
    directory = tmp_path / "a" / "cache"
    CodeCache(directory).put(KEY, b"code")
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(p.stat().st_mode) for p in directory.iterdir()} == {0o600}
    assert CodeCache(directory).get(KEY) == b"code"
    assert CodeCache(directory).get(bytes(32)) is None


def test_entry_made_under_another_key_is_not_believed(tmp_path):
    ours, theirs = CodeCache(tmp_path / "ours"), CodeCache(tmp_path / "theirs")
    theirs.put(KEY, b"evil")
    (tmp_path / "ours" / KEY.hex()).write_bytes((tmp_path / "theirs" / KEY.hex()).read_bytes())
    (tmp_path / "ours" / KEY.hex()).chmod(0o600)
    assert ours.get(KEY) is None


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o707])
def test_folder_that_others_can_enter_is_not_used(mode, tmp_path):
    directory = tmp_path / "cache"
    directory.mkdir()
    directory.chmod(mode)
    cache = CodeCache(directory)
    cache.put(KEY, b"code")
    assert not cache.usable
    assert cache.get(KEY) is None
    assert list(directory.iterdir()) == []


def test_folder_behind_a_symlink_is_not_used(tmp_path):
    CodeCache(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert not CodeCache(tmp_path / "link").usable


@pytest.mark.parametrize("case", ["readable", "short", "long", "folder", "symlink", "fifo"])
def test_key_that_is_not_ours_alone_is_not_used(case, tmp_path):
    directory = tmp_path / "cache"
    CodeCache(directory)
    key = directory / "host.key"
    if case == "readable":
        key.chmod(0o644)
    else:
        key.unlink()
    if case in {"short", "long"}:
        key.write_bytes(bytes(16 if case == "short" else 64))
        key.chmod(0o600)
    elif case == "folder":
        key.mkdir(mode=0o600)
    elif case == "symlink":
        (tmp_path / "elsewhere").write_bytes(bytes(32))
        (tmp_path / "elsewhere").chmod(0o600)
        key.symlink_to(tmp_path / "elsewhere")
    elif case == "fifo":
        os.mkfifo(key, 0o600)
    assert not CodeCache(directory).usable


def test_entries_that_others_can_read_or_that_are_no_files_are_not_believed(tmp_path):
    cache = CodeCache(tmp_path / "cache")
    cache.put(KEY, b"code")
    (tmp_path / "cache" / KEY.hex()).chmod(0o644)
    assert cache.get(KEY) is None


def test_entries_not_used_for_longest_go_first(tmp_path, monkeypatch):
    monkeypatch.setattr("sealhost.sandbox.cache.MAX_CACHE_BYTES", 3 * 132)
    cache = CodeCache(tmp_path / "cache")
    keys = [bytes((n,)) * 32 for n in range(5)]
    for age, key in enumerate(keys[:3]):
        cache.put(key, bytes(100))
        os.utime(tmp_path / "cache" / key.hex(), (age, age))
    assert cache.get(keys[0]) == bytes(100)  # used again, so the second one is the oldest now
    cache.put(keys[3], bytes(100))
    assert [cache.get(key) is not None for key in keys] == [True, False, True, True, False]
    assert CodeCache(tmp_path / "cache").usable


def test_failing_to_write_is_not_an_error(tmp_path):
    cache = CodeCache(tmp_path / "cache")
    (tmp_path / "cache" / KEY.hex()).mkdir()
    cache.put(KEY, b"code")
    assert cache.get(KEY) is None
    assert sorted(p.name for p in (tmp_path / "cache").iterdir()) == sorted(["host.key", KEY.hex()])


def test_folder_that_cannot_be_made_means_no_cache(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    assert not CodeCache(tmp_path / "file" / "cache").usable


@pytest.mark.parametrize(
    ("value", "expected"),
    [("/x/y", "/x/y/sealhost/wasm"), ("", ".cache/sealhost/wasm"), ("relative", ".cache/sealhost/wasm")],
)
def test_default_folder_follows_the_xdg_rules(value, expected, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert str(CodeCache.default_directory()).endswith(expected)
    assert CodeCache.default_directory().is_absolute()


def test_loaded_code_lies_in_a_file_that_nobody_can_change(sandbox, build_guest, monkeypatch):
    load_file, tried = wasmtime.Module.deserialize_file, []

    def attacked(engine, path):
        with Path(path).open("r+b", buffering=0) as file, pytest.raises(PermissionError):
            file.write(b"x")
        tried.append(path)
        return load_file(engine, path)

    monkeypatch.setattr(wasmtime.Module, "deserialize_file", attacked)
    sampler = sandbox.load_sampler(build_guest("sampler"), 260)
    assert sampler.history_capacity == 64
    assert tried
    assert "memfd:sealhost-guest" in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("reason", ["no such call", "no descriptors", "written in part", "not mapped"])
def test_code_is_copied_where_it_cannot_be_mapped(sandbox, build_guest, monkeypatch, reason):
    def refuse(*_arguments):
        raise OSError(reason)

    def refuse_to_map(*_arguments):
        raise wasmtime.WasmtimeError(reason)

    if reason == "no such call":
        monkeypatch.delattr("os.memfd_create")
    elif reason == "no descriptors":
        monkeypatch.setattr("os.memfd_create", refuse)
    elif reason == "written in part":
        monkeypatch.setattr("os.pwrite", lambda _file, data, _at: len(data) - 1)
    else:
        monkeypatch.setattr(wasmtime.Module, "deserialize_file", refuse_to_map)
    with sandbox.load_sampler(build_guest("sampler"), 260).session(SamplingParams(), []) as session:
        session.logits(0)[9] = 1
        assert session.step()[0].tokens[0] == 9
