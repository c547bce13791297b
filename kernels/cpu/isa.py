"""Which instruction set the dot products use, and how it is chosen.

SEALHOST_CPU_ISA forces one, so that each can be tested on a machine that has several.
"""

from __future__ import annotations

import ctypes
import os
import sys
from enum import StrEnum
from functools import cache

import llvmlite.binding as llvm

from ..errors import KernelError

ISA_VARIABLE = "SEALHOST_CPU_ISA"
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
"""x86-64's number of the system call, ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA."""


class Isa(StrEnum):
    """A version of the dot-product layer (clause 5)."""

    AMX = "amx"
    AVX512VNNI = "avx512vnni"
    AVXVNNI = "avxvnni"
    AVX2 = "avx2"
    DOTPROD = "dotprod"
    PORTABLE = "portable"


_AVX512VNNI = ("avx512f", "avx512bw", "avx512vl", "avx512vnni", "f16c", "fma")
_NEEDS = {
    Isa.AMX: ("amx-tile", "amx-int8", *_AVX512VNNI),
    Isa.AVX512VNNI: _AVX512VNNI,
    Isa.AVXVNNI: ("avxvnni", "avx2", "f16c", "fma"),
    Isa.AVX2: ("avx2", "f16c", "fma"),
    Isa.DOTPROD: ("dotprod",),
    Isa.PORTABLE: (),
}


_HASH_NEEDS = {16: ("avx512f", "avx512bw"), 8: ("avx2",), 2: ("sha", "ssse3", "sse4.1")}


def supported() -> tuple[Isa, ...]:
    """The versions that this machine can run, fastest first."""
    features = llvm.get_host_cpu_features()
    able = (isa for isa, needs in _NEEDS.items() if all(features.get(name, False) for name in needs))
    return tuple(isa for isa in able if isa is not Isa.AMX or tiles_granted())


@cache
def tiles_granted() -> bool:
    """Asks the system for the tile registers' state, once for all threads of the process; whether it agrees.

    Linux gives a process that state only when asked: arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA), see
    https://docs.kernel.org/arch/x86/xstate.html. It refuses where a thread's alternate signal stack could not hold it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    numbers = (_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA)
    return sys.platform == "linux" and libc.syscall(*map(ctypes.c_long, numbers)) == 0


def detect_isa() -> Isa:
    """The fastest version that this machine runs, or the one that SEALHOST_CPU_ISA names.

    Raises:
        KernelError: the variable names no version, or one that this machine cannot run.
    """
    choice = os.environ.get(ISA_VARIABLE, "")
    able = supported()
    if not choice:
        return able[0]
    if choice not in able:
        raise KernelError(f"expected {ISA_VARIABLE} to be one of {', '.join(able)} on this machine, got {choice!r}")
    return Isa(choice)


def hash_widths() -> tuple[int, ...]:
    """How many messages at once this machine should hash: 16, 8 (`sha256_lanes.py`), 2 (`sha256.py`), some, or none.

    Eight with AVX2 are slower than two with the SHA extensions.
    """
    features = llvm.get_host_cpu_features()
    able = [width for width, needs in _HASH_NEEDS.items() if all(features.get(name, False) for name in needs)]
    return tuple(width for width in able if width != 8 or 2 not in able)


def wide_registers() -> bool:
    """Whether this machine has 32 registers of 16 floats, so that kernels keep more sums in them."""
    return bool(llvm.get_host_cpu_features().get("avx512f", False))
