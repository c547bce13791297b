"""Signing and verifying take the same memory for any size of weights."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from sealhost.signing.keys import parse_private_key, read_private_key_file, write_key_pair
from sealhost.signing.sign import sign_bundle

WEIGHTS_BYTES = 416 << 20
ADDRESS_SPACE_BYTES = 400 << 20

PROGRAM = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))
from sealhost.signing import DirectoryTrust, SealError, audit, verify
from sealhost.signing.keys import parse_private_key, read_private_key_file
from sealhost.signing.sign import sign_bundle
home = Path(sys.argv[1])
sign_bundle(home / "b", parse_private_key(read_private_key_file(home / "k.key"), None, "k.key"))
outcome = audit(home / "b", DirectoryTrust(home / "keys"))
try:
    verify(home / "b", DirectoryTrust(home / "keys"))
except SealError as error:
    print(error.code)
# not getrusage: its maximum counts from before exec, when this was the tests' own process
peak_kib = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(outcome.report.bytes, peak_kib)
"""


CONSUMER = """
import sys
from pathlib import Path
import sealhost.signing.chunks as chunks_module
import sealhost.signing.weights as weights_module
from sealhost.signing import DirectoryTrust, verify
chunks_module._EARLY_BYTES = 32 << 20  # memory goes with these
weights_module.ahead_chunks = lambda *_: 8
home = Path(sys.argv[1])
for reading in ("ahead", "lazy"):
    weights = verify(home / "b", DirectoryTrust(home / "keys"), reading=reading).weights
    for start in range(0, weights.size // 2, 8 << 20):
        weights.view(start, start + (8 << 20))
        weights.release(0, start + (8 << 20))
    weights.finish()  # the other half, of which nothing is kept
    weights.close()
peak_kib = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(peak_kib)
"""


@pytest.fixture
def huge(tmp_path, seal_lab) -> Path:
    """A folder with an unsigned bundle of sparse weights, a private key and a keys folder."""
    manifest, root = seal_lab.manifest, tmp_path / "b"
    seal_lab.root.rename(root)
    (root / "bundle.sig").unlink()
    (tmp_path / "keys").mkdir()
    write_key_pair(tmp_path, "k", passphrase=None)
    (tmp_path / "k.pub").rename(tmp_path / "keys" / "k.pub")
    with (root / "model.gguf").open("wb") as file:
        file.truncate(WEIGHTS_BYTES)  # sparse: takes no room on the disk
    chunk, flat = bytes(4 << 20), hashlib.sha256()
    for _ in range(WEIGHTS_BYTES // len(chunk)):
        flat.update(chunk)
    table = hashlib.sha256(chunk).digest() * (WEIGHTS_BYTES // len(chunk))
    (root / "model.gguf.chunks").write_bytes(table)
    digest = hashlib.sha256(table).hexdigest()
    manifest["files"][0] |= {"size": WEIGHTS_BYTES, "sha256": flat.hexdigest(), "chunks_sha256": digest}
    manifest["files"][1] |= {"size": len(table), "sha256": digest}
    (root / "manifest.json").write_text(json.dumps(manifest))
    return tmp_path


def output_of(program: str, home: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program, str(home)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_weights_beyond_the_address_space_are_signed_and_verified(huge) -> None:
    # what keeps the weights cannot fit, says so, and does not die
    refusal, counts = output_of(PROGRAM.format(limit=ADDRESS_SPACE_BYTES), huge)
    assert refusal == "E_IO"
    read, peak_kib = map(int, counts.split())
    assert read > WEIGHTS_BYTES
    assert peak_kib < 150 << 10


def test_weights_that_are_consumed_meanwhile_stay_in_memory_for_a_moment_only(huge) -> None:
    sign_bundle(huge / "b", parse_private_key(read_private_key_file(huge / "k.key"), None, "k.key"))
    (peak_kib,) = map(int, output_of(CONSUMER, huge))
    assert peak_kib < 150 << 10
