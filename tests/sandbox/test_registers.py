"""What runs before guests leaves the vector registers as their code needs them (clause 2.9)."""

from __future__ import annotations

import ctypes
import mmap
import platform
from pathlib import Path

import pytest

from sealhost.sandbox.cache import CodeCache

UPPER_HALVES = 1 << 2
"""Bit of a register XINUSE: the upper halves of the registers YMM0 to YMM15 hold something."""

XINUSE = bytes.fromhex("b901000000 0f01d0 48c1e220 4809d0 c3")
"""mov ecx, 1; xgetbv; shl rdx, 32; or rax, rdx; ret (Intel SDM, volume 1, 13.2)."""


@pytest.fixture
def registers_in_use():
    """The processor's own word on which of this thread's registers hold something."""
    if platform.machine() != "x86_64" or "xgetbv1" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("the processor does not tell")
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(XINUSE)
    yield ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    code.close()  # which keeps it until here


@pytest.mark.parametrize("size", [0, 16, 100, 255, 256, 1000, (1 << 18) + 16, 3_538_136])
@pytest.mark.parametrize("damaged", [False, True])
def test_the_cache_leaves_no_upper_halves_of_vector_registers_in_use(size, damaged, tmp_path, registers_in_use):
    cache, key = CodeCache(tmp_path / "cache"), bytes(32)
    cache.put(key, bytes(size), b"head")
    assert not registers_in_use() & UPPER_HALVES
    if damaged:
        path = tmp_path / "cache" / key.hex()
        path.write_bytes(path.read_bytes()[:-1])
    entry = cache.get(key)
    assert not registers_in_use() & UPPER_HALVES
    assert (entry is None) == damaged
    if entry is not None:
        entry.code.close()
