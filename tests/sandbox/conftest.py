"""Small guests in WebAssembly text, and what the sandbox's tests share.

A guest is the text of some module fields. `build_guest` adds the well-behaved fields of `sampler.wat` or `tokenizer.wat`
that the text does not define itself, so that a hostile guest's file holds nothing but its hostility.
"""

from __future__ import annotations

import hashlib
import re
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import wasmtime

from sealhost.sandbox import CompileLimits, OperatorLimits, SamplerPlugin, SamplerSession, Sandbox, Vocabulary
from sealhost.sandbox.compiler import CompileError

HERE = Path(__file__).parent
VOCABULARY_SIZE = 260
BOS, EOS, UNKNOWN, UNUSED = 256, 257, 258, 259

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the tests' own modules lie beside them

SAMPLER_LAYOUT = {
    "size": 88, "minor": 0, "max_rows": 1, "vocab_capacity": 512, "logits": 4096, "logits_stride": 4096,
    "rows": 8192, "results": 8320, "history": 8448, "history_capacity": 64, "bias": 8704, "bias_capacity": 8,
    "config": 9216, "config_capacity": 128, "error": 10240, "error_capacity": 128,
    "candidates": 0, "candidate_capacity": 0, "answer": 0, "answer_capacity": 0, "log": 0, "max_backtrack": 0,
}  # fmt: skip
TOKENIZER_LAYOUT = {
    "size": 32, "minor": 0, "input": 8192, "input_capacity": 4096, "output": 12288, "output_capacity": 8192,
    "error": 24576, "error_capacity": 256,
}  # fmt: skip


@dataclass(frozen=True)
class GuestLimits:
    memory_bytes: int = 1 << 20
    init_ms: int = 200
    load_ms: int = 200
    step_ms: int = 50
    encode_ms: int = 50


@dataclass(frozen=True)
class Guest:
    """Stands in for a verified plugin."""

    wasm: bytes
    role: str
    name: str = "guest"
    abi: int = 1
    tier: str = ""
    limits: GuestLimits = field(default_factory=GuestLimits)
    config_schema: dict | None = None

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.wasm).hexdigest()


def _escaped(raw: bytes) -> str:
    return "".join(f"\\{byte:02x}" for byte in raw)


def _layout_field(role: str, changes: dict[str, int]) -> str:
    layout = (SAMPLER_LAYOUT if role == "sampler" else TOKENIZER_LAYOUT) | changes
    return f'(data (i32.const 64) "{_escaped(struct.pack(f"<{len(layout)}I", *layout.values()))}")'


def _fields(text: str) -> list[str]:
    """The top-level parenthesised fields of a text; semicolon comments are dropped."""
    text = re.sub(r";;.*", "", text)
    fields, depth, start = [], 0, 0
    for at, character in enumerate(text):
        if character == "(":
            start = at if depth == 0 else start
            depth += 1
        elif character == ")":
            depth -= 1
            if depth == 0:
                fields.append(text[start : at + 1])
    return fields


def wat_guest(role: str, text: str = "", **layout: int) -> bytes:
    own = set(re.findall(r'export "([^"]+)"', text))
    defaults = [
        f for f in _fields((HERE / f"{role}.wat").read_text()) if not own & set(re.findall(r'export "([^"]+)"', f))
    ]
    memory = [] if re.search(r"\(memory\s", text) else ['(memory (export "memory") 2 2)']
    parts = [text, *memory, *defaults, _layout_field(role, layout)]
    return bytes(wasmtime.wat2wasm("(module\n" + "\n".join(parts) + "\n)"))


@pytest.fixture(scope="session")
def build_guest() -> Callable[..., Guest]:
    def build(role: str, text: str = "", *, tier: str = "", limits: GuestLimits | None = None, **layout: int) -> Guest:
        return make_guest(role, wat_guest(role, text, **layout), limits, tier)

    return build


def make_guest(role: str, wasm: bytes, limits: GuestLimits | None = None, tier: str = "") -> Guest:
    return Guest(wasm, role, tier=tier or ("full" if role == "sampler" else ""), limits=limits or GuestLimits())


PATIENT = GuestLimits(step_ms=10_000)
"""For guests that are not to fail on a busy machine."""


@pytest.fixture(scope="session")
def puppet(sandbox: Sandbox) -> Callable[..., SamplerPlugin]:
    """Loads `puppet.wat`: a guest with four slots that answers what its configuration says and keeps what it was told."""

    def load(tier: str = "full", **layout: int) -> SamplerPlugin:
        return sandbox.load_sampler(make_guest("sampler", puppet_wasm(tier, **layout), PATIENT, tier), VOCABULARY_SIZE)

    return load


PUPPET_LAYOUT = {
    "max_rows": 4, "rows": 20480, "results": 20992, "history": 21504, "logits": 32768, "answer": 49152, "answer_capacity": 64,
    "log": 57344, "max_backtrack": 4, "config": 65536, "config_capacity": 1024,
}  # fmt: skip


def puppet_wasm(tier: str = "full", **layout: int) -> bytes:
    areas = PUPPET_LAYOUT | ({} if tier == "full" else {"logits": 0, "logits_stride": 0})
    if tier.startswith("topk"):
        areas |= {"candidates": 53248, "candidate_capacity": 16}
    return wat_guest("sampler", (HERE / "puppet.wat").read_text(), **(areas | layout))


@pytest.fixture(scope="session")
def scribbler(sandbox: Sandbox) -> Callable[[str], SamplerPlugin]:
    """Loads `scribbler.wat`: a guest whose areas are all its configuration's to fill."""

    def load(tier: str) -> SamplerPlugin:
        areas = (
            PUPPET_LAYOUT | {"config_capacity": 8192} | ({} if tier == "full" else {"logits": 0, "logits_stride": 0})
        )
        if tier.startswith("topk"):
            areas |= {"candidates": 53248, "candidate_capacity": 16}
        wasm = wat_guest("sampler", (HERE / "scribbler.wat").read_text(), **areas)
        return sandbox.load_sampler(make_guest("sampler", wasm, PATIENT, tier), VOCABULARY_SIZE)

    return load


class Puppet:
    """How a test speaks to the puppet."""

    @staticmethod
    def says(action: int, token: int = 0, count: int = 0, answer: bytes = b"", log: bytes = b"") -> bytes:
        """The configuration that makes it give this answer for every row, in every step."""
        return struct.pack("<4I", action, token, count, len(log)) + log + answer

    @staticmethod
    def was_told(session: SamplerSession) -> list[list[dict[str, int]]]:
        """The rows of each call so far."""
        memory = session._instance.memory
        (calls,) = struct.unpack("<I", memory.read(98304, 4))
        told = []
        for call in range(calls):
            (count,) = struct.unpack("<I", memory.read(98816 + 512 * call, 4))
            raw = memory.read(98816 + 512 * call + 8, 96 * count)
            told.append([dict(zip(ROW_FIELDS, row, strict=True)) for row in struct.iter_unpack("<4I2Q4Ifi5f5I", raw)])
        return told


ROW_FIELDS = (
    "size", "slot", "flags", "vocab_size", "random_0", "random_1", "prompt_length", "history_length", "bias_count",
    "config_length", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty",
    "frequency_penalty", "candidate_count", "parent", "taken_back", "appended", "backtrack_room",
)  # fmt: skip


@pytest.fixture(scope="session")
def puppeteer() -> type[Puppet]:
    return Puppet


@pytest.fixture(scope="session")
def guest_of_bytes() -> Callable[..., Guest]:
    return make_guest


@pytest.fixture(scope="session")
def hostile_guest() -> Callable[[Path], tuple[Guest, dict[str, str]]]:
    """Makes the guest of a file under hostile/, and tells what its first lines say (test_hostile.py)."""

    def build(path: Path) -> tuple[Guest, dict[str, str]]:
        text = path.read_text()
        facts = dict(re.findall(r"^;; (\w+): (.+)$", text, re.MULTILINE))
        if facts.get("use") == "none":
            return make_guest(facts["role"], bytes(wasmtime.wat2wasm(f"(module {text}\n)"))), facts
        layout = {k: int(v) for k, v in re.findall(r"(\w+)=(-?\d+)", facts.get("layout", ""))}
        return make_guest(facts["role"], wat_guest(facts["role"], text, **layout), tier=facts.get("tier", "")), facts

    return build


@pytest.fixture(scope="session")
def guest_limits() -> type[GuestLimits]:
    return GuestLimits


@pytest.fixture(scope="session")
def byte_vocabulary() -> Vocabulary:
    """Ids 0 to 255 are the bytes; then BOS, EOS, unknown, unused."""
    specials = (b"<s>", b"</s>", b"<unk>", b"<unused>")
    texts = tuple(bytes((b,)) for b in range(256)) + specials
    types = np.array([1] * 256 + [3, 3, 2, 5], dtype=np.uint8)
    return Vocabulary(
        model="gpt2", pre="bytes", texts=texts, types=types, scores=np.zeros(len(texts), np.float32),
        merges=(b"a b",), bos=BOS, eos=EOS, unknown=UNKNOWN, add_bos=True, add_eos=False, add_space_prefix=False,
        token_bytes=texts,
    )  # fmt: skip


@pytest.fixture(scope="session")
def sandbox_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sandbox") / "cache"


def _compile_here(wasm: bytes, settings: dict[str, bool | int], _limits: CompileLimits) -> bytes:
    """The compiling child's work without the child, which costs a fifth of a second each time; test_compiler has the real one."""
    config = wasmtime.Config()
    for name, value in settings.items():
        setattr(config, name, value)
    try:
        return bytes(wasmtime.Module(wasmtime.Engine(config), wasm).serialize())
    except wasmtime.WasmtimeError as error:
        raise CompileError("1.12", f"expected a valid module, got: {error}") from None


@pytest.fixture(scope="session")
def sandbox(sandbox_cache: Path) -> Iterator[Sandbox]:
    """One for the whole session, as in production; limits are small so that hostile guests cost little."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sealhost.sandbox.host.compile_module", _compile_here)
        limits = OperatorLimits(memory_bytes=1 << 20, table_elements=1000, step_ms=10_000, strikes=1 << 30)
        with Sandbox(limits, cache_directory=sandbox_cache) as made:
            yield made
