"""NumPy twins of the kernels and a backend made of them; see kernels/README.md clause 9."""

from .backend import ReferenceBackend

__all__ = ["ReferenceBackend"]
