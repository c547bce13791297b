"""How much memory may still be taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from sealhost.host.memory import available_bytes

GIB = 1 << 30


def machine(root: Path, available_kib: int | None = None, cgroup: str = "", **groups: tuple[str, int, int]) -> Path:
    """A /proc and a /sys; groups are named by their path with "__" for "/": (memory.max, memory.current, inactive)."""
    (root / "proc/self").mkdir(parents=True)
    if available_kib is not None:
        (root / "proc/meminfo").write_text(f"MemTotal: 9 kB\nMemAvailable:   {available_kib} kB\nHugePages_Total: 0\n")
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, (limit, current, inactive) in groups.items():
        folder = root / "sys/fs/cgroup" / name.replace("__", "/").removeprefix("top/").removeprefix("top")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.max").write_text(limit + "\n")
        (folder / "memory.current").write_text(f"{current}\n")
        (folder / "memory.stat").write_text(f"anon 5\nfile 7\ninactive_file {inactive}\n")
    return root


def test_without_limits_it_is_what_the_kernel_says(tmp_path: Path) -> None:
    assert available_bytes(machine(tmp_path, 1 << 20)) == GIB


def test_a_limit_of_the_group_counts_and_what_can_be_dropped_is_free(tmp_path: Path) -> None:
    root = machine(tmp_path, 8 << 20, "0::/a/b\n", top__a__b=(str(4 * GIB), 3 * GIB, GIB // 2))
    assert available_bytes(root) == GIB + GIB // 2


def test_the_narrowest_group_on_the_way_up_counts(tmp_path: Path) -> None:
    groups = {"top__a": (str(2 * GIB), GIB, 0), "top__a__b": ("max", GIB, 0), "top": (str(9 * GIB), 0, 0)}
    assert available_bytes(machine(tmp_path, 8 << 20, "1:name=x:/y\n0::/a/b\n", **groups)) == GIB


def test_a_group_that_is_over_its_limit_leaves_nothing(tmp_path: Path) -> None:
    assert available_bytes(machine(tmp_path, 8 << 20, "0::/\n", top=("5", 9, 0))) == 0


@pytest.mark.parametrize("cgroup", ["", "4:memory:/old\n", "0::/gone\n"])
def test_where_nobody_says_nothing_is_known(tmp_path: Path, cgroup: str) -> None:
    assert available_bytes(machine(tmp_path, None, cgroup)) is None


def test_on_this_machine_there_is_an_answer() -> None:
    assert (available_bytes() or 1) > 0
