"""Links object code into the process and makes its entry point callable, with LLVM alone."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import llvmlite.binding as llvm

from ..errors import KernelError
from .hashing import PairedSha256, sha256_each
from .isa import hashes_two

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..kv_type import KvType
    from .isa import Isa

PACK_SYMBOL = "sealhost_pack"
"""Of `packing.py`."""
_PACK_PROTOTYPE = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 9)
HASH_SYMBOL = "sealhost_hash_two"
"""Of `sha256.py`."""
_HASH_PROTOTYPE = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)
_PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Kernels:
    """Loaded code.

    `enter` releases the GIL while it runs (ctypes does so for every foreign call).

    Args:
        symbol: The entry point.
        objects: Object code that together resolves all names but those of the C library.
        isa: What the products among it were made for.
        kv_type: What the cache's kernels among it were made for.

    Attributes:
        isa: The same.
        kv_type: The same.
        pack: Packs tiles of a matrix; arguments as in `packing.py`. Releases the GIL, too.
        sha256: As `backend.Backend` says.
    """

    def __init__(self, symbol: str, objects: tuple[bytes, ...], isa: Isa, kv_type: KvType) -> None:
        self.isa, self.kv_type = isa, kv_type
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._jit = llvm.create_lljit_compiler()
        builder = llvm.JITLibraryBuilder().add_current_process().export_symbol(symbol).export_symbol(PACK_SYMBOL)
        if hashes_two():
            builder.export_symbol(HASH_SYMBOL)
        for code in objects:
            builder.add_object_img(code)
        self._library = builder.link(self._jit, "sealhost-step")
        self._function = _PROTOTYPE(self._library[symbol])
        self.pack: Callable[..., None] = _PACK_PROTOTYPE(self._library[PACK_SYMBOL])
        self.sha256: Callable[[Sequence[memoryview]], list[bytes]] = sha256_each
        if hashes_two():
            self.sha256 = PairedSha256(_HASH_PROTOTYPE(self._library[HASH_SYMBOL]))

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
