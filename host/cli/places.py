"""Where sealhost keeps things of one user: the XDG base directories, with their documented defaults.

Rules
* An empty or relative XDG variable is ignored, as the XDG base directory specification says, and so is such a HOME: who
  is trusted must not depend on the folder that a verb is called in.
* Nothing here creates a folder; whoever writes does.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from ...signing import DirectoryTrust
from ...signing.state import State
from ..errors import UsageError

APPLICATION = "sealhost"
"""Name of our folder inside each base directory."""


def _base(variable: str, default: str) -> Path:
    named = Path(os.environ.get(variable, ""))
    return (named if named.is_absolute() else _home() / default) / APPLICATION


def _home() -> Path:
    """The user's home folder: HOME, else what the system's user database says.

    Raises:
        UsageError: neither is an absolute path.
    """
    named = Path(os.environ.get("HOME", ""))
    if named.is_absolute():
        return named
    try:
        known = Path(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:  # a container's user that nobody entered
        known = Path()
    if not known.is_absolute():
        problem = f"expected the absolute path of a home folder, got {str(named)!r}"
        raise UsageError("HOME", problem, "set it, or name folders with --keys and --state")
    return known


def data_folder() -> Path:
    """What must survive: keys, the trust store, the demo's bundle."""
    return _base("XDG_DATA_HOME", ".local/share")


def cache_folder() -> Path:
    """What can be fetched or made again: models, compiled code."""
    return _base("XDG_CACHE_HOME", ".cache")


def trust_store() -> Path:
    """The user's own trust store, which `--keys` replaces."""
    return data_folder() / "keys"


def state_folder() -> Path:
    """What this user's hosts have accepted before, which `--state` replaces."""
    return _base("XDG_STATE_HOME", ".local/state") / "state"


def trust_in(keys: Path | None) -> DirectoryTrust:
    """The trust policy that `--keys` names, or the user's own trust store.

    Raises:
        SealError: the folder cannot be trusted.
    """
    return DirectoryTrust(trust_store() if keys is None else keys)


def state_in(folder: Path | None) -> State:
    """The state that `--state` names, or the user's own."""
    return State(state_folder() if folder is None else folder)
