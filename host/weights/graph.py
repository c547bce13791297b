"""Which tensor goes where: from a parsed model file to a DecoderSpec and a place for every tensor.

Rules
* Every tensor of the file gets a place or is part of the description, and every place gets a tensor (clause 1.4).
* A family describes its architecture; this file only checks, and is the same for all.

Example:
    graph = describe(file, vocab=len(words.texts), read=weights.view)
    builder = backend.builder(graph.spec, threads=2)
    for place in graph.places: ...
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Protocol

from ...kernels.backend import VECTOR_ROLES, Role
from ...kernels.formats import Format
from ..errors import WeightsError
from . import fields
from .families import gemma2, gemma3, llama, phi3, qwen2, qwen3
from .families.decoder import OUTSIDE
from .families.facts import Facts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...kernels.backend import DecoderSpec
    from .families.decoder import Places
    from .families.facts import Read
    from .gguf import GgufFile, TensorInfo

ARCHITECTURE = "general.architecture"

FORMATS = {one.type_id: one for one in Format}
"""Formats that kernels run, by GGUF's type id."""

_BLOCK_NAME = re.compile(r"blk\.(0|[1-9][0-9]{0,3})\.(.+)")


class Family(Protocol):
    """What a file in families/ offers."""

    @property
    def BLOCK(self) -> Places:  # noqa: N802 — a module's constant
        """Tensors of each block, by name after "blk.N."."""

    def spec(self, facts: Facts) -> DecoderSpec:
        """Reads the hyperparameters.

        Raises:
            WeightsError: a key is missing, out of range, or asks for something that the graph cannot express.
        """


FAMILIES: dict[str, Family] = {
    "gemma2": gemma2,
    "gemma3": gemma3,
    "llama": llama,
    "phi3": phi3,
    "qwen2": qwen2,
    "qwen3": qwen3,
}
"""Supported architectures, by the file's own name for them."""


@dataclass(frozen=True, slots=True)
class Place:
    """One tensor, or those rows of it that go to one place; `layer` is None outside the blocks."""

    tensor: TensorInfo
    format: Format
    role: Role
    layer: int | None


@dataclass(frozen=True, slots=True)
class Graph:
    """A model's hyperparameters and its tensors, in the order of the file."""

    spec: DecoderSpec
    places: tuple[Place, ...]


def family_of(file: GgufFile) -> Family:
    """The description of a file's architecture.

    Raises:
        WeightsError: there is none; the text lists those there are.
    """
    architecture = fields.text(file, ARCHITECTURE)
    family = FAMILIES.get(architecture)
    if family is None:
        supported = ", ".join(sorted(FAMILIES))
        raise WeightsError(ARCHITECTURE, f"expected one of: {supported}; got {architecture}", "use a model of these")
    return family


def describe(file: GgufFile, *, vocab: int, read: Read | None = None, context: int | None = None) -> Graph:
    """Describes a model.

    Args:
        file: The parsed model file.
        vocab: Tokens of its vocabulary; the embedding must have as many rows.
        read: Gives the file's bytes from a start to a stop; a few descriptions read small tensors (RoPE factors).
        context: Tokens of a sequence that the process wants room for; None: as many as the model can.

    Raises:
        WeightsError: the architecture, a hyperparameter or a tensor is unsupported, missing, extra or misshapen.
    """
    family = family_of(file)
    facts = Facts(file, fields.text(file, ARCHITECTURE), vocab=vocab, read=read, context=context)
    spec = family.spec(facts)
    facts.refuse_others()
    places = tuple(
        place for tensor in file.tensors if tensor.name not in facts.vectors for place in _places(tensor, family, spec)
    )
    _refuse_missing({place.tensor.name for place in places}, family, spec)
    return Graph(spec, places)


def _places(tensor: TensorInfo, family: Family, spec: DecoderSpec) -> Iterator[Place]:
    """A tensor's place, or one for each of the matrices whose rows it holds one after the other."""
    roles, layer = _roles(tensor.name, family, spec)
    shapes = [spec.shape(role) for role in roles]
    wanted = (sum(shape[0] for shape in shapes), *shapes[0][1:])
    if tensor.shape != wanted:
        raise WeightsError(tensor.name, f"expected shape {_times(wanted)}, got {_times(tensor.shape)}")
    format_ = _format(tensor, roles[0])
    start = tensor.start
    for role, shape in zip(roles, shapes, strict=True):
        stop = start + prod(shape[:-1]) * format_.row_bytes(shape[-1])
        yield Place(replace(tensor, shape=shape, start=start, stop=stop), format_, role, layer)
        start = stop


def _format(tensor: TensorInfo, role: Role) -> Format:
    allowed = (Format.F32,) if role in VECTOR_ROLES else tuple(Format)
    found = FORMATS.get(tensor.type_id)
    if found not in allowed or found is None:
        names = ", ".join(one.name for one in allowed)
        raise WeightsError(tensor.name, f"expected one of: {names}; got {tensor.type.name}", "quantise to one of these")
    return found


def _roles(name: str, family: Family, spec: DecoderSpec) -> tuple[tuple[Role, ...], int | None]:
    if name in OUTSIDE:
        return OUTSIDE[name], None
    match = _BLOCK_NAME.fullmatch(name)
    if match is None or match[2] not in family.BLOCK:
        # clause 1.3: a tensor that the graph does not use would change what the model computes
        raise WeightsError(name, "expected only tensors of the architecture, got this one", "use a model without it")
    layer = int(match[1])
    if layer >= spec.layers:
        raise WeightsError(name, f"expected blocks 0 to {spec.layers - 1}, got block {layer}")
    return family.BLOCK[match[2]], layer


def _refuse_missing(found: set[str], family: Family, spec: DecoderSpec) -> None:
    wanted = [name for name, roles in OUTSIDE.items() if roles[0] in spec.global_roles]
    wanted += [f"blk.{layer}.{name}" for layer in range(spec.layers) for name in family.BLOCK]
    missing = [name for name in wanted if name not in found]
    if missing:
        raise WeightsError(missing[0], f"expected this tensor, it is missing ({len(missing)} in all are)")


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
