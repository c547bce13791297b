"""A host of twins behind a real data plane and a real admin plane, with real signed bundles."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import httpx
import pytest
import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sealhost.host.app import Opened
from sealhost.host.deployment import Deployment
from sealhost.host.folders import AllowedFolders
from sealhost.host.judges import Judges
from sealhost.host.serving.admin import Admin
from sealhost.host.serving.app import admin_plane
from sealhost.host.serving.metrics import Metrics
from sealhost.host.serving.operations import Operations, untold
from sealhost.host.serving.served import Registry
from sealhost.host.serving.server import Server, bind, in_background
from sealhost.host.serving.service import Service
from sealhost.host.serving.workers import Workers
from sealhost.sandbox import PluginStats
from sealhost.signing import DirectoryTrust, verify
from sealhost.signing.keys import public_key_of
from sealhost.signing.pack import pack
from sealhost.signing.sign import sign_bundle
from sealhost.signing.state import State

PATIENCE_S = 120.0
PLAIN_HTTP = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Of no certificates: nothing here speaks TLS, and reading the system's takes each client 45 ms."""
SIGNING_TESTS = Path(__file__).resolve().parents[3] / "signing"


def signing_lab() -> ModuleType:
    """tests/signing/conftest.py, whose laboratory the attacks are written for."""
    spec = importlib.util.spec_from_file_location("signing_lab", SIGNING_TESTS / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules.setdefault("signing_lab", importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _quiet_log() -> Iterator[None]:
    """The host's log would stand among what a verb prints."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def lab_module() -> ModuleType:
    return signing_lab()


@dataclass
class TwinGuest:
    """A plugin that counts what it is told."""

    name: str
    sha256: str = "cd" * 32
    live: int = 0

    def stats(self) -> PluginStats:
        return PluginStats(7, self.live, 1, 40, {"trap": 2}, 0, 0.0, 12.0, 80.0)


@dataclass
class TwinHost:
    """Opens a twin that answers "version N" for any verified bundle; nothing is parsed."""

    make_plane: Callable[..., Any]
    planes: dict[int, Any] = field(default_factory=dict)
    open_now: list[int] = field(default_factory=list)
    error: Exception | None = None
    gate: threading.Event | None = None
    loading: threading.Event = field(default_factory=threading.Event)

    def open(self, bundle: Any, *, plugins: Any = (), progress: Any = None) -> Opened:  # noqa: ARG002 — as the protocol has it
        version = bundle.manifest.version
        with contextlib.closing(bundle.weights):
            bundle.weights.finish()  # as the loader does: only then does a load count
        if progress is not None:
            progress(1, 2)
        self.loading.set()
        if self.gate is not None:
            assert self.gate.wait(PATIENCE_S)
        if self.error is not None:
            raise self.error
        plane = self.make_plane(f"version {version}", name=bundle.manifest.name, digest=bundle.digest)
        self.planes[version] = plane
        self.open_now.append(version)
        resources = ExitStack()
        resources.callback(self.open_now.remove, version)
        guests = tuple((one.role, TwinGuest(one.name)) for one in bundle.plugins)
        loaded = SimpleNamespace(kv_type="int8", report=SimpleNamespace(memory_bytes={"kv": 4096}))
        return Opened(bundle, loaded, plane.model, guests, 0.5, 0.25, resources)

    def close(self) -> None:
        pass


@dataclass
class Desk:
    """A running host of twins and its operator."""

    folder: Path
    keys: Path
    private_key: Ed25519PrivateKey
    lab: ModuleType
    host: TwinHost
    deployment: Deployment
    operations: Operations
    service: Service
    state: State
    data: httpx.Client = field(init=False)
    admin: httpx.Client = field(init=False)
    admin_server: Server = field(init=False)
    admin_url: str = ""

    def bundle(self, version: int, name: str = "lab", key: Ed25519PrivateKey | None = None, text: bytes = b"w") -> Path:
        """A signed bundle with small weights, in a folder of its own."""
        weights = self.folder / f"{name}-{version}-{len(list(self.folder.iterdir()))}.gguf"
        weights.write_bytes(b"GGUF" + text * 2000)
        root = weights.with_suffix("")
        plugins = (self.lab.seal_plugin("bpe", "tokenizer"), self.lab.seal_plugin("standard", "sampler"))
        pack(root, name=name, version=version, model=weights, plugins=plugins)
        sign_bundle(root, key or self.private_key)
        return root

    def plugins(self, version: int, key: Ed25519PrivateKey) -> Path:
        """A signed plugin bundle with a sampler called "extra"."""
        root = self.folder / f"extra-{version}"
        pack(root, name="extra", version=version, model=None, plugins=(self.lab.seal_plugin("extra", "sampler"),))
        sign_bundle(root, key)
        return root

    def ask(self, model: str = "lab") -> tuple[str, str]:
        """What a client is told, and by which bundle."""
        answer = self.data.post("/v1/completions", json={"model": model, "prompt": "who?"})
        assert answer.status_code == 200, answer.text
        return answer.json()["choices"][0]["text"], answer.json()["system_fingerprint"]

    def swap(self, root: Path, **more: Any) -> httpx.Response:
        return self.admin.post("/admin/swap", json={"path": str(root)} | more)

    def rollback(self, **body: Any) -> httpx.Response:
        return self.admin.post("/admin/rollback", json={"name": "lab"} | body)

    def models(self) -> dict[str, Any]:
        return self.admin.get("/admin/models").json()

    def scrape(self) -> dict[str, float]:
        """Every sample by its name and labels as they are written."""
        lines = self.admin.get("/metrics").text.splitlines()
        return {name: float(value) for name, value in (x.rsplit(" ", 1) for x in lines if not x.startswith("#"))}

    def mark(self, name: str = "lab") -> int:
        return self.state.marks().bundles[name].version


@pytest.fixture
def make_desk(
    tmp_path: Path, make_plane: Callable[..., Any], serve_plane: Callable[..., Any], lab_module: ModuleType
) -> Iterator[Callable[..., Desk]]:
    """Builds a host that serves version 3 of "lab"; keywords are the deployment's and the admin plane's."""
    with ExitStack() as stack:

        def make(*, admin_keys: tuple[str, ...] = (), start: bool = True, first: int = 3, **options: Any) -> Desk:
            key = Ed25519PrivateKey.from_private_bytes(lab_module.PUBLISHER_SEED)
            folder, keys = tmp_path / "models", tmp_path / "keys"
            folder.mkdir()
            keys.mkdir()
            (keys / "lab.pub").write_bytes(public_key_of(key).to_pem())
            state = State(tmp_path / "state")
            service, operations, host = Service(Registry(), Workers(threads=2)), Operations(), TwinHost(make_plane)
            stack.callback(service.workers.close)
            judges = Judges(DirectoryTrust(keys), state, reread=lambda: DirectoryTrust(desk.keys))
            deployment = Deployment(
                judges,
                service.registry,
                lambda: host,
                verify=partial(verify, reading="ahead"),
                folders=AllowedFolders([tmp_path / "models"]),
                **options,
            )
            stack.callback(deployment.close)
            desk = Desk(folder, keys, key, lab_module, host, deployment, operations, service, state)
            if start:
                deployment.start([desk.bundle(first)], [], untold, lambda _: None)
            live = serve_plane(SimpleNamespace(service=service, engine=SimpleNamespace(resume=lambda: None)))
            desk.data = live.client
            listener = stack.enter_context(bind("127.0.0.1", 0))
            app = admin_plane(
                Admin(service, deployment, operations, Metrics(service, deployment, operations)), keys=admin_keys
            )
            desk.admin_server = Server(app, None, grace=0)
            stack.enter_context(in_background(desk.admin_server, listener))
            desk.admin_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            headers = {"authorization": f"Bearer {admin_keys[0]}"} if admin_keys else {}
            desk.admin = stack.enter_context(
                httpx.Client(
                    base_url=desk.admin_url, timeout=PATIENCE_S, trust_env=False, verify=PLAIN_HTTP, headers=headers
                )
            )
            return desk

        yield make
        shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.fixture
def desk(make_desk: Callable[..., Desk]) -> Desk:
    return make_desk()


def refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code), answer.text
    assert set(error) >= {"message", "type", "param", "code"}
    return error


@pytest.fixture(scope="session")
def refused_with() -> Callable[..., dict[str, Any]]:
    return refused


@pytest.fixture(scope="session")
def until() -> Callable[[Callable[[], object]], None]:
    """Waits until something holds, and fails after a generous time."""

    def wait(holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline
            threading.Event().wait(0.005)

    return wait
