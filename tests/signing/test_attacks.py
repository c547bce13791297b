"""Every file of attacks/bundle is refused with its code, its exit code and the name of the file.

`expect` is what verify() must answer and the file that the refusal must name; `do` names an operation of attack_files or attack_signers, the rest are
its arguments. An operation that changes the manifest has the trusted publisher sign it again, so that only the rule in
question can refuse.
"""

from __future__ import annotations

import os
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from attack_files import (
    append,
    append_many,
    cut,
    device,
    empty,
    fifo,
    flip,
    hard_link,
    hard_link_outside,
    link_in_folder,
    many,
    many_keys,
    mkdir,
    old_signature,
    prepend,
    remove,
    rename,
    root_to_descriptor,
    root_to_file,
    root_to_symlink,
    swap,
    swap_bytes,
    symlink,
    to_crlf,
    to_fifo,
    to_file,
    to_folder,
    to_socket,
    to_symlink,
    write,
    write_raw_name,
)
from attack_signers import (
    chmod_key,
    chmod_keys,
    fifo_in_keys,
    flip_signature,
    folder_in_keys,
    key_file,
    key_to_symlink,
    keys_gone,
    keys_to_symlink,
    lying_key_id,
    malleate_signature,
    many_signatures,
    misnamed_co_signature,
    mixed_line_ends,
    mixed_order_key,
    no_keys,
    other_key,
    prehashed,
    private_key_in_keys,
    raw_manifest,
    raw_manifest_hex,
    replace,
    resize_signature,
    set_value,
    share,
    sign_other_message,
    small_order_r,
    uncanonical_base64,
    upper_key_id,
    urlsafe_base64,
    weak_key,
    wrong_co_signature,
)
from consuming import load

from sealhost.signing import Code, DirectoryTrust, ExitCode, SealError, audit, verify
from sealhost.signing.ahead import HashedAhead

FILES = sorted((Path(__file__).parent / "attacks" / "bundle").glob("*.toml"))
ATTACKS = [tomllib.loads(path.read_text(encoding="utf-8")) for path in FILES]
EXPECTED_KEYS = {"expect", "name", "do", "full", "unread"}
POLICY = {"E_UNTRUSTED", "E_KEY", "E_PERM"}

OPERATIONS = {
    operation.__name__: operation
    for operation in (
        *(flip, prepend, append, append_many, cut, empty, to_crlf, swap, swap_bytes, old_signature),
        *(remove, rename, write, write_raw_name, mkdir, many, many_keys, link_in_folder, to_symlink),
        *(
            root_to_symlink,
            root_to_descriptor,
            root_to_file,
            symlink,
            hard_link_outside,
            hard_link,
            fifo,
            to_fifo,
            to_socket,
            device,
            to_folder,
            to_file,
        ),
        *(flip_signature, malleate_signature, small_order_r, resize_signature, uncanonical_base64, urlsafe_base64),
        *(mixed_line_ends, upper_key_id, lying_key_id, other_key, misnamed_co_signature, wrong_co_signature),
        *(prehashed, sign_other_message, many_signatures),
        *(chmod_keys, chmod_key, private_key_in_keys, key_to_symlink, keys_to_symlink, fifo_in_keys),
        *(folder_in_keys, share, key_file, no_keys, keys_gone, weak_key, mixed_order_key),
        *(replace, raw_manifest, raw_manifest_hex),
    )
} | {"set": set_value}


def audit_ahead(root, trust, **options):
    """As `sealhost verify` does it: hashing has begun before anything was looked at."""
    with HashedAhead(root) as ahead:
        return audit(root, trust, ahead=ahead, **options)


CHECKS = (verify, audit, audit_ahead, partial(load, reading="ahead"), partial(load, reading="lazy"))
"""Every way to take a bundle: no attack gets through one that another one stops."""


def exit_code_of(code: str) -> ExitCode:
    if code in POLICY:
        return ExitCode.POLICY
    return ExitCode.IO if code == "E_IO" else ExitCode.TAMPERED


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack["name"] for attack in ATTACKS])
@pytest.mark.usefixtures("no_hang")
def test_an_attack_is_refused(attack: dict[str, Any], seal_lab, monkeypatch) -> None:
    arguments = {key: value for key, value in attack.items() if key not in EXPECTED_KEYS}
    code, _, where = attack["expect"].partition(" ")
    OPERATIONS[attack["do"]](seal_lab, **arguments)
    opened = []
    real_open = os.open
    monkeypatch.setattr("sealhost.signing.source.os.open", lambda p, *a, **k: opened.append(p) or real_open(p, *a, **k))
    full = attack.get("full", False)
    for check in CHECKS[:3] if full else CHECKS:  # lazy weights have no flat digest
        with pytest.raises(SealError) as caught:
            check(seal_lab.root, DirectoryTrust(seal_lab.keys), full=full)
        error = caught.value
        assert str(error.code) == code, str(error)
        assert error.exit_code == exit_code_of(code)
        assert error.where.removeprefix(f"{seal_lab.root.parent}/").startswith(where), error.where
        assert str(error).isprintable()
        assert error.problem
        assert error.remedy
    if attack.get("unread"):
        assert "secret" not in opened
        assert "hosts" not in opened


def test_the_attack_table_is_large_and_without_repetitions() -> None:
    names = [attack["name"] for attack in ATTACKS]
    assert len(set(names)) == len(names) >= 60
    assert all(path.read_text(encoding="utf-8").startswith("expect = ") for path in FILES)
    assert {attack["do"] for attack in ATTACKS} == set(OPERATIONS)


def test_the_untouched_bundle_verifies(seal_lab) -> None:
    assert seal_lab.verify(full=True).manifest.name == "lab"


def test_resigning_without_a_change_verifies(seal_lab) -> None:
    seal_lab.resign(seal_lab.manifest)
    assert seal_lab.verify().manifest.version == 3


def test_every_code_of_an_attack_is_a_stable_code() -> None:
    assert {attack["expect"].split()[0] for attack in ATTACKS} <= {str(code) for code in Code}
