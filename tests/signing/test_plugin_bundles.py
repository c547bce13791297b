"""Plugin bundles of third parties: signed within a scope of their own, and still nothing but a sandbox's guest."""

from __future__ import annotations

import dataclasses
import hashlib
import tomllib
from pathlib import Path
from typing import Any

import pytest

from sealhost.sandbox import OperatorLimits, Sandbox
from sealhost.signing import Code, DirectoryTrust, PluginLimits, SealError, SealhostError, verify
from sealhost.signing.keys import public_key_of
from sealhost.signing.pack import pack
from sealhost.signing.sign import sign_bundle
from sealhost.signing.stewardship import Grant, add_key

FILES = sorted((Path(__file__).parent / "attacks" / "plugin").glob("*.toml"))
CASES = {path.stem: tomllib.loads(path.read_text()) for path in FILES}


def make_bundle(root: Path, plugin, private_key) -> Path:
    pack(root, name="shelf", version=1, model=None, plugins=[plugin])
    sign_bundle(root, private_key)
    return root


def module_of(case: dict[str, Any]) -> bytes:
    import wasmtime

    if "wat" in case:
        return bytes(wasmtime.wat2wasm(f"(module {case['wat']})"))
    return case["text"].encode() if "text" in case else bytes.fromhex(case["octets"])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_module_that_a_trusted_author_signed_is_admitted_by_the_sandbox_alone(
    case, tmp_path, seal_lab, make_seal_plugin
) -> None:
    plugin = make_seal_plugin("guest", "sampler", module_of(case))
    limits = PluginLimits(memory_bytes=case.get("memory_bytes", 1 << 20), init_ms=9, load_ms=9, step_ms=9, encode_ms=9)
    plugin = dataclasses.replace(plugin, limits=limits, abi=case.get("abi", 1))
    root = make_bundle(tmp_path / "b", plugin, seal_lab.private_key)
    (verified,) = verify(root, DirectoryTrust(seal_lab.keys)).plugins
    operator = OperatorLimits()
    if most := case.get("operator_memory_bytes"):
        operator = dataclasses.replace(operator, memory_bytes=most)
    with Sandbox(operator, use_cache=False) as sandbox, pytest.raises(SealhostError) as caught:
        sandbox.load_sampler(verified, 64)
    code, _, says = case["expect"].partition(" ")
    assert caught.value.code == code, str(caught.value)
    assert says in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_third_party_may_sign_plugins_and_nothing_else(
    tmp_path, seal_lab, other_private_key, make_seal_plugin
) -> None:
    author = public_key_of(other_private_key)
    add_key(seal_lab.keys, author, Grant(name="author", bundles=("sh*",), kinds=("plugin",)))
    trust = DirectoryTrust(seal_lab.keys)
    root = make_bundle(tmp_path / "b", make_seal_plugin("guest", "sampler"), other_private_key)
    assert verify(root, trust).signers == (author.key_id,)
    (seal_lab.root / "bundle.sig").unlink()
    sign_bundle(seal_lab.root, other_private_key)
    with pytest.raises(SealError) as caught:
        verify(seal_lab.root, trust)
    assert caught.value.code is Code.UNTRUSTED


def test_a_models_publisher_may_be_kept_from_signing_plugins(tmp_path, seal_lab, make_seal_plugin) -> None:
    key = public_key_of(seal_lab.private_key)
    (seal_lab.keys / "lab.pub").unlink()
    add_key(seal_lab.keys, key, Grant(name="lab", kinds=("model",)))
    trust = DirectoryTrust(seal_lab.keys)
    assert verify(seal_lab.root, trust).manifest.name == "lab"
    with pytest.raises(SealError) as caught:
        verify(make_bundle(tmp_path / "b", make_seal_plugin("guest", "sampler"), seal_lab.private_key), trust)
    assert caught.value.code is Code.UNTRUSTED


def test_version_2_of_a_model_with_a_plugin_of_version_1_is_refused(tmp_path, seal_lab) -> None:
    """Each release signs its own plugins: an older one of the same publisher does not fit into a newer bundle."""
    old = (seal_lab.root / "plugins" / "bpe.wasm").read_bytes()
    manifest = seal_lab.manifest
    entry = next(entry for entry in manifest["files"] if entry["path"] == "plugins/bpe.wasm")
    new = old[:-1] + b"2"
    entry["sha256"] = hashlib.sha256(new).hexdigest()
    (seal_lab.root / "plugins" / "bpe.wasm").write_bytes(new)
    seal_lab.resign(manifest | {"version": 4})
    assert seal_lab.verify().manifest.version == 4
    (seal_lab.root / "plugins" / "bpe.wasm").write_bytes(old)
    with pytest.raises(SealError) as caught:
        seal_lab.verify()
    assert (caught.value.code, caught.value.where) == (Code.DIGEST, "plugins/bpe.wasm")
