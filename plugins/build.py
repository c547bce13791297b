"""Rebuilds the reference guests from source with the pinned compiler.

    python plugins/build.py              # writes plugins/*/*/plugin.wasm
    python plugins/build.py bpe spm      # these alone
    python plugins/build.py --out DIR    # writes DIR/<role folder>/<name>/plugin.wasm, touches nothing else

The bytes depend on the sources and the pinned `ziglang` alone: not on the folder, the user or the machine
(README.md, "How the reference guests are built").
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

PLUGINS = Path(__file__).resolve().parent

STACK_BYTES = 64 * 1024
"""Enough for calls without recursion. The linker puts it below the data: an overflow traps and overwrites nothing."""

FLAGS = (
    "--target=wasm32-freestanding",
    # exactly what the sandbox admits: nothing newer slips in with a newer compiler's defaults
    "-mcpu=mvp+simd128+bulk_memory+bulk_memory_opt+sign_ext+nontrapping_fptoint",
    "-std=c11",
    "-O3",
    "-g0",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-ffreestanding",
    "-fno-builtin",
    "-ffp-contract=off",
    "-fno-sanitize=all",
    "-nostdlib",
    "-Wl,--no-entry",
    "-Wl,--strip-all",
    f"-Wl,-z,stack-size={STACK_BYTES}",
)

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Guest:
    """One reference plugin.

    Args:
        folder: Its own sources and headers.
        memory_bytes: Initial and maximum alike, a multiple of 64 KiB.
        shared: A folder whose sources and headers it shares with others.
        first: Of its own sources the one whose zeros lie nearest to the data: what is filled before the snapshot, so
            that instances share all of it in one piece.
    """

    folder: str
    memory_bytes: int
    shared: str = ""
    first: str = ""

    @property
    def name(self) -> str:
        """The last part of its folder, unique among all."""
        return self.folder.rsplit("/", 1)[1]

    @property
    def folders(self) -> list[str]:
        """Where sources and headers lie, relative to plugins/."""
        return [self.folder, self.shared] if self.shared else [self.folder]

    @property
    def sources(self) -> list[str]:
        """C files, relative to plugins/, in a fixed order: the link order decides the bytes."""
        found = (path for folder in self.folders for path in (PLUGINS / folder).glob("*.c"))
        names = (path.relative_to(PLUGINS).as_posix() for path in found)
        return sorted(names, key=lambda name: (name != f"{self.folder}/{self.first}", name))


GUESTS = (
    Guest("tokenizers/bpe", 96 * MIB, shared="tokenizers/common"),
    Guest("tokenizers/spm", 64 * MIB, shared="tokenizers/common"),
    Guest("tokenizers/unigram", 96 * MIB, shared="tokenizers/common"),
    Guest("samplers/standard", 40 * MIB, shared="samplers/common", first="words.c"),
    Guest("samplers/guard", 64 * MIB, shared="samplers/common"),
    Guest("samplers/watermark", 8 * MIB, shared="samplers/common"),
    Guest("samplers/regex", 128 * MIB, shared="samplers/grammar_common"),
    Guest("samplers/json", 128 * MIB, shared="samplers/grammar_common"),
)


def build(guest: Guest, out: Path) -> Path:
    """Compiles one guest into `out` and returns the path of its module.

    Raises:
        subprocess.CalledProcessError: The compiler refused the sources; its messages are on standard error.
    """
    target = out.resolve() / guest.folder / "plugin.wasm"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sealhost-zig-") as cache:
        # zig caches beside the sources unless told otherwise
        environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}
        memory = (f"-Wl,--initial-memory={guest.memory_bytes}", f"-Wl,--max-memory={guest.memory_bytes}")
        headers = [f"-I{folder}" for folder in ("sdk/c", *(guest.folders if guest.shared else ()))]
        command = [sys.executable, "-m", "ziglang", "cc", *FLAGS, *memory, *headers, "-o", str(target), *guest.sources]
        subprocess.run(command, check=True, cwd=PLUGINS, env=environment)
    return target


def main() -> None:
    """Builds the reference guests that are named, or all of them."""
    parser = argparse.ArgumentParser(description="rebuild the reference guests")
    names = [guest.name for guest in GUESTS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(names)} (default: all)")
    parser.add_argument("--out", type=Path, default=PLUGINS, help="where the modules go (default: beside the sources)")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.names) - set(names)):
        parser.error(f"expected names among {', '.join(names)}, got {', '.join(unknown)}")
    for guest in GUESTS:
        if arguments.names and guest.name not in arguments.names:
            continue
        target = build(guest, arguments.out)
        sys.stdout.write(f"{guest.folder}: {target.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
