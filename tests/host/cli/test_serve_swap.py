"""Swapping a real model under a real server: `serve --admin-port`, and the verbs that steer it."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from sealhost.host.cli.main import run

pytestmark = pytest.mark.model

PATIENCE_S = 120.0
PLAIN_HTTP = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # of no certificates, as in conftest.py
ASK = {"model": "smollm2", "prompt": "The capital of France is", "temperature": 0, "max_tokens": 4}


class Fleet(NamedTuple):
    """A server, its admin plane, and a folder of bundles that may be swapped in."""

    served: Any
    admin: str
    folder: Path
    pack: Callable[..., Path]
    state: Path

    def verb(self, *arguments: str) -> int:
        return run([arguments[0], *arguments[1:], "--admin", self.admin])

    def answer(self) -> tuple[str, str]:
        with self.served.client as client:
            told = client.post("/v1/completions", json=ASK).json()
        return told["choices"][0]["text"], told["system_fingerprint"]

    def told(self, path: str) -> httpx.Response:
        return httpx.get(self.admin + path, trust_env=False, verify=PLAIN_HTTP)

    def model(self) -> dict[str, Any]:
        return self.told("/admin/models").json()["models"][0]

    def wait_for_gauges(self, names: list[str], holds: Callable[..., bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            lines = self.told("/metrics").text.splitlines()
            told = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
            if holds(*(float(told[name]) for name in names)):
                return
            threading.Event().wait(0.02)
        raise AssertionError({name: told[name] for name in names})

    def wait_for_operation(self, target: Path) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            told = self.told("/admin/operation").json()
            if str(target) in {one["target"] for one in (told["running"], told["last"]) if one}:
                return
            threading.Event().wait(0.02)
        raise AssertionError(told)

    def wait_for_line(self, text: str) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if found := [line for line in self.served.lines if text in line]:
                return found[-1]
            threading.Event().wait(0.02)
        raise AssertionError(f"expected a line with {text}, got {self.served.lines}")


@pytest.fixture(scope="module")
def fleet(
    signed_smollm2: Any,
    smollm2_gguf: Path,
    start_serve: Callable[..., Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    keys, state, models = folder / "keys", folder / "state", folder / "models"
    models.mkdir()
    shutil.copytree(signed_smollm2.keys, keys)

    def pack(version: int, *plugins: str) -> Path:
        root = models / f"smollm2-{version}"
        options = ["--out", str(root), "--name", "smollm2", "--version", str(version), *plugins]
        assert run(["pack", str(smollm2_gguf), *options]) == 0
        assert run(["sign", str(root), "--key", str(signed_smollm2.private_key)]) == 0
        return root

    arguments = ["--keys", str(keys), "--state", str(state), "--admin-port", "0", "--context", "1024", "--kv-mib", "48"]
    served = start_serve([str(pack(1)), *arguments])
    assert served.process.poll() is None, served.lines
    found = next(match for line in served.lines if (match := re.match(r"admin plane on (http://\S+)", line)))
    yield Fleet(served, found[1], models, pack, state)
    served.process.kill()


def test_a_running_stream_ends_on_the_old_version_and_the_next_answer_comes_from_the_new(fleet: Fleet) -> None:
    text, old = fleet.answer()
    assert text.startswith(" Paris")
    second = fleet.pack(2)
    body = {**ASK, "prompt": "Once upon a time", "max_tokens": 300, "stream": True, "ignore_eos": True}
    with fleet.served.client as client, client.stream("POST", "/v1/completions", json=body) as stream:
        lines = stream.iter_lines()
        chunks = [json.loads(next(line for line in lines if line).removeprefix("data: "))]
        assert fleet.verb("swap", str(second)) == 0
        chunks += [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    assert {chunk["system_fingerprint"] for chunk in chunks} == {old}
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"
    assert len(chunks) >= 300
    text, new = fleet.answer()
    assert text.startswith(" Paris")
    assert (new == old, fleet.model()["version"]) == (False, 2)


def test_a_rollback_is_at_once_and_leaves_a_line(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    before = fleet.model()
    directory = Path(before["previous"]["path"])
    directory.rename(directory.with_suffix(".away"))  # it is loaded: nothing is read again
    assert fleet.verb("rollback", "smollm2") == 0
    directory.with_suffix(".away").rename(directory)
    assert fleet.answer()[1] == "fp_" + before["previous"]["digest"][:12]
    last = json.loads((fleet.state / "log.jsonl").read_text().splitlines()[-1])
    assert (last["action"], last["name"], last["version"]) == ("accept older", "smollm2", before["previous"]["version"])
    assert fleet.verb("rollback", "smollm2") == 0
    assert fleet.model()["digest"] == before["digest"]
    assert "smollm2: version" in capsys.readouterr().out


def test_what_is_refused_at_any_stage_leaves_the_old_one_answering(
    fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = fleet.answer()
    tampered = fleet.folder / "tampered"
    shutil.copytree(fleet.model()["path"], tampered)
    with (tampered / "model.gguf").open("r+b") as file:
        file.seek(50_000_000)
        file.write(b"\xff\x00\xff\x00")
    foreign = fleet.pack(9, "--sampler", str(importing_sampler(tmp_path)))
    for root, code, said in ((tampered, 1, "E_DIGEST {}: model.gguf"), (foreign, 1, "E_PLUGIN {}: plugin foreign")):
        capsys.readouterr()
        assert fleet.verb("swap", str(root)) == code
        assert capsys.readouterr().err.startswith(said.format(root))
        assert fleet.answer() == before
    marks = json.loads((fleet.state / "state.json").read_bytes().partition(b"\n")[2])
    assert marks["bundles"]["smollm2"]["version"] == 2
    assert fleet.served.process.poll() is None


def importing_sampler(folder: Path) -> Path:
    """A module that a trusted publisher signs, and that asks for a file descriptor."""
    import wasmtime

    text = '(module (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32))))'
    (folder / "foreign.wasm").write_bytes(bytes(wasmtime.wat2wasm(text)))
    limits = "[limits]\nmemory_bytes = 65536\ninit_ms = 100\nstep_ms = 100\n"
    (folder / "foreign.toml").write_text(
        f'name = "foreign"\nrole = "sampler"\nabi = 1\ntier = "full"\ndescription = "x"\n{limits}'
    )
    return folder / "foreign.wasm"


def test_gauges_are_zero_after_twenty_clients_have_left_at_once(fleet: Fleet) -> None:
    names = [
        f'sealhost_{name}{{model="smollm2"}}' for name in ("requests_running", "requests_waiting", "kv_blocks_used")
    ]
    body = json.dumps({**ASK, "prompt": "Once upon a time", "max_tokens": 900, "stream": True, "ignore_eos": True})
    head = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    address = ("127.0.0.1", int(fleet.served.url.rpartition(":")[2]))
    clients = [socket.create_connection(address) for _ in range(20)]
    for client in clients:
        client.sendall((head + body).encode())
    fleet.wait_for_gauges(names, lambda running, waiting, used: running + waiting == 20 and used > 0)
    for client in clients:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, all within a tick
        client.close()
    fleet.wait_for_gauges(names, lambda *gauges: gauges == (0, 0, 0))
    assert fleet.answer()[0].startswith(" Paris")


def test_a_hang_up_reads_the_keys_again(fleet: Fleet) -> None:
    keys = fleet.state.parent / "keys"
    (keys / "trust.toml").write_text("nonsense")
    fleet.served.process.send_signal(signal.SIGHUP)
    assert "E_PARSE" in fleet.wait_for_line("operation='reload'")
    (keys / "trust.toml").unlink()
    fleet.served.process.send_signal(signal.SIGHUP)
    fleet.wait_for_line("event='keys reloaded'")
    assert fleet.answer()[0].startswith(" Paris")


def test_a_drained_host_ends_in_order(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    assert fleet.verb("drain") == 0
    assert capsys.readouterr().out == "draining: no requests running\n"
    with fleet.served.client as client:
        assert client.post("/v1/completions", json=ASK).json()["error"]["code"] == "draining"
    root = fleet.pack(3)
    swapping = threading.Thread(target=fleet.verb, args=("swap", str(root)))
    swapping.start()  # a swap that is under way holds up no end, and leaves marks that hold
    fleet.wait_for_operation(root)
    assert fleet.served.terminate() == 0
    assert not any("level=ERROR" in line for line in fleet.served.lines)
    swapping.join(PATIENCE_S)
    marks = json.loads((fleet.state / "state.json").read_bytes().partition(b"\n")[2])
    assert marks["bundles"]["smollm2"]["version"] in {2, 3}
    assert not any("Traceback" in line for line in fleet.served.lines), "".join(fleet.served.lines)
