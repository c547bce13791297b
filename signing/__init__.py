"""Bundle format, keys, trust and the verifier; knows nothing of models, wasm or HTTP.

The signer (`signing.sign`) and the packer (`signing.pack`) are imported by name and never from here, so that what
loads and serves models cannot reach a private key.

A public name brings its file along when it is first asked for, not before: whoever needs an error alone, as the command
line does, does not wait for cryptography.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # not from `typing`; `system.py` says why
if TYPE_CHECKING:
    from .bundle import VerifiedBundle, VerifiedPlugin, VerifyReport
    from .errors import Code, ExitCode, IntegrityError, SealError, SealhostError
    from .inspection import inspect
    from .keys import PublicKey
    from .manifest import FileEntry, Manifest, PluginEntry, PluginLimits
    from .trust import DirectoryTrust, TrustPolicy
    from .verification import Audit, audit, verify
    from .weights import VerifiedWeights

__all__ = [
    "Audit",
    "Code",
    "DirectoryTrust",
    "ExitCode",
    "FileEntry",
    "IntegrityError",
    "Manifest",
    "PluginEntry",
    "PluginLimits",
    "PublicKey",
    "SealError",
    "SealhostError",
    "TrustPolicy",
    "VerifiedBundle",
    "VerifiedPlugin",
    "VerifiedWeights",
    "VerifyReport",
    "audit",
    "inspect",
    "verify",
]

_FILES = {
    "bundle": ("VerifiedBundle", "VerifiedPlugin", "VerifyReport"),
    "errors": ("Code", "ExitCode", "IntegrityError", "SealError", "SealhostError"),
    "inspection": ("inspect",),
    "keys": ("PublicKey",),
    "manifest": ("FileEntry", "Manifest", "PluginEntry", "PluginLimits"),
    "trust": ("DirectoryTrust", "TrustPolicy"),
    "verification": ("Audit", "audit", "verify"),
    "weights": ("VerifiedWeights",),
}


def __getattr__(name: str) -> object:
    """A public name, from its file."""
    for file, names in _FILES.items():
        if name in names:
            return getattr(import_module(f".{file}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
