"""Bundle format, keys, trust and the verifier; knows nothing of models, wasm or HTTP.

The signer (`signing.sign`) and the packer (`signing.pack`) are imported by name and never from here, so that what
loads and serves models cannot reach a private key.
"""

from __future__ import annotations

from .bundle import VerifiedBundle, VerifiedPlugin, VerifyReport
from .errors import Code, ExitCode, IntegrityError, SealError, SealhostError
from .inspection import inspect
from .keys import PublicKey
from .manifest import FileEntry, Manifest, PluginEntry, PluginLimits
from .trust import DirectoryTrust, TrustPolicy
from .verify import Audit, audit, verify
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
