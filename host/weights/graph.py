"""Which tensor goes where: from a parsed model file to a DecoderSpec and a place for every tensor.

Rules
* Every tensor of the file gets a place, and every place a tensor (clause 1.4).
* A family describes; this file checks and knows no architecture by heart.

Example:
    graph = describe(file, vocab=len(words.texts))
    builder = backend.builder(graph.spec, threads=2)
    for place in graph.places: ...
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ...kernels.backend import Role
from ...kernels.formats import Format
from ..errors import WeightsError
from . import fields
from .families import llama

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...kernels.backend import DecoderSpec
    from .gguf import GgufFile, TensorInfo

ARCHITECTURE = "general.architecture"

FORMATS = {one.type_id: one for one in Format}
"""Formats that kernels run, by GGUF's type id."""

NORMS = frozenset({Role.ATTENTION_NORM, Role.FEED_FORWARD_NORM, Role.OUTPUT_NORM})
"""Roles that are vectors of float32."""

_BLOCK_NAME = re.compile(r"blk\.(0|[1-9][0-9]{0,3})\.(.+)")


class Family(Protocol):
    """What a file in families/ offers."""

    @property
    def GLOBAL(self) -> Mapping[str, Role]:  # noqa: N802 — a module's constant
        """Tensors outside the blocks, by name."""

    @property
    def BLOCK(self) -> Mapping[str, Role]:  # noqa: N802 — a module's constant
        """Tensors of each block, by name after "blk.N."."""

    def spec(self, file: GgufFile, *, vocab: int, tied_head: bool) -> DecoderSpec:
        """Reads the hyperparameters."""


FAMILIES: dict[str, Family] = {"llama": llama}
"""Supported architectures, by the file's own name for them."""


@dataclass(frozen=True, slots=True)
class Place:
    """One tensor and where it goes; `layer` is None outside the blocks."""

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


def describe(file: GgufFile, *, vocab: int) -> Graph:
    """Describes a model.

    Args:
        file: The parsed model file.
        vocab: Tokens of its vocabulary; the embedding must have as many rows.

    Raises:
        WeightsError: the architecture, a hyperparameter or a tensor is unsupported, missing, extra or misshapen.
    """
    family = family_of(file)
    head = next(name for name, role in family.GLOBAL.items() if role is Role.OUTPUT)
    spec = family.spec(file, vocab=vocab, tied_head=all(one.name != head for one in file.tensors))
    places = tuple(_place(tensor, family, spec) for tensor in file.tensors)
    _refuse_missing(places, family, spec)
    return Graph(spec, places)


def _place(tensor: TensorInfo, family: Family, spec: DecoderSpec) -> Place:
    role, layer = _role(tensor.name, family, spec)
    wanted = shape_of(role, spec)
    if tensor.shape != wanted:
        raise WeightsError(tensor.name, f"expected shape {_times(wanted)}, got {_times(tensor.shape)}")
    allowed = (Format.F32,) if role in NORMS else tuple(Format)
    found = FORMATS.get(tensor.type_id)
    if found not in allowed or found is None:
        names = ", ".join(one.name for one in allowed)
        raise WeightsError(tensor.name, f"expected one of: {names}; got {tensor.type.name}", "quantise to one of these")
    return Place(tensor, found, role, layer)


def _role(name: str, family: Family, spec: DecoderSpec) -> tuple[Role, int | None]:
    if name in family.GLOBAL:
        return family.GLOBAL[name], None
    match = _BLOCK_NAME.fullmatch(name)
    if match is None or match[2] not in family.BLOCK:
        # clause 1.3: a tensor that the graph does not use would change what the model computes
        raise WeightsError(name, "expected only tensors of the architecture, got this one", "use a model without it")
    layer = int(match[1])
    if layer >= spec.layers:
        raise WeightsError(name, f"expected blocks 0 to {spec.layers - 1}, got block {layer}")
    return family.BLOCK[match[2]], layer


def shape_of(role: Role, spec: DecoderSpec) -> tuple[int, ...]:
    """The row-major shape that a role has under these hyperparameters."""
    query, pair = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
    shapes: dict[Role, tuple[int, ...]] = {
        Role.EMBEDDING: (spec.vocab, spec.dim),
        Role.OUTPUT: (spec.vocab, spec.dim),
        Role.QUERY: (query, spec.dim),
        Role.KEY: (pair, spec.dim),
        Role.VALUE: (pair, spec.dim),
        Role.ATTENTION_OUTPUT: (spec.dim, query),
        Role.GATE: (spec.feed_forward_dim, spec.dim),
        Role.UP: (spec.feed_forward_dim, spec.dim),
        Role.DOWN: (spec.dim, spec.feed_forward_dim),
    }
    return shapes.get(role, (spec.dim,))


def _refuse_missing(places: tuple[Place, ...], family: Family, spec: DecoderSpec) -> None:
    found = {place.tensor.name for place in places}
    wanted = [name for name, role in family.GLOBAL.items() if role is not Role.OUTPUT]
    wanted += [f"blk.{layer}.{name}" for layer in range(spec.layers) for name in family.BLOCK]
    missing = [name for name in wanted if name not in found]
    if missing:
        raise WeightsError(missing[0], f"expected this tensor, it is missing ({len(missing)} in all are)")


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
