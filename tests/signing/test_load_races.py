"""Files that change under the verifier: at every single point, either a refusal or exactly the signed bytes.

Each test strikes before the n-th system call that the verifier makes on the bundle, for every n, so no interleaving of
one change with a load is left to chance. A process that dies of it (SIGBUS) would take the whole suite along.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from consuming import load

from sealhost.signing import Code, DirectoryTrust, SealError, VerifiedBundle, verify

ALLOWED = {Code.DIGEST, Code.SIZE, Code.FILETYPE, Code.MISSING, Code.UNLISTED, Code.SIG, Code.NOSIG}
SOME_BYTES = 400_000


def overwrite(path: Path) -> None:
    """In place: same file, same size, same modification time."""
    status = path.stat()
    with path.open("r+b") as file:
        for offset in (0, status.st_size // 2, status.st_size - 1):
            file.seek(offset)
            octet = file.read(1)
            file.seek(offset)
            file.write(bytes([octet[0] ^ 1]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def replace(path: Path) -> None:
    """Another file of the same size is renamed over it."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    other = path.parent.parent.parent / "other"
    other.write_bytes(data)
    other.rename(path)


def unlink(path: Path) -> None:
    path.unlink()


def link(path: Path) -> None:
    aside = path.parent.parent.parent / "aside"
    path.rename(aside)
    path.symlink_to(aside)


class Striker:
    """Counts the verifier's system calls, and does something before one of them."""

    def __init__(self, monkeypatch) -> None:
        self.count = 0
        self.at = -1
        self.strike: Callable[[], None] = lambda: None
        # one thread, so that the n-th call is the same one each time
        monkeypatch.setattr("sealhost.signing.weights.worker_count", lambda _: 1)
        monkeypatch.setattr("sealhost.signing.chunks.worker_count", lambda _: 1)  # nothing before it is asked for
        self._preadv = os.preadv
        for name in ("open", "read", "fstat", "scandir", "stat"):
            monkeypatch.setattr(f"sealhost.signing.source.os.{name}", self._counted(getattr(os, name)))
        monkeypatch.setattr("sealhost.signing.chunks.os.preadv", self._counted(self._read_some))
        self._busy = False

    def _read_some(self, descriptor: int, buffers: list[memoryview], offset: int) -> int:
        """Less than was asked for, as the system may answer, so that a chunk is read at many moments."""
        return self._preadv(descriptor, [buffers[0][:SOME_BYTES]], offset)

    def _counted(self, real: Callable) -> Callable:
        def call(*arguments: object, **options: object):
            if not self._busy:
                self._busy = True  # what a strike itself does is not counted
                if self.count == self.at:
                    self.strike()
                self.count += 1
                self._busy = False
            return real(*arguments, **options)

        return call

    def run(self, at: int, strike: Callable[[], None], act: Callable[[], Any]) -> Any:
        self.count, self.at, self.strike = 0, at, strike
        try:
            return act()
        except SealError as error:
            if error.code not in ALLOWED:
                raise
            return None


def handed_on(bundle: VerifiedBundle, weights: bytes | None = None) -> tuple[object, ...]:
    """Everything that a loader gets."""
    plugins = tuple(plugin.wasm for plugin in bundle.plugins)
    weights = weights or bytes(bundle.weights.view(0, bundle.weights.size))
    return bundle.manifest, bundle.digest, weights, bundle.template, plugins


@pytest.mark.parametrize(
    "change", [overwrite, truncate, grow, replace, unlink, link], ids=lambda change: change.__name__
)
@pytest.mark.parametrize("path", ["model.gguf", "model.gguf.chunks", "plugins/bpe.wasm", "manifest.json", "bundle.sig"])
def test_a_change_at_any_point_of_a_load_never_gets_through(seal_lab, monkeypatch, change, path) -> None:
    trust = DirectoryTrust(seal_lab.keys)
    signed = handed_on(verify(seal_lab.root, trust))
    target, before = seal_lab.root / path, (seal_lab.root / path).read_bytes()
    striker = Striker(monkeypatch)
    striker.run(-1, lambda: None, lambda: verify(seal_lab.root, trust))
    calls, accepted = striker.count, []
    assert calls > 50
    # every call of the small files' part, every fourth within the weights
    points = (
        [*range(calls - 20), *range(calls - 20, calls, 4), calls - 1] if path == "model.gguf" else range(0, calls, 3)
    )
    for at in points:
        bundle = striker.run(at, lambda: change(target), lambda: verify(seal_lab.root, trust))
        if bundle is not None:
            assert handed_on(bundle) == signed
            accepted.append(at)
        target.unlink(missing_ok=True)
        target.write_bytes(before)
    assert 0 not in accepted
    assert set(accepted) != set(points)


@pytest.mark.parametrize("reading", ["ahead", "lazy"])
@pytest.mark.parametrize(
    "change", [overwrite, truncate, grow, replace, unlink, link], ids=lambda change: change.__name__
)
def test_a_change_at_any_point_of_a_load_that_verifies_meanwhile_never_gets_through(
    seal_lab, monkeypatch, change, reading
) -> None:
    trust = DirectoryTrust(seal_lab.keys)
    signed = handed_on(verify(seal_lab.root, trust))
    target, before = seal_lab.root / "model.gguf", (seal_lab.root / "model.gguf").read_bytes()
    striker = Striker(monkeypatch)

    def act() -> tuple[VerifiedBundle, bytes]:
        return load(seal_lab.root, trust, reading=reading)

    striker.run(-1, lambda: None, act)
    calls, accepted = striker.count, []
    for at in range(calls):
        if loaded := striker.run(at, lambda: change(target), act):
            assert handed_on(*loaded) == signed
            accepted.append(at)
        target.unlink(missing_ok=True)
        target.write_bytes(before)
    assert 0 not in accepted
    assert len(accepted) < calls


def test_a_bundle_that_is_renamed_away_during_the_load_is_read_to_its_end(seal_lab, monkeypatch) -> None:
    """The folder is open, so what was verified is what was there, whatever now has its name."""
    trust = DirectoryTrust(seal_lab.keys)
    signed = handed_on(verify(seal_lab.root, trust))
    away = seal_lab.root.parent / "away"

    def swap() -> None:
        seal_lab.root.rename(away)
        seal_lab.root.mkdir()
        (seal_lab.root / "model.gguf").write_bytes(b"evil")

    striker = Striker(monkeypatch)
    for at in (2, 20, 45):
        bundle = striker.run(at, swap, lambda: verify(seal_lab.root, trust))
        assert bundle is not None
        assert handed_on(bundle) == signed
        (seal_lab.root / "model.gguf").unlink()
        seal_lab.root.rmdir()
        away.rename(seal_lab.root)


CRASH = """
import os, sys
from pathlib import Path
from types import SimpleNamespace
import sealhost.host.app, sealhost.host.cli.serve as serve
from sealhost.signing.state import State
from sealhost.signing import DirectoryTrust
root, keys, state, point = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]

def die_after(name, real):
    def call(*a, **k):
        result = real(*a, **k)
        if name == point:
            os._exit(77)
        return result
    return call

class PretendHost:
    def __init__(self, *a, **k): pass
    def close(self): pass
    def open(self, bundle, **k):
        served = SimpleNamespace(name=bundle.manifest.name, digest=bundle.digest)
        return SimpleNamespace(bundle=bundle, served=served, verify_s=0.0, load_s=0.0, open_s=0.0, first_token_s=0.0)

sealhost.host.app.Host = PretendHost
PretendHost.open = die_after("load", PretendHost.open)
serve.verify = die_after("verify", serve.verify)
State.check = die_after("check", State.check)
State.record = die_after("record", State.record)
publish = die_after("publish", lambda served: print("published", flush=True))
service = SimpleNamespace(registry=SimpleNamespace(publish=publish))
judges = serve.Judges(DirectoryTrust(keys), State(state))
loading = serve.Loading([root], [], judges, None, service, SimpleNamespace(should_exit=False), "here")
loading._load()
"""


@pytest.mark.parametrize(
    ("point", "marked", "published"),
    [
        ("verify", False, False),
        ("check", False, False),
        ("load", False, False),
        ("record", True, False),
        ("publish", True, True),
        ("nowhere", True, True),
    ],
)
def test_a_crash_between_verify_mark_and_use_never_uses_what_is_not_marked(
    seal_lab, tmp_path, point, marked, published
) -> None:
    from sealhost.signing.state import State

    arguments = [str(seal_lab.root), str(seal_lab.keys), str(tmp_path / "state"), point]
    ended = subprocess.run([sys.executable, "-c", CRASH, *arguments], check=False, capture_output=True, text=True)
    assert ended.returncode == (0 if point == "nowhere" else 77), ended.stderr
    state = State(tmp_path / "state")
    assert ("lab" in state.marks().bundles) is marked
    assert ("published" in ended.stdout) is published
    state.record([seal_lab.verify()], DirectoryTrust(seal_lab.keys))  # the next start goes on
