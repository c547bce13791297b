"""The cache of compiled code: what is believed, and where it lies until it runs."""

from __future__ import annotations

import os
import socket
import stat
from io import FileIO
from pathlib import Path

import pytest
import wasmtime

from sealhost.sandbox import OperatorLimits, SamplingParams, Sandbox
from sealhost.sandbox.cache import MAC_BYTES, NONCE_BYTES, CodeCache
from sealhost.sandbox.code import PIECE_BYTES, Code

KEY = bytes(range(32))
HEAD = NONCE_BYTES + MAC_BYTES
"""Bytes before an entry's own."""


def kept(cache: CodeCache, key: bytes = KEY) -> tuple[bytes, bytes] | None:
    """Head and code of an entry."""
    entry = cache.get(key)
    if entry is None:
        return None
    with entry.code as code:
        return entry.head, code.data()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


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
    assert all(kept(cache, bytes.fromhex(p.name)) for p in entries)


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
        size = int.from_bytes(raw[HEAD : HEAD + 4], "little")
        cache.put(bytes.fromhex(name), b"code of another machine", raw[HEAD + 4 : HEAD + 4 + size])
    with Sandbox(cache_directory=directory) as sandbox:
        assert sandbox.load_sampler(build_guest("sampler"), 260).history_capacity == 64
    made = {p.name: p.read_bytes()[HEAD:] for p in directory.iterdir() if p.name != "host.key"}
    assert made == {name: raw[HEAD:] for name, raw in entries.items()}


def test_sandbox_works_without_a_cache(build_guest):
    with Sandbox(use_cache=False) as sandbox:
        assert sandbox.load_sampler(build_guest("sampler"), 260).history_capacity == 64


def test_key_of_a_mac_never_serves_two_entries(tmp_path):
    cache, written = CodeCache(tmp_path / "cache"), set()
    for _ in range(3):
        cache.put(KEY, b"code")
        written.add((tmp_path / "cache" / KEY.hex()).read_bytes())
        assert kept(cache) == (b"", b"code")
    assert len({raw[:16] for raw in written}) == len({raw[16:32] for raw in written}) == 3


def test_cache_is_private_and_survives_a_new_process(tmp_path):
    directory = tmp_path / "a" / "cache"
    CodeCache(directory).put(KEY, b"code")
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(p.stat().st_mode) for p in directory.iterdir()} == {0o600}
    assert kept(CodeCache(directory)) == (b"", b"code")
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
    monkeypatch.setattr("sealhost.sandbox.cache.MAX_CACHE_BYTES", 3 * 136)
    cache = CodeCache(tmp_path / "cache")
    keys = [bytes((n,)) * 32 for n in range(5)]
    for age, key in enumerate(keys[:3]):
        cache.put(key, bytes(100))
        os.utime(tmp_path / "cache" / key.hex(), (age, age))
    assert kept(cache, keys[0]) == (b"", bytes(100))  # used again, so the second one is the oldest now
    cache.put(keys[3], bytes(100))
    assert [kept(cache, key) is not None for key in keys] == [True, False, True, True, False]
    assert CodeCache(tmp_path / "cache").usable


def test_what_cannot_be_swept_up_keeps_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr("sealhost.sandbox.cache.MAX_CACHE_BYTES", 136)
    cache, folder = CodeCache(tmp_path / "cache"), tmp_path / "cache"
    cache.put(KEY, bytes(100))
    os.utime(folder / KEY.hex(), (1, 1))
    (folder / "folder").mkdir()
    os.utime(folder / "folder", (2, 2))
    (folder / "nowhere").symlink_to("nothing")
    cache.put(bytes(32), bytes(100))
    assert sorted(p.name for p in folder.iterdir()) == sorted(["host.key", bytes(32).hex(), "folder"])


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


def test_there_is_no_default_folder_without_an_absolute_path(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "")
    assert CodeCache.default_directory() is None


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


SIZES = [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES + 5]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("head", [b"", b"head"])
def test_an_entry_of_any_size_comes_back_as_it_was(size, head, tmp_path):
    code = b"\0" * (size // 3) + os.urandom(size - 2 * (size // 3)) + b"\0" * (size // 3)
    cache = CodeCache(tmp_path / "cache")
    cache.put(KEY, code, head)
    assert kept(cache) == (head, code)


def test_no_part_of_an_entry_can_be_changed_moved_cut_or_added_to(tmp_path):
    cache, path = CodeCache(tmp_path / "cache"), tmp_path / "cache" / KEY.hex()
    cache.put(KEY, b"some code", b"a head")
    whole = path.read_bytes()
    files = open_files()
    spoiled = [whole[:at] for at in range(len(whole))] + [whole + b"\0", whole + whole]
    spoiled += [
        whole[:at] + bytes((whole[at] ^ 1 << bit,)) + whole[at + 1 :] for at in range(len(whole)) for bit in (0, 7)
    ]
    size = HEAD + 4
    spoiled += [
        whole[:HEAD] + count.to_bytes(4, "little") + whole[size:] for count in (0, 5, 7, 15, 16, 1 << 31, (1 << 32) - 1)
    ]
    for raw in spoiled:
        path.write_bytes(raw)
        assert cache.get(KEY) is None, raw
    assert open_files() == files
    path.write_bytes(whole)
    assert kept(cache) == (b"a head", b"some code")


def test_an_entry_that_shrinks_or_grows_while_it_is_read_is_not_believed(tmp_path, monkeypatch):
    cache, path = CodeCache(tmp_path / "cache"), tmp_path / "cache" / KEY.hex()
    cache.put(KEY, bytes(1000), b"head")
    whole, sizes = path.read_bytes(), os.fstat
    for found in (0, 36, 500, len(whole) - 1, len(whole) + 1, 1 << 40):
        monkeypatch.setattr(os, "fstat", lambda file, found=found: os.stat_result((*sizes(file)[:6], found, 0, 0, 0)))
        assert cache.get(KEY) is None, found
    monkeypatch.undo()
    assert kept(cache) == (b"head", bytes(1000))


def test_an_entry_that_the_system_gives_in_small_parts_is_whole(tmp_path, monkeypatch):
    class Slow(FileIO):
        def readinto(self, room):
            return super().readinto(memoryview(room)[:7])

    cache = CodeCache(tmp_path / "cache")
    cache.put(KEY, bytes(range(100)), b"head")
    monkeypatch.setattr("sealhost.sandbox.cache.FileIO", Slow)
    assert kept(cache) == (b"head", bytes(range(100)))


@pytest.mark.parametrize("made", ["folder", "fifo", "link", "socket"])
def test_what_is_no_file_leaves_no_descriptor_open(made, tmp_path, monkeypatch):
    cache, path = CodeCache(tmp_path / "cache"), tmp_path / "cache" / KEY.hex()
    with socket.socket(socket.AF_UNIX) as listener:
        if made == "folder":
            path.mkdir()
        elif made == "fifo":
            os.mkfifo(path, 0o600)
        elif made == "link":
            path.symlink_to(tmp_path / "cache" / "host.key")
        else:
            monkeypatch.chdir(path.parent)  # a socket's path is short
            listener.bind(path.name)
        files = open_files()
        assert cache.get(KEY) is None
        assert open_files() == files


def test_nothing_that_was_not_believed_reaches_the_engine(build_guest, tmp_path, monkeypatch):
    directory, seen = tmp_path / "cache", []
    with Sandbox(cache_directory=directory) as sandbox:
        sandbox.load_sampler(build_guest("sampler"), 260)
    for path in directory.iterdir():
        if path.name != "host.key":
            raw = path.read_bytes()
            path.write_bytes(raw[:-1] + bytes((raw[-1] ^ 1,)))
    made = Code.of
    monkeypatch.setattr(Code, "of", lambda compiled: seen.append(compiled) or made(compiled))
    load = Code.load
    monkeypatch.setattr(Code, "load", lambda code, engine: seen.remove(code.data()) or load(code, engine))
    with Sandbox(cache_directory=directory) as sandbox:
        sandbox.load_sampler(build_guest("sampler"), 260)
    assert seen == []  # what was loaded is what was compiled just now


def test_closed_code_is_gone():
    files = open_files()
    code = Code.of(b"code")
    assert code.data() == b"code"
    code.close()
    code.close()
    assert code.data() == b""
    assert open_files() == files
