"""Keeps compiled steps on disk: $XDG_CACHE_HOME/sealhost/kernels/<key>.o, private to the user.

Rules (README clause 8)
* The key covers these sources, the compiler's versions and the processor's features. The flow of a step is one file,
  the products of an instruction set another, and so is what knows the KV cache's type, and SHA-256.
* The folder has mode 0700. One that belongs to someone else, or that others may write to, is refused: its code runs.
  So is a file in it, which is compiled anew. A folder that cannot be made costs each start a compilation.
* A file appears under its final name only when it is whole; the first line is its own SHA-256.
* Of several processes that miss the same files one compiles, and the others wait for it (turn.py). It has a process of
  its own compile beside it (beside.py).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import llvmlite.binding as llvm

from ..errors import KernelError
from ..kv_type import KvType
from .beside import compiling_beside
from .loader import Kernels, LoadedSha256
from .objects import Flow, Part
from .turn import turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from .isa import Isa

CACHE_VARIABLE = "SEALHOST_KERNEL_CACHE"
_OTHERS_MAY_WRITE = 0o022


def cache_directory() -> Path | None:
    """Where compiled code is kept; None: no absolute path says where.

    A relative one would have code run that lies in whatever folder a verb is called in.
    """
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    for variable, below in (("XDG_CACHE_HOME", ""), ("HOME", ".cache")):
        if (named := Path(os.environ.get(variable, ""))).is_absolute():
            return named / below / "sealhost" / "kernels"
    return None


def cache_key() -> str:
    """Hex digest of everything that the object code depends on."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for path in sorted([*here.glob("*.py"), *here.parent.glob("*.py")]):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    facts = (
        version("numba"),
        version("llvmlite"),
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
        *(os.environ.get(name, "") for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_OPT")),
    )
    digest.update("\0".join(facts).encode())
    return digest.hexdigest()[:32]


def load_kernels(isa: Isa, kv_type: KvType = KvType.FLOAT16, progress: Callable[[str], None] | None = None) -> Kernels:
    """Loads the compiled step, compiling first what the cache does not have.

    Args:
        isa: Version of the dot products.
        kv_type: Type of the KV cache.
        progress: Told in words before and after a compilation.

    Raises:
        KernelError: the cache folder is not safe to use.
    """
    tell = progress or (lambda _: None)
    step = _Step(_private(cache_directory(), tell), isa, kv_type, tell)
    found = step.read()
    if len(found) < len(Part):
        with turn(step.folder / f"{cache_key()}.lock", tell) if step.folder is not None else contextlib.nullcontext():
            found = step.read()  # anew: whoever had the turn before may have made them
            step.complete(found)
    flow = found[Part.FLOW]
    objects = (*flow.objects, *found[Part.PRODUCTS].objects, *found[Part.ATTENTION].objects)
    return Kernels(flow.symbol, objects, isa, kv_type, LoadedSha256(*found[Part.HASHING].objects))


def part_paths(folder: Path, isa: Isa, kv_type: KvType) -> dict[Part, Path]:
    """Where each part of a step is kept."""
    names = {Part.FLOW: "flow", Part.PRODUCTS: isa, Part.ATTENTION: f"kv-{kv_type}", Part.HASHING: "sha256"}
    key = cache_key()
    return {part: folder / f"{key}-{name}.o" for part, name in names.items()}


class _Step:
    """The parts of one step, from the cache or the compiler.

    Args:
        folder: Of the cache; None: nothing is found, and nothing kept.
        isa: Version of the dot products.
        kv_type: Type of the KV cache.
        tell: Told in words what is compiled.
    """

    def __init__(self, folder: Path | None, isa: Isa, kv_type: KvType, tell: Callable[[str], None]) -> None:
        self.folder, self._isa, self._kv_type, self._tell = folder, isa, kv_type, tell
        self._paths = part_paths(folder or Path(os.devnull), isa, kv_type)  # a file in a folder's place has none below

    def read(self) -> dict[Part, Flow]:
        """What the cache has."""
        return {part: flow for part, path in self._paths.items() if (flow := _read(path)) is not None}

    def complete(self, found: dict[Part, Flow]) -> None:
        """Adds what is missing, here and in the cache: the first part by this process, others beside it if they can."""
        missing = [part for part in Part if part not in found]
        if not missing:
            return
        self._tell(f"compiling the {self._isa} kernels for this processor (once, 10 to 20 seconds)")
        first, *others = missing
        with compiling_beside(others, self.folder, self._isa, self._kv_type) as beside:
            found[first] = self._compiled(first)
            self._tell(f"compiled {first.value}")
            beside.wait()
        for part in others:
            found[part] = _read(self._paths[part]) or self._compiled(part)
            self._tell(f"compiled {part.value}")
        self._tell(f"compiled the kernels into {self._paths[Part.FLOW].parent}")

    def _compiled(self, part: Part) -> Flow:
        """A part, by this process."""
        from . import compiler  # noqa: PLC0415 — numba takes half a second to import

        compiled = compiler.compile_part(part, self._isa, self._kv_type)
        write(self._paths[part], compiled)
        return compiled


def _private(folder: Path | None, tell: Callable[[str], None]) -> Path | None:
    """The folder if it is there, or could be made, and nobody else may write to it; None: it cannot be there."""
    if folder is None:
        return None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        facts = folder.lstat()
    except OSError as error:
        tell(f"compiled kernels cannot be kept in {folder}: {error.strerror}")
        return None
    if not folder.is_dir() or folder.is_symlink() or facts.st_uid != os.getuid() or facts.st_mode & _OTHERS_MAY_WRITE:
        raise KernelError(
            f"expected {folder} to be a folder that only you can write to, got owner {facts.st_uid} and mode "
            f"{facts.st_mode & 0o777:o}; remove it, or name another with {CACHE_VARIABLE}"
        )
    return folder


def _read(path: Path) -> Flow | None:
    try:
        with path.open("rb") as file:
            facts = os.fstat(file.fileno())
            if facts.st_uid != os.getuid() or facts.st_mode & _OTHERS_MAY_WRITE:
                return None  # whoever can exchange the folder above cannot make files of ours
            content = file.read()
    except OSError:
        return None
    checksum, _, rest = content.partition(b"\n")
    if hashlib.sha256(rest).hexdigest().encode() != checksum:
        return None
    head, _, body = rest.partition(b"\n")
    symbol, *sizes = head.decode().split(" ")
    objects, start = [], 0
    for size in map(int, sizes):
        objects.append(body[start : start + size])
        start += size
    return Flow(symbol, tuple(objects))


def write(path: Path, flow: Flow) -> None:
    """Best effort: a full disk costs the next start a compilation, nothing else."""
    head = " ".join([flow.symbol, *(str(len(code)) for code in flow.objects)])
    rest = head.encode() + b"\n" + b"".join(flow.objects)
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest)
        Path(file.name).replace(path)
    except OSError:
        return
