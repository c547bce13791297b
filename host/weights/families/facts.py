"""What a description reads of a model file: keys of its architecture, and small tensors that belong to the graph.

Whatever is read is noted, so that what is left over can be refused by name (clause 1.3).

Example:
    facts = Facts(file, "llama", vocab=49152)
    layers = facts.integer("block_count", low=1, high=512)
    facts.refuse_others()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ....kernels.formats import Format
from ...errors import WeightsError
from .. import fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..gguf import GgufFile, Value

    Read = Callable[[int, int], memoryview | bytes]
    """The file's bytes from a start to a stop."""

_REMEDY = "use a model without it"

NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "attention.causal": (True,),
    "attention.clamp_kqv": (0.0,),
    "attention.max_alibi_bias": (0.0,),
    "attention.sliding_window": (0,),
    "attention.temperature_length": (0,),
    "embedding_scale": (1.0,),
    "expert_count": (0,),
    "expert_used_count": (0,),
    "expert_shared_count": (0,),
    "final_logit_softcapping": (0.0,),
    "attn_logit_softcapping": (0.0,),
    "logit_scale": (1.0,),
    "residual_scale": (1.0,),
    "nextn_predict_layers": (0,),
    "rope.scaling.finetuned": (True, False),
    "tensor_data_layout": ("Meta AI original pth",),
    "use_parallel_residual": (False,),
}
"""Values under which a feature changes nothing for a family that does not read it; any other value is refused."""


class Facts:
    """See the module's text.

    Attributes:
        vocab: Tokens of the vocabulary.
        context: Tokens of a sequence that the process wants room for; None: as many as the model can.
    """

    def __init__(
        self,
        file: GgufFile,
        architecture: str,
        *,
        vocab: int,
        read: Read | None = None,
        context: int | None = None,
    ) -> None:
        self.vocab, self.context = vocab, context
        self._file, self._prefix, self._bytes = file, architecture + ".", read
        self._tensors = {tensor.name: tensor for tensor in file.tensors}
        self._known: set[str] = set()
        self._vectors: set[str] = set()

    def key(self, name: str) -> str:
        """The full key, which counts as read from now on."""
        self._known.add(name)
        return self._prefix + name

    def has(self, name: str) -> bool:
        """Whether the file has this key of the architecture; asking reads nothing."""
        return self._prefix + name in self._file.metadata

    def has_tensor(self, name: str) -> bool:
        """Whether the file has this tensor."""
        return name in self._tensors

    def integer(self, name: str, *, low: int, high: int, default: int | None = None) -> int:
        """See `fields.integer`."""
        return fields.integer(self._file, self.key(name), low=low, high=high, default=default)

    def number(self, name: str, *, above: float, most: float, default: float | None = None) -> float:
        """See `fields.number`."""
        return fields.number(self._file, self.key(name), above=above, most=most, default=default)

    def text(self, name: str, default: str | None = None) -> str:
        """See `fields.text`."""
        return fields.text(self._file, self.key(name), default)

    def value(self, name: str) -> Value | None:
        """Whatever the key holds; None when it is absent."""
        return self._file.metadata.get(self.key(name))

    def is_zero(self, name: str) -> bool:
        """Whether the key holds the number 0, with which files switch a feature off."""
        value = self.value(name)
        return isinstance(value, int | float) and not isinstance(value, bool) and value == 0

    def refuse(self, name: str, problem: str) -> WeightsError:
        """An error about one key, to be raised."""
        return WeightsError(self._prefix + name, problem, _REMEDY)

    def vector(self, name: str, length: int) -> tuple[float, ...] | None:
        """The positive numbers of an F32 tensor that belongs to the graph and gets no place; None when it is absent.

        Raises:
            WeightsError: another format or shape, or a number that is not positive and finite.
        """
        tensor = self._tensors.get(name)
        if tensor is None:
            return None
        self._vectors.add(name)
        if tensor.type_id != Format.F32.type_id or tensor.shape != (length,):
            got = f"{tensor.type.name} {' x '.join(map(str, tensor.shape))}"
            raise WeightsError(name, f"expected {length} numbers in F32, got {got}", _REMEDY)
        if self._bytes is None:
            raise WeightsError(name, "expected a description that has the file's bytes, got only its header")
        numbers = np.frombuffer(self._bytes(tensor.start, tensor.stop), "<f4").astype(np.float64)
        if not (np.isfinite(numbers) & (numbers > 0)).all():
            raise WeightsError(name, "expected positive finite numbers, got others", _REMEDY)
        return tuple(numbers.tolist())

    @property
    def vectors(self) -> frozenset[str]:
        """Tensors that have been read as part of the graph."""
        return frozenset(self._vectors)

    def refuse_others(self) -> None:
        """Refuses the architecture's keys that were neither read nor are known to change nothing (clause 1.3)."""
        for key, value in self._file.metadata.items():
            name = key.removeprefix(self._prefix)
            if name == key or name in self._known:
                continue
            if name not in NEUTRAL:
                shown = fields.describe(self._file, key)
                raise self.refuse(name, f"expected only features that the graph has, got this key ({shown})")
            if not any(type(value) is type(one) and value == one for one in NEUTRAL[name]):
                shown = str(value) if isinstance(value, str | int | float) else fields.describe(self._file, key)
                wanted = " or ".join(map(str, NEUTRAL[name]))
                raise self.refuse(name, f"expected {wanted}, got {shown}: not supported")
