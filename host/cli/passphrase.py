"""Where a private key's passphrase comes from: a descriptor, the environment, or a person.

Rules
* An explicit `--passphrase-fd` wins over SEALHOST_PASSPHRASE, which wins over the prompt.
* Nobody is asked when there is no terminal: automation fails with a message instead of hanging.
* A passphrase is never an argument, where other users could read it.

Example:
    passphrase = read_passphrase("acme.key", descriptor=None, confirm=False)
"""

from __future__ import annotations

import getpass
import os
import sys

from ..errors import UsageError

ENVIRONMENT = "SEALHOST_PASSPHRASE"
"""Environment variable that automation may set."""

MAX_PASSPHRASE_BYTES = 1024
"""Bytes of a passphrase; more is a wrong descriptor."""

_REMEDY = f"type it at the prompt, set {ENVIRONMENT}, or give --passphrase-fd N"


def read_passphrase(where: str, *, descriptor: int | None, confirm: bool) -> bytes:
    """The passphrase, UTF-8, not empty.

    Args:
        where: The key's file, for messages.
        descriptor: An open descriptor to read a line of; None for the other ways.
        confirm: Ask twice, for a new key.

    Raises:
        UsageError: None was given, it is empty or too long, or the two answers differ.
    """
    if descriptor is not None:
        passphrase = _from_descriptor(descriptor, where)
    elif (named := os.environ.get(ENVIRONMENT)) is not None:
        passphrase = os.fsencode(named)
    elif sys.stdin.isatty():
        passphrase = _from_person(where, confirm=confirm)
    else:
        raise UsageError(where, "expected a passphrase, got neither one nor a terminal to ask at", _REMEDY)
    if not 0 < len(passphrase) <= MAX_PASSPHRASE_BYTES:
        problem = f"expected a passphrase of 1 to {MAX_PASSPHRASE_BYTES} bytes, got {len(passphrase)}"
        raise UsageError(where, problem, _REMEDY)
    return passphrase


def _from_descriptor(descriptor: int, where: str) -> bytes:
    """The next line, without its line end; what follows it stays for the next key."""
    data = b""
    try:
        while len(data) <= MAX_PASSPHRASE_BYTES + 2 and not data.endswith(b"\n"):
            part = os.read(descriptor, 1)
            if not part:
                break
            data += part
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no such descriptor"
        raise UsageError(where, f"expected an open descriptor {descriptor}, got: {reason}", _REMEDY) from error
    return data.removesuffix(b"\n").removesuffix(b"\r")


def _from_person(where: str, *, confirm: bool) -> bytes:
    passphrase = getpass.getpass(f"passphrase for {where}: ", stream=sys.stderr)
    if confirm and getpass.getpass("once more: ", stream=sys.stderr) != passphrase:
        raise UsageError(where, "expected the same passphrase twice, got two different ones", "start again")
    return passphrase.encode("utf-8", "surrogateescape")
