"""Makes sure that a thread has room for a guest's stack (clause 3.4).

wasmtime stops a guest after `max_wasm_stack` bytes, but it cannot know where the thread's stack ends; a guest that gets
there first ends the process. Each thread is looked at once.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import threading

from .errors import SandboxError

MARGIN_BYTES = 256 << 10
"""What Python's own frames below the call and wasmtime's trap handling above it take, with room to spare."""

_PTHREAD_ATTR_BYTES = 256
"""More than any platform's pthread_attr_t (glibc x86-64: 56)."""


class _Roomy(threading.local):
    bytes = 0


roomy = _Roomy()
"""`roomy.bytes`: the most that the calling thread was found to have room for; 0 before the first look."""


def require_stack(stack_bytes: int) -> None:
    """Checks the calling thread.

    Args:
        stack_bytes: `max_wasm_stack` of the engine.

    Raises:
        SandboxError: When the thread's stack is smaller than that plus a margin.
    """
    size = thread_stack_bytes()
    if size is not None and size < stack_bytes + MARGIN_BYTES:
        problem = f"expected a thread stack of {stack_bytes + MARGIN_BYTES} bytes or more, got {size}"
        raise SandboxError("sandbox", problem, "raise threading.stack_size, or lower the limit stack_bytes")
    roomy.bytes = stack_bytes


def thread_stack_bytes() -> int | None:
    """Size of the calling thread's stack in bytes; None where the system does not tell."""
    try:
        library = ctypes.CDLL(None)
        get_attributes, get_size = library.pthread_getattr_np, library.pthread_attr_getstacksize
        destroy, myself = library.pthread_attr_destroy, library.pthread_self
    except (AttributeError, OSError):
        return None
    myself.restype = ctypes.c_void_p
    attributes = ctypes.create_string_buffer(_PTHREAD_ATTR_BYTES)
    size = ctypes.c_size_t(0)
    if get_attributes(ctypes.c_void_p(myself()), attributes):
        return None
    get_size(attributes, ctypes.byref(size))
    destroy(attributes)
    return size.value
