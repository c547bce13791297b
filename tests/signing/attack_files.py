"""What an attack file may `do` to the bytes and the files of a bundle; `lab` is the fixture seal_lab."""

from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path

import pytest

# --- operations: bytes ---


def flip(lab, path: str, at: int) -> None:
    data = bytearray((lab.root / path).read_bytes())
    data[at] ^= 0x01
    (lab.root / path).write_bytes(data)


def prepend(lab, path: str, octets: str) -> None:
    (lab.root / path).write_bytes(bytes.fromhex(octets) + (lab.root / path).read_bytes())


def append(lab, path: str, octets: str) -> None:
    (lab.root / path).write_bytes((lab.root / path).read_bytes() + bytes.fromhex(octets))


def append_many(lab, path: str, count: int) -> None:
    append(lab, path, "20" * count)


def cut(lab, path: str, by: int) -> None:
    os.truncate(lab.root / path, (lab.root / path).stat().st_size - by)


def empty(lab, path: str) -> None:
    os.truncate(lab.root / path, 0)


def to_crlf(lab, path: str) -> None:
    (lab.root / path).write_bytes((lab.root / path).read_bytes().replace(b"\n", b"\r\n"))


def swap(lab, a: str, b: str) -> None:
    data = (lab.root / a).read_bytes()
    (lab.root / a).write_bytes((lab.root / b).read_bytes())
    (lab.root / b).write_bytes(data)


def swap_bytes(lab, a: str, b: str) -> None:
    """A second tokenizer of the same length exists elsewhere; its bytes take the place of the first's."""
    data = (lab.root / a).read_bytes()
    (lab.root / a).write_bytes(data.replace(Path(a).stem.encode(), Path(b).stem.encode()))


def old_signature(lab) -> None:
    """The signature of version 3 over the manifest of version 4."""
    manifest = lab.manifest | {"version": 4}
    (lab.root / "manifest.json").write_text(json.dumps(manifest))


# --- operations: files ---


def remove(lab, path: str) -> None:
    (lab.root / path).unlink()


def rename(lab, a: str, b: str) -> None:
    (lab.root / a).rename(lab.root / b)


def write(lab, path: str) -> None:
    (lab.root / path).parent.mkdir(parents=True, exist_ok=True)
    (lab.root / path).write_text("surprise")


def write_raw_name(lab, octets: str) -> None:
    Path(os.fsdecode(os.fsencode(lab.root) + b"/" + bytes.fromhex(octets))).write_text("surprise")


def mkdir(lab, path: str) -> None:
    (lab.root / path).mkdir(parents=True)


def many(lab, count: int, folder: str = ".") -> None:
    (lab.root / folder).mkdir(exist_ok=True)
    for number in range(count):
        (lab.root / folder / f"x{number}").touch()


def many_keys(lab, count: int) -> None:
    for number in range(count):
        (lab.keys / f"x{number}").touch()


def link_in_folder(lab, path: str) -> None:
    (lab.root / path).parent.mkdir(parents=True)
    (lab.root / path).symlink_to("/usr/bin/env")


def to_symlink(lab, path: str) -> None:
    outside = lab.root.parent / "outside"
    (lab.root / path).rename(outside)
    (lab.root / path).symlink_to(outside)


def root_to_symlink(lab) -> None:
    lab.root.rename(lab.root.parent / "real")
    lab.root.symlink_to(lab.root.parent / "real")


def root_to_descriptor(lab) -> None:
    """A magic link, which the kernel follows to whatever is open."""
    lab.root = Path(f"/proc/self/fd/{os.open(lab.root, os.O_RDONLY)}")


def root_to_file(lab) -> None:
    shutil.rmtree(lab.root)
    lab.root.write_text("no directory")


def symlink(lab, path: str) -> None:
    (lab.root / path).symlink_to("nowhere")


def hard_link_outside(lab, path: str) -> None:
    (lab.root.parent / "second name").hardlink_to(lab.root / path)


def hard_link(lab, a: str, b: str) -> None:
    (lab.root / b).unlink()
    (lab.root / b).hardlink_to(lab.root / a)


def fifo(lab, path: str) -> None:
    os.mkfifo(lab.root / path)


def to_fifo(lab, path: str) -> None:
    (lab.root / path).unlink()
    os.mkfifo(lab.root / path)


def to_socket(lab, path: str) -> None:
    (lab.root / path).unlink()
    here = Path.cwd()
    os.chdir((lab.root / path).parent)  # a socket's path has at most 108 bytes
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(Path(path).name)
    finally:
        os.chdir(here)


def device(lab, path: str) -> None:
    try:
        os.mknod(lab.root / path, 0o666 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root can make a device")


def to_folder(lab, path: str) -> None:
    (lab.root / path).unlink()
    (lab.root / path).mkdir()


def to_file(lab, path: str) -> None:
    shutil.rmtree(lab.root / path)
    (lab.root / path).write_text("no folder")
