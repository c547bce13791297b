"""A signed bundle of the demo model, and a `sealhost serve` in a process of its own."""

from __future__ import annotations

import queue
import re
import signal
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from sealhost.host.cli.main import run

PATIENCE_S = 120.0
"""A first compilation of the kernels on a busy machine."""

PLAIN_HTTP = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Of no certificates: nothing here speaks TLS, and reading the system's takes each client 45 ms."""


@dataclass(frozen=True)
class SignedBundle:
    root: Path
    keys: Path
    private_key: Path


@pytest.fixture(scope="session")
def signed_smollm2(smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> SignedBundle:
    """The demo model, packed and signed by the publisher's verbs."""
    folder = tmp_path_factory.mktemp("publisher")
    made = SignedBundle(folder / "bundle", folder / "keys", folder / "acme.key")
    made.keys.mkdir(mode=0o755)
    assert run(["keygen", "acme", "--out", str(folder), "--no-passphrase"]) == 0
    (folder / "acme.pub").rename(made.keys / "acme.pub")
    pack = ["pack", str(smollm2_gguf), "--out", str(made.root), "--name", "smollm2", "--version", "1"]
    assert run([*pack, "--sampler", "standard"]) == 0  # tests bring further samplers as plugin bundles
    assert run(["sign", str(made.root), "--key", str(made.private_key)]) == 0
    return made


STUBBORN = {
    "trapper": "(unreachable)",
    "looper": "(loop $for_ever (br $for_ever)) (unreachable)",
    "liar": "(call $answer (i32.const 1) (i32.const 49152))",
    "always-a": "(call $answer (i32.const 1) (i32.const 81))",
}
"""What each sampler of the plugin bundle does in a step; 81 is the id of "a"."""


@pytest.fixture(scope="session")
def stubborn_plugins(signed_smollm2: SignedBundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plugin bundle by another author, whose key the operator trusts, too."""
    import wasmtime

    from sealhost.signing.declaration import PluginSource
    from sealhost.signing.keys import parse_private_key, write_key_pair
    from sealhost.signing.manifest import PluginLimits
    from sealhost.signing.pack import pack
    from sealhost.signing.sign import sign_bundle

    folder = tmp_path_factory.mktemp("author")
    write_key_pair(folder, "author", passphrase=None)
    text = (Path(__file__).parent / "guests" / "stubborn.wat").read_text()
    limits = PluginLimits(memory_bytes=1 << 18, init_ms=500, load_ms=0, step_ms=50, encode_ms=0)
    plugins = [
        PluginSource(
            bytes(wasmtime.wat2wasm(text.replace("STEP)", step + ")"))), name, "sampler", 1, "full", limits, None
        )
        for name, step in STUBBORN.items()
    ]
    pack(folder / "plugins", name="stubborn", version=1, model=None, plugins=plugins)
    sign_bundle(folder / "plugins", parse_private_key((folder / "author.key").read_bytes(), None, "author.key"))
    (folder / "author.pub").rename(signed_smollm2.keys / "author.pub")
    return folder / "plugins"


@dataclass
class Served:
    """A running `sealhost serve`."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    url: str = ""

    @property
    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=PATIENCE_S, trust_env=False, verify=PLAIN_HTTP)

    def stats(self) -> dict[str, int]:
        with self.client as client:
            (stats,) = client.get("/readyz").json()["models"].values()
        return stats

    def wait_until_empty(self) -> dict[str, int]:
        """The engine's counters once no request holds a block."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            stats = self.stats()
            if stats["running"] == stats["waiting"] == 0 and stats["kv_free_blocks"] == stats["kv_total_blocks"]:
                return stats
            threading.Event().wait(0.02)
        raise AssertionError(f"expected an empty engine, got {stats}")

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)


def watched(process: subprocess.Popen[str], until: str) -> Served:
    """Reads a server's notes until one begins so, or it has ended."""
    served = Served(process)
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:
                served.lines.append(line)
                lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    while (line := lines.get(timeout=PATIENCE_S)) is not None:
        if found := re.search(r"listening on (http://\S+?);", line):
            served.url = found[1]
        if line.startswith(until):
            break
    return served


@pytest.fixture(scope="session")
def start_serve(start_sealhost: Callable[[Sequence[str]], subprocess.Popen[str]]) -> Iterator[Callable[..., Served]]:
    running: list[Served] = []

    def start(arguments: Sequence[str], until: str = "ready: ") -> Served:
        running.append(watched(start_sealhost(["serve", "--port", "0", *arguments]), until))
        return running[-1]

    yield start
    for one in running:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait(PATIENCE_S)


@pytest.fixture(scope="session")
def served_smollm2(signed_smollm2: SignedBundle, stubborn_plugins: Path, start_serve: Callable[..., Served]) -> Served:
    """One server for all tests that only ask it."""
    served = start_serve(
        [
            str(signed_smollm2.root),
            "--keys",
            str(signed_smollm2.keys),
            "--plugin",
            str(stubborn_plugins),
            "--context",
            "1024",
            "--kv-mib",
            "96",
        ]
    )
    assert served.process.poll() is None, served.lines
    return served
