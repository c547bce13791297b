"""The Zig SDK is the C header field for field, as the Zig compiler itself lays it out."""

from __future__ import annotations

import re
import struct
import subprocess
import sys

import pytest
import wasmtime

from sealhost.plugins import PLUGINS
from sealhost.sandbox import abi

SDK = PLUGINS / "sdk"
HEADER = re.sub(r"/\*.*?\*/", "", (SDK / "c" / "sealhost.h").read_text(), flags=re.DOTALL)
ZIG = (SDK / "zig" / "sealhost.zig").read_text()
LETTERS = {"uint32_t": "I", "int32_t": "i", "float": "f", "uint64_t": "Q"}

STRUCTS = {
    "SamplerLayout": ("sealhost_sampler_layout", abi.SAMPLER_LAYOUT),
    "Row": ("sealhost_row", abi.ROW),
    "Bias": ("sealhost_bias", abi.BIAS),
    "Candidate": ("sealhost_candidate", abi.CANDIDATE),
    "TokenTable": ("sealhost_token_table", abi.TOKEN_TABLE),
    "Result": ("sealhost_result", abi.RESULT),
    "TokenizerLayout": ("sealhost_tokenizer_layout", abi.TOKENIZER_LAYOUT),
    "VocabFlags": ("sealhost_vocab_flags", abi.VOCAB_FLAGS),
}

CONSTANTS = {
    "abi_minor": abi.ABI_MINOR,
    "ok": abi.Status.OK,
    **{f"@intFromEnum(sealhost.Error.{s.name.removeprefix('ERROR_').lower()})": s for s in abi.Status if s < abi.ERROR},
    "@intFromEnum(sealhost.Error.unspecified)": abi.Status.ERROR,
    **{f"row_{flag.name.lower()}": flag for flag in abi.RowFlag},
    **{f"@intFromEnum(sealhost.Action.{action.name.lower()})": action for action in abi.Action},
    **{flag.name.lower(): flag for flag in abi.EncodeFlag},
    **{f"Tag.{tag.name.lower()}": tag for tag in abi.VocabTag},
    **{flag.name.lower(): flag for flag in abi.VocabFlag},
    **{f"@intFromEnum(sealhost.TokenType.{kind.name.lower()})": kind for kind in abi.TokenType},
}
"""Every constant of the header: how Zig says it, and what the host takes it for."""


def header_fields(name: str) -> list[tuple[str, str, int]]:
    body = re.search(rf"struct {name} {{(.*?)}};", HEADER, re.DOTALL)
    assert body is not None
    return [(kind, field, int(count or 1)) for kind, field, count in re.findall(r"(\w+) (\w+)(?:\[(\d+)\])?;", body[1])]


def expected_offsets(name: str) -> list[tuple[str, int]]:
    """Field and offset, as a packed layout of the header's types gives them."""
    found, at = [], 0
    for kind, field, count in header_fields(name):
        found.append((field, at))
        at += struct.calcsize("<" + LETTERS[kind]) * count
    return found


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> list[int]:
    """What the compiler says: for each struct its size and its fields' offsets, then the constants."""
    asked = []
    for zig, (name, _) in STRUCTS.items():
        asked += [f"@sizeOf(sealhost.{zig})"] + [
            f'@offsetOf(sealhost.{zig}, "{field}")' for field, _ in expected_offsets(name)
        ]
    asked += [name if name.startswith("@") else f"sealhost.{name}" for name in CONSTANTS]
    source = 'const sealhost = @import("sealhost");\nexport const facts = [_]i32{\n' + ",\n".join(asked) + "\n};\n"
    folder = tmp_path_factory.mktemp("facts")
    (folder / "facts.zig").write_text(source + "export fn at() u32 { return @intFromPtr(&facts); }\n")
    command = [sys.executable, "-m", "ziglang", "build-exe", "-target", "wasm32-freestanding", "-O", "ReleaseFast"]
    command += ["-fstrip", "-fno-entry", "-rdynamic", "-fno-compiler-rt", "-femit-bin=facts.wasm", "--dep", "sealhost"]
    command += ["-Mroot=facts.zig", f"-Msealhost={SDK / 'zig' / 'sealhost.zig'}"]
    subprocess.run(command, cwd=folder, check=True)
    store = wasmtime.Store()
    module = wasmtime.Module(store.engine, (folder / "facts.wasm").read_bytes())
    exports = wasmtime.Instance(store, module, []).exports(store)
    start = exports["at"](store)
    return list(struct.unpack(f"<{len(asked)}i", exports["memory"].read(store, start, start + 4 * len(asked))))


def test_sizes_and_offsets_are_those_of_the_header_and_the_host(compiled):
    facts = iter(compiled)
    for zig, (name, layout) in STRUCTS.items():
        assert next(facts) == layout.size, zig
        for field, offset in expected_offsets(name):
            assert next(facts) == offset, (zig, field)


def test_fields_are_the_headers_in_order_with_its_types():
    types = {"uint32_t": "u32", "int32_t": "i32", "float": "f32", "uint64_t": "u64"}
    for zig, (name, _) in STRUCTS.items():
        body = re.search(rf"pub const {zig} = extern struct {{(.*?)\n}};", ZIG, re.DOTALL)
        assert body is not None
        found = re.findall(r'^ +(?:@")?(\w+)"?: ([\w\[\]]+)', body[1], re.MULTILINE)
        spelled = [
            (field, f"[{count}]{types[kind]}" if count > 1 else types[kind])
            for kind, field, count in header_fields(name)
        ]
        assert [(field, "u32" if kind == "Action" else kind) for field, kind in found] == spelled


def test_constants_are_what_the_host_takes_them_for(compiled):
    assert dict(zip(CONSTANTS, compiled[-len(CONSTANTS) :], strict=True)) == {
        name: int(value) for name, value in CONSTANTS.items()
    }
