"""Links object code into the process and makes its entry points callable, with LLVM alone."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import llvmlite.binding as llvm

from ..errors import KernelError
from ..sha256 import EachSha256
from .hashing import LanedSha256, PairedSha256
from .isa import hash_widths

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..kv_type import KvType
    from ..sha256 import Sha256
    from .isa import Isa

PACK_SYMBOL = "sealhost_pack"
"""Of `packing.py`."""
_PACK_PROTOTYPE = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 9)
_HASH_SYMBOLS = {2: "sealhost_hash_two", 8: "sealhost_hash_eight", 16: "sealhost_hash_sixteen"}
"""By how many messages they take; of `sha256.py` and `sha256_lanes.py`."""
_PAIR_PROTOTYPE = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)
_LANES_PROTOTYPE = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)
_PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Kernels:
    """Loaded code.

    `enter` releases the GIL while it runs (ctypes does so for every foreign call).

    Args:
        symbol: The entry point.
        objects: Object code that together resolves all names but those of the C library.
        isa: What the products among it were made for.
        kv_type: What the cache's kernels among it were made for.
        sha256: Loaded beside it.

    Attributes:
        isa: The same.
        kv_type: The same.
        sha256: The same.
        pack: Packs tiles of a matrix; arguments as in `packing.py`. Releases the GIL, too.
    """

    def __init__(
        self, symbol: str, objects: tuple[bytes, ...], isa: Isa, kv_type: KvType, sha256: LoadedSha256
    ) -> None:
        self.isa, self.kv_type, self.sha256 = isa, kv_type, sha256
        self._library = _linked(objects, (symbol, PACK_SYMBOL), "sealhost-step")
        self._function = _PROTOTYPE(self._library[symbol])
        self.pack: Callable[..., None] = _PACK_PROTOTYPE(self._library[PACK_SYMBOL])

    def binder(self, context: int, thread: int) -> Callable[[], int]:
        """A call of `enter(context, thread)` with its arguments fixed and its result unpacked."""
        result, raised = ctypes.c_int64(), ctypes.c_void_p()
        at, raised_at = ctypes.byref(result), ctypes.byref(raised)
        function = self._function

        def call() -> int:
            # numba's convention: the value goes through the first pointer, the return value is a status
            if function(at, raised_at, context, thread) != 0:
                raise KernelError("expected the compiled step to end normally, got an exception status")
            return result.value

        return call


class LoadedSha256:
    """See `kernels.sha256.Sha256`; tries the ways of `isa.hash_widths` in this order, then hashlib.

    Args:
        code: What was compiled for them.

    Attributes:
        width: Of the widest way.
    """

    def __init__(self, code: bytes) -> None:
        widths = hash_widths()
        self._library = _linked((code,), tuple(_HASH_SYMBOLS[width] for width in widths), "sealhost-sha256")
        self._hash: Sha256 = EachSha256()
        for width in reversed(widths):
            kernel = self._library[_HASH_SYMBOLS[width]]
            if width == PairedSha256.width:
                self._hash = PairedSha256(_PAIR_PROTOTYPE(kernel), self._hash)
            else:
                self._hash = LanedSha256(_LANES_PROTOTYPE(kernel), width, self._hash)
        self.width = self._hash.width

    def __call__(self, buffers: Sequence[memoryview]) -> list[bytes]:
        """The digests, 32 bytes each, in the buffers' order."""
        return self._hash(buffers)


def _linked(objects: tuple[bytes, ...], symbols: tuple[str, ...], name: str) -> llvm.ResourceTracker:
    """Object code in this process, with the addresses of these symbols; it lives as long as what this answers."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    builder = llvm.JITLibraryBuilder().add_current_process()
    for symbol in symbols:
        builder.export_symbol(symbol)
    for code in objects:
        builder.add_object_img(code)
    return builder.link(llvm.create_lljit_compiler(), name)
