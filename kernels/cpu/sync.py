"""What the threads of a step share: the sync area's layout, its limits, and what Python does with it.

This file needs no compiler, so that a start from the cache does not import one.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from pathlib import Path

LINE = 64
EPOCH, SLEEPERS, STOP, IDLE, SPINS, THREADS = (LINE * index for index in range(6))
"""Offsets of: step number (int32, workers sleep on it), threads asleep in a barrier, stop flag, workers asleep between
steps, pauses before a thread sleeps in a barrier (int64); what each thread writes for itself."""
ROUND, COUNTERS, THREAD_BYTES = 0, LINE, 3 * LINE
"""Offsets in a thread's part, and its size: barriers that it has come to (int32, slept on); the counters of its tasks
in phases after an even and after an odd number of them. A line each: what a core writes another one has to fetch."""

LONG_SPINS = 4000
"""Pauses before a thread sleeps in a barrier of a calm machine: tens of microseconds, many times a small product."""
SHORT_SPINS = 100
"""The same beside busy neighbours: whoever waits gives its core away at once to the one it waits for."""
IDLE_SPINS = 4000
"""Pauses before a worker sleeps between steps of several tokens: their guests want its core."""
LONE_IDLE_SPINS = 40000
"""The same between steps of one token, a millisecond: waking a sleeper takes a virtual machine a twentieth of one."""

FUTEX = {"x86_64": 202, "aarch64": 98}
WAIT_PRIVATE, WAKE_PRIVATE = 128, 129
EVERYONE = 1 << 30
NAP_MICROSECONDS = 50
HAS_FUTEX = sys.platform == "linux" and platform.machine() in FUTEX


def sync_bytes(threads: int) -> int:
    """Bytes of the sync area."""
    return THREADS + THREAD_BYTES * threads


def wake_from_python(address: int) -> None:
    """Wakes the sleepers on an address from outside compiled code (used when stopping)."""
    if HAS_FUTEX:
        call = ctypes.CDLL(None, use_errno=True).syscall
        call.restype = ctypes.c_long
        arguments = (FUTEX[platform.machine()], address, WAKE_PRIVATE, EVERYONE, 0, 0, 0)
        call(*(ctypes.c_long(argument) for argument in arguments))


def available_threads() -> int:
    """Processors that this process may use, by affinity and by the cgroup's CPU quota; at least 1."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(affinity, _cgroup_quota() or affinity))


def _cgroup_quota() -> int | None:
    """Whole processors of the cgroup's quota, rounded up; None without one."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return None if quota == "max" else max(1, -(-int(quota) // int(period)))
    except (OSError, ValueError):
        return None
