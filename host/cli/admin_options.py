"""Options of the admin plane: where `serve` opens it, and how the verbs reach it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from ..errors import UsageError
from .access_keys import ADMIN_KEY_VARIABLE, access_keys

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

DEFAULT_ADMIN = "http://127.0.0.1:8081"
"""Where the verbs look for an admin plane."""

AdminUrl = Annotated[str, Parameter(name="--admin", help="The host's admin plane.")]
AdminKeyFile = Annotated[
    Path | None, Parameter(name="--admin-key-file", help=f"File with the admin key; without it {ADMIN_KEY_VARIABLE}.")
]


@Parameter(name="*", group=Group("Admin plane", sort_key=1))
@dataclass(frozen=True, slots=True)
class AdminOptions:
    """The admin plane of `serve`.

    Attributes:
        admin_port: Port of the admin plane; 0 takes any free one. [default: none]
        admin_host: Address of the admin plane; without an admin key only this machine may reach it.
        admin_key_file: File with one admin key per line; without it SEALHOST_ADMIN_KEY; without both, no key is needed.
        swap_from: Folder from which bundles may be swapped in, besides those that hold BUNDLES; may be given several
            times.
        keep_previous: Keep the previous version loaded after a swap, so that a rollback takes no time.
    """

    admin_port: int | None = None
    admin_host: str = "127.0.0.1"
    admin_key_file: Path | None = None
    swap_from: Annotated[tuple[Path, ...], Parameter(negative="", show_default=False)] = ()
    keep_previous: bool = True

    def keys(self, api_keys: Sequence[str]) -> list[str]:
        """The admin keys.

        Raises:
            HostError, UsageError: they cannot be read or are no good.
        """
        keys = access_keys(self.admin_key_file, ADMIN_KEY_VARIABLE, "--admin-key-file")
        if set(keys) & set(api_keys):
            problem = "expected an admin key that is no API key, got one that is both"
            raise UsageError("--admin-key-file", problem, "make another: who may ask need not be who may swap")
        return keys


NO_ADMIN = AdminOptions()
"""What `serve` takes when nothing is said: no admin plane."""


def is_loopback(listener: socket.socket) -> bool:
    """Whether only this machine reaches a listening socket."""
    return ipaddress.ip_address(listener.getsockname()[0].partition("%")[0]).is_loopback


def check_guarded(listener: socket.socket, keys: Sequence[str]) -> None:
    """Accepts by returning that nobody can steer the host unasked (clause 7.1).

    Raises:
        UsageError: others reach the socket, and no key is asked for.
    """
    if not keys and not is_loopback(listener):
        problem = f"expected an admin key, or an address of this machine alone, got {listener.getsockname()[0]}"
        raise UsageError("--admin-host", problem, "give --admin-key-file, or leave --admin-host out")
