"""`tokenize`: token ids of standard input, encoded in the sandbox.

Rules
* A bundle's own tokenizer, verified; for a bare GGUF file the reference tokenizer, with a note that nothing was
  verified.
* Without --lazy nothing is encoded before the whole bundle was verified; with it, only the chunks that hold the model's
  header are read.
* With --jsonl each line is one JSON string, and its ids are one JSON array on one line, in the same order.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 — cyclopts reads annotations at run time
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ...signing import verify
from ...signing.errors import Code
from ..errors import HostError, UsageError
from .bare_file import opened_file
from .opening import opened_weights
from .options import Keys, StateFolder, state_in, trust_in
from .terminal import note

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...sandbox import Sandbox, TokenizerPlugin, Vocabulary
    from ...signing import DirectoryTrust, PluginLimits, VerifiedBundle
    from ...signing.state import State
    from ..weights.gguf_reader import Contents

Flag = Annotated[bool, Parameter(negative="")]


def tokenize(
    source: Path,
    /,
    *,
    jsonl: Flag = False,
    add_special: Flag = False,
    parse_special: Flag = False,
    keys: Keys = None,
    state: StateFolder = None,
    lazy: Flag = False,
) -> None:
    """Print the token ids of standard input, encoded in the sandbox.

    Args:
        source: A bundle's directory, or a GGUF file, which is not verified.
        jsonl: Read one JSON string per line, print one JSON array per line.
        add_special: Add BOS and EOS as the model's settings say.
        parse_special: Turn control tokens that are spelled in the text into their ids.
        keys: Folder with the trusted *.pub files; without it your own trust store.
        state: Folder that remembers accepted versions, which is read and not changed; without it your own.
        lazy: Verify and read only the part of the weights that holds the tokenizer.
    """
    from ...sandbox import Sandbox  # noqa: PLC0415 — brings wasmtime (clause 6.5)

    with Sandbox() as sandbox:
        tokenizer = tokenizer_of(source, sandbox, keys=keys, state=state, lazy=lazy)

        def encode(text: str) -> None:
            ids = tokenizer.encode(text, add_special=add_special, parse_special=parse_special)
            print(json.dumps(ids), flush=True)

        if jsonl:
            _each_line(encode)
        else:
            encode(decoded(sys.stdin.buffer.read(), "standard input"))


def tokenizer_of(
    source: Path, sandbox: Sandbox, *, keys: Path | None, state: Path | None, lazy: bool
) -> TokenizerPlugin:
    """The tokenizer of a bundle, which is verified, or of a bare GGUF file, of which nothing is.

    Args:
        source: A bundle's directory, or a GGUF file.
        sandbox: Runs it.
        keys: Folder with the trusted *.pub files; None: the user's own trust store.
        state: Folder that remembers accepted versions; None: the user's own.
        lazy: Verify only the part of the weights that holds the tokenizer.

    Raises:
        SealhostError: Of verifying, of the file, or of the plugin.
    """
    if not source.is_dir():
        return _of_file(source, sandbox)
    trust, marks = trust_in(keys), state_in(state)
    return _of_bundle(verify(source, trust, reading="lazy" if lazy else "ahead"), trust, marks, sandbox)


def _each_line(encode: Callable[[str], None]) -> None:
    for number, line in enumerate(sys.stdin.buffer, 1):
        where = f"line {number}"
        try:
            text = json.loads(decoded(line, where))
            str(text).encode()  # half of a surrogate pair, written as an escape, is no character
        except (ValueError, RecursionError):
            text = None
        if not isinstance(text, str):
            raise UsageError(where, "expected a JSON string", "write each text as one JSON string on a line")
        encode(text)


def decoded(data: bytes, where: str) -> str:
    """Text of standard input.

    Raises:
        UsageError: When it is no UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        problem = f"expected UTF-8, got an invalid byte at offset {error.start}"
        raise UsageError(where, problem, "convert the text to UTF-8") from None


def _of_bundle(bundle: VerifiedBundle, trust: DirectoryTrust, marks: State, sandbox: Sandbox) -> TokenizerPlugin:
    with opened_weights(bundle):
        marks.check([bundle], trust)  # an older tokenizer is an older release
        where = bundle.manifest.name
        if bundle.weights is None:
            raise HostError(Code.USAGE, where, "expected a model bundle, got one of plugins", "name a model bundle")
        plugin = next((one for one in bundle.plugins if one.role == "tokenizer"), None)
        if plugin is None:
            raise HostError(Code.PLUGIN, where, "expected a tokenizer in the bundle, got none", "pack it again")
        tokenizer = sandbox.load_tokenizer(plugin, _vocabulary(bundle.weights))
        bundle.weights.finish()
    return tokenizer


def _of_file(path: Path, sandbox: Sandbox) -> TokenizerPlugin:
    from ...plugins import reference_plugin  # noqa: PLC0415 — see above
    from ...signing.declaration import read_plugin  # noqa: PLC0415 — see above
    from ..weights.vocabulary import REFERENCE_GUESTS  # noqa: PLC0415 — see above

    with opened_file(path) as contents:
        words = _vocabulary(contents)
    declared = read_plugin(reference_plugin("tokenizer", REFERENCE_GUESTS[words.model]) / "plugin.wasm")
    digest = hashlib.sha256(declared.wasm).hexdigest()
    plugin = ReferencePlugin(declared.name, "tokenizer", declared.wasm, digest, declared.abi, "", declared.limits)
    tokenizer = sandbox.load_tokenizer(plugin, words)
    note(f"{path}: a bare file, nothing of it was verified; the reference tokenizer {declared.name} encodes")
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


def _vocabulary(contents: Contents) -> Vocabulary:
    from ..weights.gguf import GgufFile  # noqa: PLC0415 — see above
    from ..weights.vocabulary import vocabulary  # noqa: PLC0415 — see above

    return vocabulary(GgufFile.parse(contents))
