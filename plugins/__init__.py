"""Guest code: the ABI header, and the reference tokenizer and sampler as source and as built modules.

Nothing here runs on the host. The only Python is this look-up of where a built plugin lies:

    >>> reference_plugin("sampler", "standard").name
    'standard'
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

PLUGINS = Path(__file__).resolve().parent

Role = Literal["tokenizer", "sampler"]


def reference_plugin(role: Role, name: str) -> Path:
    """The directory of a reference plugin; it holds `plugin.wasm` and `plugin.toml`.

    Raises:
        FileNotFoundError: No built plugin has this role and name.
    """
    directory = PLUGINS / f"{role}s" / name
    if name not in reference_plugins(role):
        known = ", ".join(reference_plugins(role))
        raise FileNotFoundError(f"expected a reference {role} ({known}), got {name!r}")
    return directory


def reference_plugins(role: Role) -> tuple[str, ...]:
    """Names of the reference plugins of one role, sorted."""
    return tuple(sorted(found.parent.name for found in (PLUGINS / f"{role}s").glob("*/plugin.wasm")))
