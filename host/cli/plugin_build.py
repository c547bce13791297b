"""Compiles an author's folder with the compiler of its language.

    module = build_plugin(Path("my-sampler"))     # my-sampler/plugin.wasm

* The language is that of the one source `plugin.*` (in C: of all `*.c`).
* The module's memory is what `plugin.toml` asks for, minimum and maximum alike (clause 1.2 of plugins/README.md).
* The bytes depend on sources, declaration and compiler alone. The old module stays until the new one is there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from ...plugins.build import FLAGS, STACK_BYTES
from ...signing import Code, SealError
from ..errors import UsageError
from .plugin_folder import MODULE, WASM_PAGE, declared_memory
from .plugin_new import sdk

if TYPE_CHECKING:
    from collections.abc import Callable

ZIGLANG = "0.17.1"
"""The release that the templates and the reference guests are written for; it compiles C and Zig."""

ZIG = (sys.executable, "-m", "ziglang")
_FEATURES = next(flag for flag in FLAGS if flag.startswith("-mcpu="))
_C_FLAGS = tuple(flag for flag in FLAGS if flag != "-Werror")
"""What the reference guests are held to, but an author's warnings stay warnings."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a compiler is asked for.

    Attributes:
        folder: The author's; the compiler runs in it.
        out: Where the module goes.
        memory: Bytes of the module's memory.
    """

    folder: Path
    out: Path
    memory: int


def _c(job: Job) -> list[str]:
    sources = sorted(path.name for path in job.folder.glob("*.c"))
    memory = (f"-Wl,--initial-memory={job.memory}", f"-Wl,--max-memory={job.memory}")
    return [*ZIG, "cc", *_C_FLAGS, *memory, f"-I{sdk() / 'c'}", "-o", str(job.out), *sources]


def _zig(job: Job) -> list[str]:
    memory = (f"--initial-memory={job.memory}", f"--max-memory={job.memory}", "--stack", str(STACK_BYTES))
    settings = ("-target", "wasm32-freestanding", _FEATURES, "-O", "ReleaseFast", "-fstrip", "-fno-entry", "-rdynamic")
    modules = ("--dep", "sealhost", "-Mroot=plugin.zig", f"-Msealhost={sdk() / 'zig' / 'sealhost.zig'}")
    return [*ZIG, "build-exe", *settings, *memory, f"-femit-bin={job.out}", *modules]


def _rust(job: Job) -> list[str]:
    linked = (f"--initial-memory={job.memory}", f"--max-memory={job.memory}", f"-zstack-size={STACK_BYTES}")
    arguments = [f"-Clink-arg={argument}" for argument in (*linked, "--stack-first", "--strip-all")]
    settings = ("--edition", "2021", "--target", RUST_TARGET, "--crate-type", "cdylib", "--crate-name", "plugin", "-O")
    paths = [f"--remap-path-prefix={place}=." for place in (job.folder.resolve(), sdk() / "rust")]
    code = ("-Cpanic=abort", "-Ccodegen-units=1", "-Clinker=rust-lld", f"-Ctarget-feature={RUST_FEATURES}")
    return [_rustc() or "rustc", *settings, *code, *arguments, *paths, "-o", str(job.out), "plugin.rs"]


RUST_TARGET = "wasm32-unknown-unknown"
RUST_FEATURES = "+simd128,+bulk-memory,+nontrapping-fptoint"
"""Of what the sandbox admits, those that rustc 1.63 has a name for."""


def _rustc() -> str | None:
    """A compiler that has the target's core library: the one on the path, or the distribution's."""
    for found in (shutil.which("rustc"), "/usr/bin/rustc"):
        if found is None or not os.access(found, os.X_OK):
            continue
        asked = [found, "--print", "target-libdir", "--target", RUST_TARGET]
        told = subprocess.run(asked, capture_output=True, text=True, check=False)
        if told.returncode == 0 and any(Path(told.stdout.strip()).glob("libcore-*.rlib")):
            return found
    return None


def _require_rust() -> None:
    if _rustc() is None:
        problem = f"expected a rustc with the target {RUST_TARGET}, got none"
        remedy = f"run: apt-get install rustc libstd-rust-dev-wasm32 lld; or: rustup target add {RUST_TARGET}"
        raise UsageError("plugin build", problem, remedy)


def _assemblyscript(job: Job) -> list[str]:
    (job.out.parent / "sealhost").symlink_to(sdk() / "assemblyscript")  # what `import "sealhost/…"` stands for
    pages = str(job.memory // WASM_PAGE)
    memory = ("--initialMemory", pages, "--maximumMemory", pages)
    settings = ("-O3", "--runtime", "stub", "--noAssert", "--enable", "simd", "--path", str(job.out.parent))
    trap = ("--use", "abort=~lib/sealhost/sealhost/trap")  # the runtime's only import becomes a trap
    return [shutil.which("asc") or "asc", "plugin.ts", *settings, *memory, *trap, "-o", str(job.out)]


ASSEMBLYSCRIPT = "0.28.20"
"""The release that the template was written for; others may do."""


def _require_assemblyscript() -> None:
    if shutil.which("asc") is None:
        problem = "expected AssemblyScript's compiler asc on the path, got none"
        raise UsageError("plugin build", problem, f"run: npm install --global assemblyscript@{ASSEMBLYSCRIPT}")


def _require_ziglang() -> None:
    try:
        found = version("ziglang")
    except PackageNotFoundError:
        found = "none"
    if found != ZIGLANG:
        problem = f"expected the compiler ziglang {ZIGLANG}, got {found}"
        raise UsageError("plugin build", problem, f"run: {sys.executable} -m pip install ziglang=={ZIGLANG}")


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A language's compiler.

    Attributes:
        source: The file that says that a folder is of this language.
        require: Refuses when the compiler is not there.
        command: The command line of a job.
    """

    source: str
    require: Callable[[], None]
    command: Callable[[Job], list[str]]


TOOLCHAINS = {
    "c": Toolchain("plugin.c", _require_ziglang, _c),
    "zig": Toolchain("plugin.zig", _require_ziglang, _zig),
    "rust": Toolchain("plugin.rs", _require_rust, _rust),
    "assemblyscript": Toolchain("plugin.ts", _require_assemblyscript, _assemblyscript),
}
"""By the language's name, as `plugin new --lang` takes it."""


def build_plugin(folder: Path) -> Path:
    """Compiles a folder; the compiler's own words go to standard error.

    Raises:
        SealhostError: E_USAGE (no compiler, no source or several), E_PLUGIN (it does not compile), E_IO.
    """
    toolchain = _toolchain_of(folder)
    memory = declared_memory(folder)
    toolchain.require()
    try:
        with tempfile.TemporaryDirectory(prefix=".build-", dir=folder) as scratch:
            return _compile(toolchain, folder, Path(scratch).resolve(), memory)
    except OSError as error:
        raise SealError(Code.IO, str(folder), f"cannot build: {error.strerror}", "check the path") from error


def _compile(toolchain: Toolchain, folder: Path, scratch: Path, memory: int) -> Path:
    job = Job(folder, scratch / MODULE, memory)
    # zig caches beside the sources unless told otherwise; Rust's templates include the SDK from where this says
    own = {"ZIG_LOCAL_CACHE_DIR": str(scratch / "cache"), "SEALHOST_SDK": str(sdk() / "rust")}
    environment = {**os.environ, **own}
    done = subprocess.run(toolchain.command(job), cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=False)
    if done.returncode != 0 or not job.out.is_file():
        problem = f"expected sources that compile, got exit code {done.returncode} from the compiler"
        raise SealError(
            Code.PLUGIN,
            str(folder),
            problem,
            "see what the compiler says above, and plugins/README.md, 'When it does not work'",
        )
    return job.out.replace(folder / MODULE)


def _toolchain_of(folder: Path) -> Toolchain:
    if not folder.is_dir():
        raise SealError(Code.IO, str(folder), "expected a plugin's folder, got none of that name", "check the path")
    found = [toolchain for toolchain in TOOLCHAINS.values() if (folder / toolchain.source).is_file()]
    if len(found) != 1:
        known = ", ".join(toolchain.source for toolchain in TOOLCHAINS.values())
        problem = f"expected one source among {known}, got {len(found)}"
        raise UsageError(str(folder), problem, "make a folder with: sealhost plugin new NAME")
    return found[0]
