"""`verify` without the framework that reads command lines, whose import costs more than hashing 100 MB.

Rules
* Hashing has begun before any of us is imported (`begun`); what it takes to judge its outcome is imported meanwhile.
* A command line is read here only when it is plain: one folder and known flags, each once, each value by itself. All
  else, be it help, a mistake, `--keys=KEYS` or an environment twin, is for the framework: it alone says what is wrong.
* What happens then is the same: both call `verify_bundle`.

Example:
    if (request := plain_request(["verify", "smollm2", "--keys", "keys"])) is not None:
        verify_bundle(request)
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .handover import take_begun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...signing import Audit

_FOLDERS: Final = ("keys", "state")
_SWITCHES: Final = ("full", "json")


class VerifyRequest(NamedTuple):
    """What `verify` is asked for; see its verb for the meaning of each."""

    bundle: Path
    keys: Path | None = None
    state: Path | None = None
    full: bool = False
    json: bool = False


def plain_request(arguments: Sequence[str]) -> VerifyRequest | None:
    """What a plain command line of `verify` asks for; None: it is another verb's, or not plain."""
    if arguments[:1] != ["verify"] or any(f"SEALHOST_{name.upper()}" in os.environ for name in _FOLDERS + _SWITCHES):
        return None
    words = iter(arguments[1:])
    found: dict[str, Any] = {}
    for word in words:
        name = word.removeprefix("--")
        value: Path | bool | None
        if word.startswith("--") and name in _FOLDERS:
            value = _plain_path(next(words, ""))
        elif word.startswith("--") and name in _SWITCHES:
            value = True
        else:
            name, value = "bundle", _plain_path(word)
        if value is None or name in found:
            return None
        found[name] = value
    return VerifyRequest(**found) if "bundle" in found else None


def _plain_path(word: str) -> Path | None:
    return Path(word) if word and not word.startswith("-") else None


def verify_bundle(request: VerifyRequest) -> None:
    """Checks a bundle's signature and every byte of it, and prints what was found.

    Raises:
        SealError: it was refused; with `json` that was printed, too.
    """
    with take_begun() as ahead:
        from ...signing import audit  # noqa: PLC0415 — these are imported while helpers hash
        from .facts import answering, print_facts  # noqa: PLC0415
        from .places import state_in, trust_in  # noqa: PLC0415
        from .progress import progress_bar  # noqa: PLC0415

        with answering(as_json=request.json, verified=False):
            trust = trust_in(request.keys)
            with progress_bar("verifying") as progress:
                outcome = audit(request.bundle, trust, full=request.full, progress=progress, ahead=ahead)
            state_in(request.state).check([outcome], trust)
            print_facts(_facts(request.bundle, outcome), as_json=request.json)


def _facts(bundle: Path, outcome: Audit) -> dict[str, Any]:
    import msgspec  # noqa: PLC0415 — as above

    manifest = outcome.manifest
    digests = {entry.path: entry.sha256 for entry in manifest.files}
    return {
        "verified": True,
        "bundle": str(bundle),
        "kind": manifest.kind,
        "name": manifest.name,
        "version": manifest.version,
        "digest": outcome.digest,
        "signers": list(outcome.signers),
        "template": manifest.template,
        "plugins": [
            {
                "name": plugin.name,
                "role": plugin.role,
                "sha256": digests[plugin.path],
                "abi": plugin.abi,
                "tier": plugin.tier,
                "limits": msgspec.to_builtins(plugin.limits),
            }
            for plugin in manifest.plugins
        ],
        "files": len(manifest.files),
        "bytes": outcome.report.bytes,
        "seconds": round(outcome.report.seconds, 6),
    }
