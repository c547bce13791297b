"""`plugin detect`: whether a text bears the mark of the `watermark` sampler, and how sure that is.

Rules
* The statistic is that of Kirchenbauer et al., A Watermark for Large Language Models, ICML 2023, equation 2:
  z = (green - gamma T) / sqrt(T gamma (1 - gamma)), over T pairs of neighbouring tokens, each distinct pair once, for a
  text that repeats itself would otherwise count the same evidence several times.
* The p-value is the share of texts without the mark that have at least this z, by the normal distribution.
* Which ids are green is what plugins/samplers/watermark/green.h says.

Example:
    sealhost plugin detect model.gguf --config mark.json < answer.txt
"""

from __future__ import annotations

import math
import sys
from itertools import pairwise
from json import loads
from pathlib import Path  # noqa: TC003 — cyclopts reads annotations at run time
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cyclopts import Parameter

from ..errors import UsageError
from .facts import answering, print_facts
from .options import Keys, StateFolder  # noqa: TC001 — see above
from .plugin_folder import read_config
from .tokenize import decoded, tokenizer_of

if TYPE_CHECKING:
    from collections.abc import Sequence

Flag = Annotated[bool, Parameter(negative="")]

GAMMA, CLEAR_Z = 0.25, 4.0
"""The sampler's default green share; from which z on the paper calls a text marked: p below 3.2e-5."""

_U32, _U64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
_ID_BYTES = 4


class Found(NamedTuple):
    """What was counted in a text.

    Attributes:
        scored: Distinct pairs of neighbouring tokens.
        green: Those of them whose second id is green after the first.
        gamma: Share of green ids.
    """

    scored: int
    green: int
    gamma: float

    @property
    def z(self) -> float:
        """How many standard deviations the green ones are more than expected."""
        return (self.green - self.gamma * self.scored) / math.sqrt(self.scored * self.gamma * (1 - self.gamma))

    @property
    def p(self) -> float:
        """Probability of such a z, or a larger one, without the mark."""
        return math.erfc(self.z / math.sqrt(2)) / 2


def siphash(key: bytes, message: bytes) -> int:
    """SipHash-2-4.

    Args:
        key: 16 bytes.
        message: At most 255 bytes, for they are counted in one.
    """
    low, high = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v = [low ^ 0x736F6D6570736575, high ^ 0x646F72616E646F6D, low ^ 0x6C7967656E657261, high ^ 0x7465646279746573]
    padded = message + bytes(7 - len(message) % 8) + bytes((len(message),))
    for at in range(0, len(padded), 8):
        block = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= block
        _rounds(v, 2)
        v[0] ^= block
    v[2] ^= 0xFF
    _rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def _rounds(v: list[int], count: int) -> None:
    def rotated(x: int, by: int) -> int:
        return (x << by | x >> (64 - by)) & _U64

    for _ in range(count):
        v[0], v[2] = (v[0] + v[1]) & _U64, (v[2] + v[3]) & _U64
        v[1], v[3] = rotated(v[1], 13) ^ v[0], rotated(v[3], 16) ^ v[2]
        v[0] = rotated(v[0], 32)
        v[2], v[0] = (v[2] + v[1]) & _U64, (v[0] + v[3]) & _U64
        v[1], v[3] = rotated(v[1], 17) ^ v[2], rotated(v[3], 21) ^ v[0]
        v[2] = rotated(v[2], 32)


def _mixed(x: int) -> int:
    """MurmurHash3's finaliser."""
    x = (x ^ x >> 16) * 0x85EBCA6B & _U32
    x = (x ^ x >> 13) * 0xC2B2AE35 & _U32
    return x ^ x >> 16


def is_green(key: bytes, previous: int, token: int, gamma: float) -> bool:
    """Whether an id is green after another."""
    seed = siphash(key, previous.to_bytes(_ID_BYTES, "little"))
    return _mixed(_mixed(token ^ seed & _U32) ^ seed >> 32) < int(gamma * 2**32)


def count(ids: Sequence[int], key: bytes, gamma: float) -> Found:
    """Counts the distinct pairs of neighbours, and the green ones."""
    pairs = set(pairwise(ids))
    return Found(len(pairs), sum(is_green(key, *pair, gamma) for pair in pairs), gamma)


def detect(
    source: Path | None = None,
    /,
    *,
    config: Path,
    ids: Flag = False,
    keys: Keys = None,
    state: StateFolder = None,
    lazy: Flag = False,
    json: Annotated[bool, Parameter(name="--json", negative="", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Say whether the text on standard input bears the mark of the watermark sampler: z-score and p-value.

    Args:
        source: The model whose tokenizer reads the text: a bundle's directory, or a GGUF file, of which nothing is
            verified.
        config: File with the sampler's configuration, key and all.
        ids: Standard input is a JSON array of token ids instead; no model is needed.
        keys: Folder with the trusted *.pub files; without it your own trust store.
        state: Folder that remembers accepted versions, which is read and not changed; without it your own.
        lazy: Verify only the part of the weights that holds the tokenizer.
        json: Print one JSON object.
    """
    with answering(as_json=json):
        key, gamma = _settings(config)
        said = _read_ids() if ids else _encoded(source, keys, state, lazy=lazy)
        found = count(said, key, gamma)
        if not found.scored:
            raise UsageError("standard input", "expected at least two tokens, got fewer", "give a longer text")
        facts = {
            "pairs": found.scored,
            "green": found.green,
            "expected_green": round(found.gamma * found.scored, 1),
            "z": round(found.z, 4),
            "p": float(f"{found.p:.4g}"),
            "marked": found.z >= CLEAR_Z,
        }
        print_facts(facts, as_json=json)


def _settings(path: Path) -> tuple[bytes, float]:
    from ...plugins import reference_plugin  # noqa: PLC0415 — verbs load what they need
    from ...sandbox.config_schema import ConfigSchema  # noqa: PLC0415
    from ...signing.declaration import read_plugin  # noqa: PLC0415

    config: dict[str, Any] = read_config(path) or {}
    declared = read_plugin(reference_plugin("sampler", "watermark") / "plugin.wasm")
    ConfigSchema(declared.config_schema or {}).check(config)
    try:
        key = bytes.fromhex(config["key"])
    except ValueError:
        key = b""
    if len(key) * 2 != len(config["key"]):
        raise UsageError(str(path), "expected 32 hexadecimal digits in key, got other letters", "see the README")
    return key, float(config.get("gamma", GAMMA))


def _read_ids() -> list[int]:
    try:
        found = loads(decoded(sys.stdin.buffer.read(), "standard input"))
    except (ValueError, RecursionError):
        found = None
    whole = isinstance(found, list) and all(type(one) is int and 0 <= one <= _U32 for one in found)
    if not whole:
        raise UsageError("standard input", "expected a JSON array of token ids, got something else", "give [1, 2, …]")
    return list(found)


def _encoded(source: Path | None, keys: Path | None, state: Path | None, *, lazy: bool) -> list[int]:
    from ...sandbox import Sandbox  # noqa: PLC0415 — brings wasmtime (clause 6.5)

    if source is None:
        raise UsageError(
            "SOURCE", "expected a bundle or a GGUF file whose tokenizer reads the text, got none", "name it"
        )
    text = decoded(sys.stdin.buffer.read(), "standard input")
    with Sandbox() as sandbox:
        tokenizer = tokenizer_of(source, sandbox, keys=keys, state=state, lazy=lazy)
        return list(tokenizer.encode(text, add_special=False, parse_special=False))
