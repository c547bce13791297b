"""The CPU backend: picks the instruction set, loads the compiled step once, and starts models on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import KernelError
from ..kv_type import KvType
from .builder import CpuModelBuilder
from .cache import load_kernels
from .isa import Isa, detect_isa, supported
from .sync import available_threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..backend import Backend, DecoderSpec
    from ..sha256 import Sha256

    def _fits(backend: CpuBackend) -> Backend:
        """The type checker refuses this when the Protocol is not kept."""
        return backend


def default_threads() -> int:
    """Threads that a step uses unless told otherwise: the processors that this process may run on."""
    return available_threads()


class CpuBackend:
    """See `backend.Backend`.

    Args:
        isa: Version of the dot products; None: the fastest, or what SEALHOST_CPU_ISA says.
        kv_type: How its models keep keys and values.
        progress: Told in words about a first compilation (about ten seconds).

    Raises:
        KernelError: the instruction set is not one that this machine has, or the cache folder is not safe.
    """

    def __init__(
        self,
        *,
        isa: Isa | str | None = None,
        kv_type: KvType | str = KvType.FLOAT16,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.isa = detect_isa() if isa is None else _checked(isa)
        self._kernels = load_kernels(self.isa, KvType(kv_type), progress)

    @property
    def kv_type(self) -> KvType:
        """How its models keep keys and values."""
        return self._kernels.kv_type

    @property
    def name(self) -> str:
        """Shown to operators, e.g. "cpu-avx2"."""
        return f"cpu-{self.isa}"

    @property
    def sha256(self) -> Sha256:
        """Hashes several buffers side by side where the processor can (clause 12)."""
        return self._kernels.sha256

    def builder(self, spec: DecoderSpec, *, threads: int) -> CpuModelBuilder:
        """Starts a model of this shape on this many threads."""
        return CpuModelBuilder(self._kernels, spec, threads)


def _checked(isa: Isa | str) -> Isa:
    if isa not in supported():
        raise KernelError(f"expected one of {', '.join(supported())} on this machine, got {isa}")
    return Isa(isa)
