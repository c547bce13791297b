"""Properties: any change is refused, and parsers of hostile bytes raise nothing but our own errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from consuming import load
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sealhost.signing import DirectoryTrust, SealError
from sealhost.signing.keys import parse_public_key, public_key_of
from sealhost.signing.manifest import encode_manifest, parse_manifest
from sealhost.signing.paths import check_distinct, check_path
from sealhost.signing.signature import SignatureFile
from sealhost.signing.strict_json import parse_strict_json

FILES = (
    "manifest.json",
    "bundle.sig",
    "model.gguf",
    "model.gguf.chunks",
    "chat_template.jinja",
    "plugins/bpe.wasm",
    "plugins/standard.wasm",
    "documents/LICENSE",
)
BOUNDED = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None
)


@BOUNDED
@given(
    path=st.sampled_from(FILES),
    where=st.floats(0, 1, exclude_max=True),
    change=st.integers(1, 255),
    edit=st.sampled_from(["change", "insert", "delete"]),
    reading=st.sampled_from(["whole", "ahead", "lazy"]),
)
def test_any_change_to_any_file_is_refused(seal_lab, path, where, change, edit, reading) -> None:
    file = seal_lab.root / path
    before = file.read_bytes()
    at = int(where * len(before))
    middle = {"change": bytes([before[at] ^ change]), "insert": bytes([change, before[at]]), "delete": b""}[edit]
    file.write_bytes(before[:at] + middle + before[at + 1 :])
    try:
        with pytest.raises(SealError):
            load(seal_lab.root, DirectoryTrust(seal_lab.keys), reading=reading)
    finally:
        file.write_bytes(before)


@pytest.mark.parametrize("path", ["manifest.json", "bundle.sig", "chat_template.jinja", "plugins/bpe.wasm"])
def test_every_single_byte_of_a_small_file_counts(seal_lab, path) -> None:
    file = seal_lab.root / path
    before = file.read_bytes()
    step = max(1, len(before) // 200)
    for at in range(0, len(before), step):
        file.write_bytes(before[:at] + bytes([before[at] ^ 0x20]) + before[at + 1 :])
        with pytest.raises(SealError):
            seal_lab.verify()


def outcome(parse: Any, *arguments: object) -> None:
    """Runs a parser that may refuse, but with nothing but a SealError of one printable line."""
    refusal = ""
    try:
        parse(*arguments)
    except SealError as error:
        refusal = str(error)
    assert refusal.isprintable()
    assert len(refusal) < 1500


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@BOUNDED
@given(st.binary(max_size=200) | st.text(alphabet='{}[]",:\\0123eE+-.naul \n', max_size=80).map(str.encode))
def test_any_bytes_as_a_manifest_raise_only_our_errors(data) -> None:
    outcome(parse_manifest, data)


@BOUNDED
@given(JSON_LIKE)
def test_any_json_value_as_a_manifest_raises_only_our_errors(value) -> None:
    outcome(parse_manifest, json.dumps(value).encode())


@BOUNDED
@given(data=st.data())
def test_a_manifest_with_any_one_value_replaced_raises_only_our_errors(seal_lab, data) -> None:
    manifest = seal_lab.manifest
    holder: Any = manifest
    while True:
        key = data.draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
        if not isinstance(holder[key], dict | list) or not holder[key] or data.draw(st.booleans()):
            break
        holder = holder[key]
    holder[key] = data.draw(JSON_LIKE)
    outcome(parse_manifest, json.dumps(manifest).encode())


@BOUNDED
@given(JSON_LIKE)
def test_strict_json_agrees_with_the_standard_parser_where_it_accepts(value) -> None:
    data = json.dumps(value).encode()
    try:
        parsed = parse_strict_json(data, "x")
    except SealError:
        return
    assert parsed == json.loads(data)


@BOUNDED
@given(st.binary(max_size=300))
def test_any_bytes_as_a_signature_file_raise_only_our_errors(data) -> None:
    outcome(SignatureFile.parse, data, "x.sig")
    outcome(SignatureFile.parse, b"sealhost signature v1\nkey " + data, "x.sig")
    outcome(SignatureFile.parse, b"sealhost signature v1\nkey " + b"0" * 64 + b"\nsig " + data + b"\n", "x.sig")


@BOUNDED
@given(st.binary(min_size=32, max_size=32), st.binary(min_size=64, max_size=64))
def test_a_signature_file_reads_back(key, signature) -> None:
    file = SignatureFile(key.hex(), signature)
    assert SignatureFile.parse(file.encode(), "x") == file
    assert SignatureFile.parse(file.encode().replace(b"\n", b"\r\n"), "x") == file


@BOUNDED
@given(data=st.binary(max_size=200), prefix=st.sampled_from([b"", b"ssh-ed25519 ", b"-----BEGIN PUBLIC KEY-----\n"]))
def test_any_bytes_as_a_public_key_raise_only_our_errors(data, prefix) -> None:
    outcome(parse_public_key, prefix + data, "x.pub")


@BOUNDED
@given(at=st.integers(0, 200), change=st.integers(1, 255))
def test_a_changed_public_key_is_refused_or_is_another_key(seal_private_key, at, change) -> None:
    key = public_key_of(seal_private_key)
    data = bytearray(key.to_pem())
    at %= len(data)
    data[at] ^= change
    try:
        other = parse_public_key(bytes(data), "x.pub")
    except SealError:
        return
    assert other.key_id != key.key_id or bytes(data).split() == key.to_pem().split()


@BOUNDED
@given(st.lists(st.text(alphabet=st.characters(), max_size=12), max_size=4))
def test_any_text_as_paths_raises_only_our_errors_and_survivors_are_safe(paths) -> None:
    outcome(check_distinct, paths)
    for path in paths:
        try:
            check_path(path)
        except SealError:
            continue
        assert not path.startswith("/")
        assert not {"", ".", ".."} & set(path.split("/"))
        assert "\0" not in path


def test_a_manifest_reads_back(seal_lab) -> None:
    manifest = parse_manifest((seal_lab.root / "manifest.json").read_bytes())
    assert parse_manifest(encode_manifest(manifest)) == manifest
    assert encode_manifest(manifest) == (seal_lab.root / "manifest.json").read_bytes()
