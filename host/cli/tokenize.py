"""`tokenize`: token ids of standard input, encoded in the sandbox.

Rules
* A bundle's own tokenizer, verified; for a bare GGUF file the reference tokenizer, with a note that nothing was
  verified.
* With --jsonl each line is one JSON string, and its ids are one JSON array on one line, in the same order.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 — cyclopts reads annotations at run time
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from ...signing.errors import Code
from ..errors import HostError, UsageError
from .options import Keys, state_in, trust_in
from .terminal import note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...sandbox import Sandbox, TokenizerPlugin
    from ...signing import PluginLimits

Flag = Annotated[bool, Parameter(negative="")]


def tokenize(
    source: Path,
    /,
    *,
    jsonl: Flag = False,
    add_special: Flag = False,
    parse_special: Flag = False,
    keys: Keys = None,
) -> None:
    """Print the token ids of standard input, encoded in the sandbox.

    Args:
        source: A bundle's directory, or a GGUF file, of which nothing is verified.
        jsonl: Read one JSON string a line, print one JSON array a line.
        add_special: Add BOS and EOS as the model's settings say.
        parse_special: Turn control tokens that the text spells into their ids.
        keys: Folder with the trusted *.pub files; without it your own trust store.
    """
    from ...sandbox import Sandbox  # noqa: PLC0415 — brings wasmtime (clause 6.5)

    with Sandbox() as sandbox:
        tokenizer = _of_bundle(source, keys, sandbox) if source.is_dir() else _of_file(source, sandbox)

        def encode(text: str) -> None:
            ids = tokenizer.encode(text, add_special=add_special, parse_special=parse_special)
            print(json.dumps(ids), flush=True)

        if jsonl:
            _each_line(encode)
        else:
            encode(_decoded(sys.stdin.buffer.read(), "standard input"))


def _each_line(encode: Callable[[str], None]) -> None:
    for number, line in enumerate(sys.stdin.buffer, 1):
        where = f"line {number}"
        try:
            text = json.loads(_decoded(line, where))
            str(text).encode()  # half of a surrogate pair, written as an escape, is no character
        except (ValueError, RecursionError):
            text = None
        if not isinstance(text, str):
            raise UsageError(where, "expected a JSON string", "write each text as one JSON string on a line")
        encode(text)


def _decoded(data: bytes, where: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        problem = f"expected UTF-8, got an invalid byte at offset {error.start}"
        raise UsageError(where, problem, "convert the text to UTF-8") from None


def _of_bundle(root: Path, keys: Path | None, sandbox: Sandbox) -> TokenizerPlugin:
    from ...signing import verify  # noqa: PLC0415 — see above

    trust = trust_in(keys)
    bundle = verify(root, trust)
    state_in(None).check([bundle], trust)  # an older tokenizer is an older release
    if bundle.weights is None:
        raise HostError(Code.USAGE, str(root), "expected a model bundle, got one of plugins", "name a model bundle")
    with contextlib.closing(bundle.weights):
        plugin = next((one for one in bundle.plugins if one.role == "tokenizer"), None)
        if plugin is None:
            raise HostError(Code.PLUGIN, str(root), "expected a tokenizer in the bundle, got none", "pack it again")
        return _loaded(sandbox, plugin, bundle.weights.data)


def _of_file(path: Path, sandbox: Sandbox) -> TokenizerPlugin:
    from ...plugins import reference_plugin  # noqa: PLC0415 — see above
    from ...signing.declaration import read_plugin  # noqa: PLC0415 — see above

    declared = read_plugin(reference_plugin("tokenizer", "bpe") / "plugin.wasm")
    digest = hashlib.sha256(declared.wasm).hexdigest()
    plugin = ReferencePlugin(declared.name, "tokenizer", declared.wasm, digest, declared.abi, "", declared.limits)
    with _contents(path) as data:
        tokenizer = _loaded(sandbox, plugin, data)
    note(f"{path}: a bare file, nothing of it was verified; the reference tokenizer encodes")
    return tokenizer


@dataclass(frozen=True, slots=True)
class ReferencePlugin:
    """A plugin that came with sealhost itself; see sandbox.Plugin."""

    name: str
    role: Literal["tokenizer"]
    wasm: bytes
    sha256: str
    abi: int
    tier: str
    limits: PluginLimits
    config_schema: None = None


def _loaded(sandbox: Sandbox, plugin: Any, data: memoryview) -> TokenizerPlugin:
    from ..weights.gguf import GgufFile  # noqa: PLC0415 — see above
    from ..weights.vocabulary import vocabulary  # noqa: PLC0415 — see above

    return sandbox.load_tokenizer(plugin, vocabulary(GgufFile.parse(data)))


@contextlib.contextmanager
def _contents(path: Path) -> Iterator[memoryview]:
    """The bytes of a file that may be cut under us: read, not mapped, for a map would end us with SIGBUS."""
    try:
        if not path.is_file():  # a FIFO would keep us waiting
            raise HostError(Code.IO, str(path), "expected a bundle or a GGUF file, got neither", "check the path")
        yield memoryview(path.read_bytes())
    except OSError as error:
        raise HostError(
            Code.IO, str(path), f"expected a readable file, got {error.strerror}", "check its rights"
        ) from None
