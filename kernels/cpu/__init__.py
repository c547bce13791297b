"""CPU kernels; see kernels/README.md."""

from .backend import CpuBackend, default_threads
from .isa import Isa, detect_isa, supported

__all__ = ["CpuBackend", "Isa", "default_threads", "detect_isa", "supported"]
