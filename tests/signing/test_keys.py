"""Key files: how they are written, what is read, and what is refused."""

from __future__ import annotations

import base64
import os
import stat
import subprocess
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from sealhost.signing import Code, DirectoryTrust, SealError
from sealhost.signing.keys import (
    is_encrypted,
    parse_private_key,
    parse_public_key,
    public_key_of,
    read_private_key_file,
    write_key_pair,
)
from sealhost.signing.pkcs8 import ROUNDS


def pem_of(der: bytes, label: bytes = b"PUBLIC KEY") -> bytes:
    return b"-----BEGIN %b-----\n%b\n-----END %b-----\n" % (label, base64.b64encode(der), label)


def test_a_private_key_is_encrypted_and_ours_alone(tmp_path) -> None:
    before = os.umask(0)
    try:
        key = write_key_pair(tmp_path, "acme", passphrase="pässword".encode())
    finally:
        os.umask(before)
    path = tmp_path / "acme.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "acme.pub").stat().st_mode) == 0o644
    data = read_private_key_file(path)
    assert is_encrypted(data)
    assert ROUNDS.to_bytes(3, "big") in base64.b64decode(b"".join(data.splitlines()[1:-1]))
    assert public_key_of(parse_private_key(data, "pässword".encode(), "acme.key")) == key
    assert parse_public_key((tmp_path / "acme.pub").read_bytes(), "acme.pub") == key


def test_openssl_reads_what_keygen_writes(tmp_path) -> None:
    key = write_key_pair(tmp_path, "acme", passphrase=b"secret")
    command = ["openssl", "pkey", "-in", tmp_path / "acme.key", "-passin", "pass:secret", "-pubout"]
    try:
        done = subprocess.run(command, capture_output=True, check=True)
    except FileNotFoundError:
        pytest.skip("no openssl command on this machine")
    assert parse_public_key(done.stdout, "openssl's") == key


def test_an_unencrypted_key_needs_no_passphrase(tmp_path) -> None:
    key = write_key_pair(tmp_path, "ci", passphrase=None)
    data = read_private_key_file(tmp_path / "ci.key")
    assert not is_encrypted(data)
    assert public_key_of(parse_private_key(data, None, "ci.key")) == key


@pytest.mark.parametrize("taken", ["acme.key", "acme.pub"])
@pytest.mark.parametrize("before_it_looks", [True, False])
def test_keygen_never_overwrites_and_leaves_no_half_pair(tmp_path, monkeypatch, taken, before_it_looks) -> None:
    if not before_it_looks:  # while a person types a passphrase, for example
        monkeypatch.setattr("sealhost.signing.keys.check_free", lambda _path: None)
    (tmp_path / taken).write_text("precious")
    with pytest.raises(SealError) as caught:
        write_key_pair(tmp_path, "acme", passphrase=None)
    assert caught.value.code is Code.USAGE
    assert [path.name for path in tmp_path.iterdir()] == [taken]
    assert (tmp_path / taken).read_text() == "precious"


def test_a_full_disk_leaves_no_half_key(tmp_path, monkeypatch) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sealhost.signing.keys.os.fsync", fail)
    with pytest.raises(SealError) as caught:
        write_key_pair(tmp_path, "acme", passphrase=None)
    assert caught.value.code is Code.IO
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "../acme", "a/b", ".hidden", "a\nb", "x" * 65, "acme\n"])
def test_a_key_name_is_a_plain_name(tmp_path, name) -> None:
    with pytest.raises(SealError) as caught:
        write_key_pair(tmp_path, name, passphrase=None)
    assert (caught.value.code, caught.value.exit_code) == (Code.USAGE, 2)


def test_an_empty_passphrase_is_refused(tmp_path) -> None:
    with pytest.raises(SealError, match="got an empty one"):
        write_key_pair(tmp_path, "acme", passphrase=b"")


def test_a_key_cannot_be_written_to_a_folder_that_is_not_there(tmp_path) -> None:
    with pytest.raises(SealError) as caught:
        write_key_pair(tmp_path / "nowhere", "acme", passphrase=None)
    assert caught.value.code is Code.IO


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_private_key_that_others_may_read_is_refused(tmp_path, mode) -> None:
    write_key_pair(tmp_path, "acme", passphrase=None)
    (tmp_path / "acme.key").chmod(mode)
    with pytest.raises(SealError, match="chmod 600") as caught:
        read_private_key_file(tmp_path / "acme.key")
    assert caught.value.code is Code.PERM


def test_a_private_key_file_must_be_one(tmp_path) -> None:
    (tmp_path / "x.key").write_text("hello")
    (tmp_path / "x.key").chmod(0o600)
    os.mkfifo(tmp_path / "pipe.key", 0o600)
    for name, code in (("x.key", Code.KEY), ("pipe.key", Code.KEY), ("none.key", Code.IO), (".", Code.IO)):
        with pytest.raises(SealError) as caught:
            read_private_key_file(tmp_path / name)
        assert caught.value.code is code, name


def test_a_wrong_passphrase_is_said_so(tmp_path) -> None:
    write_key_pair(tmp_path, "acme", passphrase=b"right")
    data = read_private_key_file(tmp_path / "acme.key")
    for passphrase in (b"wrong", None):
        with pytest.raises(SealError, match="passphrase") as caught:
            parse_private_key(data, passphrase, "acme.key")
        assert caught.value.code is Code.KEY


def test_a_private_key_of_another_kind_is_refused() -> None:
    pem = Ed448PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(SealError, match="expected an Ed25519 key"):
        parse_private_key(pem, None, "x.key")
    with pytest.raises(SealError, match="PKCS#8"):
        parse_private_key(pem_of(b"nonsense", b"PRIVATE KEY"), None, "x.key")


def test_pem_and_ssh_lines_of_one_key_have_one_id(seal_private_key) -> None:
    key = public_key_of(seal_private_key)
    openssh = seal_private_key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    pem = seal_private_key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    assert key.to_pem() == pem
    assert key.to_ssh() == openssh + b"\n"
    for data in (pem, pem.replace(b"\n", b"\r\n"), openssh, key.to_ssh("me@example é"), pem + b"\n\n"):
        assert parse_public_key(data, "x.pub") == key


BROKEN_PUBLIC_KEYS = {
    "empty": lambda _: b"",
    "nonsense": lambda _: b"hello",
    "two PEM keys": lambda key: key.to_pem() + key.to_pem(),
    "two ssh lines": lambda key: key.to_ssh() + key.to_ssh(),
    "text before": lambda key: b"my key\n" + key.to_pem(),
    "a certificate": lambda key: key.to_pem().replace(b"PUBLIC KEY", b"CERTIFICATE"),
    "a private key": lambda key: key.to_pem().replace(b"PUBLIC", b"PRIVATE"),
    "base64 without padding": lambda key: key.to_ssh().rstrip(b"\n") + b"A\n",
    "base64 with unused bits": lambda key: (
        key.to_pem().replace(b"=\n", b"F=\n") if b"=\n" in key.to_pem() else key.to_ssh()[:-2] + b"=\n"
    ),
    "too long": lambda key: key.to_ssh().rstrip(b"\n") + b" " + b"c" * 20000,
    "another DER": lambda _: pem_of(b"\x30\x2a" + bytes(42)),
    "a byte too few": lambda key: pem_of(base64.b64decode(key.to_pem().splitlines()[1])[:-1]),
    "a byte too many": lambda key: pem_of(base64.b64decode(key.to_pem().splitlines()[1]) + b"\0"),
    "an RSA key": lambda key: key.to_ssh().replace(b"ssh-ed25519", b"ssh-rsa"),
    "a small-order key": lambda key: pem_of(base64.b64decode(key.to_pem().splitlines()[1])[:12] + b"\1" + bytes(31)),
}


@pytest.mark.parametrize("broken", BROKEN_PUBLIC_KEYS.values(), ids=BROKEN_PUBLIC_KEYS)
def test_a_broken_public_key_is_refused(broken, seal_lab) -> None:
    key = public_key_of(seal_lab.private_key)
    data = broken(key)
    with pytest.raises(SealError) as caught:
        parse_public_key(data, "x.pub")
    assert (caught.value.code, caught.value.where) == (Code.KEY, "x.pub")


def test_a_keys_folder_may_hold_a_readme_and_several_keys(seal_lab, other_private_key) -> None:
    (seal_lab.keys / "README.md").write_text("whom we trust")
    (seal_lab.keys / "b.pub").write_bytes(public_key_of(other_private_key).to_ssh("b"))
    (seal_lab.keys / "again.pub").write_bytes(public_key_of(other_private_key).to_pem())
    keys = DirectoryTrust(seal_lab.keys).keys
    assert set(keys) == {public_key_of(seal_lab.private_key).key_id, public_key_of(other_private_key).key_id}


def test_too_many_files_in_a_keys_folder_are_refused(seal_lab) -> None:
    for number in range(1025):
        (seal_lab.keys / f"{number}").touch()
    with pytest.raises(SealError) as caught:
        DirectoryTrust(seal_lab.keys)
    assert caught.value.code is Code.PERM


@pytest.mark.skipif(os.geteuid() == 0 and sys.platform == "linux", reason="root may read everything")
def test_a_key_that_we_may_not_read_is_an_io_refusal(seal_lab) -> None:
    (seal_lab.keys / "lab.pub").chmod(0)
    with pytest.raises(SealError) as caught:
        DirectoryTrust(seal_lab.keys)
    assert caught.value.code is Code.IO


def test_the_raw_secret_never_shows_in_a_file_that_is_encrypted(tmp_path, monkeypatch) -> None:
    private_key = Ed25519PrivateKey.from_private_bytes(b"S" * 32)
    monkeypatch.setattr("sealhost.signing.keys.Ed25519PrivateKey.generate", lambda: private_key, raising=False)
    write_key_pair(tmp_path, "acme", passphrase=b"x")
    body = base64.b64decode(b"".join((tmp_path / "acme.key").read_bytes().splitlines()[1:-1]))
    assert b"S" * 16 not in body


def test_a_public_key_in_a_private_one_s_place_is_told_so_whatever_its_mode(tmp_path) -> None:
    write_key_pair(tmp_path, "acme", passphrase=None)
    with pytest.raises(SealError, match=r"E_KEY .*give the \.key file"):
        read_private_key_file(tmp_path / "acme.pub")


def test_a_private_key_in_openssh_s_format_is_told_from_others(tmp_path) -> None:
    path = tmp_path / "id_ed25519"
    path.write_bytes(Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    path.chmod(0o600)
    with pytest.raises(SealError, match="got one in OpenSSH's own format; make one with `sealhost keygen`"):
        read_private_key_file(path)
