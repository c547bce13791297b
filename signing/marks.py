"""The marks of what was accepted before, and what may follow them (README clauses 11.1, 11.2, 11.5); pure functions.

* Marks only rise. An older bundle runs only where an operator has accepted exactly it, and that lowers no mark.
* What is newer by its trust files alone counts as `seen`, whatever becomes of a bundle; a bundle must be accepted.

Example:
    judge_bundle(marks, bundle)                         # or raises: it is older
    marks = raised(marks, [bundle], trust, now)
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Final, Literal, Protocol

import msgspec
from msgspec import Meta, Struct

from . import limits
from .errors import Code, SealError
from .manifest import Name, Sha256Hex  # noqa: TC001 — msgspec reads annotations at run time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .manifest import Manifest
    from .trust import DirectoryTrust

REPACK: Final = "if it is yours, pack and sign it again with a higher --version"
CLOCK_SLACK_S: Final = 300
"""Seconds that the clock may go back: what time synchronisation corrects after a start."""
CLOCK_STEP_S: Final = 60
"""Seconds after which the time is worth a write of its own."""


class Identified(Protocol):
    """A VerifiedBundle or an Audit: something that was verified."""

    @property
    def manifest(self) -> Manifest:
        """Its manifest."""
        ...

    @property
    def digest(self) -> str:
        """SHA-256 of the manifest, hex."""
        ...


BundleName = Annotated[str, Meta(pattern=r"\A(plugin:)?[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")]
"""A model's name; of a plugin bundle with a prefix, so that who may sign only plugins cannot raise a model's mark."""


class Mark(Struct, frozen=True, forbid_unknown_fields=True):
    """A version and the digest that it had."""

    version: Annotated[int, Meta(ge=1, le=limits.MAX_INTEGER)]
    digest: Sha256Hex


class Marks(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that the state remembers.

    Attributes:
        latest: The latest time seen, seconds since 1970.
        bundles: Name → the highest version accepted.
        accepted: Name → an older bundle that the operator has accepted.
        policies: Name of a policy with a root → its highest version.
        revocations: Name of a policy → the highest version of its list.
    """

    latest: Annotated[int, Meta(ge=0, le=limits.MAX_INTEGER)] = 0
    bundles: dict[BundleName, Mark] = {}
    accepted: dict[BundleName, Mark] = {}
    policies: dict[Name, Mark] = {}
    revocations: dict[Name, Mark] = {}
    schema: Literal["sealhost state v1"] = "sealhost state v1"


def check_newer(
    where: str, old: Mark | None, new: Mark, remedy: str, *, raise_it: str = "if it is yours, raise its version"
) -> None:
    """Accepts by returning that a mark may follow another, or is the same (clause 11.2).

    Args:
        where: What it is of.
        old: What was accepted; None: nothing yet.
        new: What is to be.
        remedy: Against an older version.
        raise_it: What who made it does against the same version with other contents.

    Raises:
        SealError: E_ROLLBACK, E_EQUIVOCATION.
    """
    if old is None or new == old or new.version > old.version:
        return
    if new.version < old.version:
        problem = f"expected version {old.version} or higher, got {new.version}"
        raise SealError(Code.ROLLBACK, where, problem, remedy)
    problem = f"expected sha256 {old.digest[:16]} for version {new.version}, got {new.digest[:16]}"
    raise SealError(Code.EQUIVOCATION, where, problem, f"{raise_it}; else ask who signed it why one has two contents")


def mark_of(bundle: Identified) -> Mark:
    """A bundle's version and digest."""
    return Mark(bundle.manifest.version, bundle.digest)


def marked_name(bundle: Identified) -> str:
    """Under which name a bundle's mark is kept (clause 11.1)."""
    return bundle.manifest.name if bundle.manifest.kind == "model" else f"plugin:{bundle.manifest.name}"


def judge_bundle(marks: Marks, bundle: Identified) -> None:
    """Accepts by returning that a bundle is not older than what was accepted before.

    Raises:
        SealError: E_ROLLBACK, E_EQUIVOCATION.
    """
    name, mark = marked_name(bundle), mark_of(bundle)
    if marks.accepted.get(name) == mark:
        return
    remedy = "fetch the current release; if the older one is meant: sealhost trust accept-older DIR"
    check_newer(name, marks.bundles.get(name), mark, remedy, raise_it=REPACK)


def judge_trust(marks: Marks, trust: DirectoryTrust, now: float) -> None:
    """Accepts by returning that the trust files are not older than those seen before, nor the clock.

    Raises:
        SealError: E_ROLLBACK, E_EQUIVOCATION, E_CLOCK.
    """
    if trust.policy is None:
        return
    if trust.policy.asks_the_clock and now < marks.latest - CLOCK_SLACK_S:
        problem = (
            f"expected a time after {iso_time(marks.latest)}, got {iso_time(now)}: keys could seem valid that no "
            "longer are"
        )
        remedy = "set the clock; if it was ahead before: sealhost trust accept-clock"
        raise SealError(Code.CLOCK, "clock", problem, remedy)
    name = trust.policy.file.name
    remedy = "install the current file with `sealhost trust rotate`"
    if (seen := marks.policies.get(name)) is not None and not trust.policy.root_keys:
        problem = f"expected version {seen.version} or higher of {name} with its [root], got a file without one"
        raise SealError(Code.ROLLBACK, "trust.toml", problem, remedy)
    for where, old, new in _trust_marks(marks, trust):
        if new is not None:
            check_newer(where, old, new, remedy)
        elif old is not None:
            problem = f"expected version {old.version} or higher of the list of {name}, got no list"
            raise SealError(Code.ROLLBACK, where, problem, remedy)


def _trust_marks(marks: Marks, trust: DirectoryTrust) -> list[tuple[str, Mark | None, Mark | None]]:
    """File name, mark and what is there now, of the trust files that a root has signed (clause 11.5)."""
    if trust.policy is None or not trust.policy.root_keys:
        return []
    name, listed = trust.policy.file.name, trust.revocations
    policy = Mark(trust.policy.file.version, trust.policy.text.digest)
    revocations = Mark(listed.file.version, listed.text.digest) if listed is not None else None
    return [
        ("trust.toml", marks.policies.get(name), policy),
        ("revoked.toml", marks.revocations.get(name), revocations),
    ]


def seen(marks: Marks, trust: DirectoryTrust, now: float) -> Marks:
    """The marks after looking at trust files and clock alone; none is lower than before."""
    policies, revocations = dict(marks.policies), dict(marks.revocations)
    for into, (_, _, new) in zip((policies, revocations), _trust_marks(marks, trust), strict=False):
        if new is not None and trust.policy is not None:
            into[trust.policy.file.name] = new
    latest = int(now) if now >= marks.latest + CLOCK_STEP_S else marks.latest
    return msgspec.structs.replace(marks, latest=latest, policies=policies, revocations=revocations)


def raised(marks: Marks, bundles: Sequence[Identified], trust: DirectoryTrust, now: float) -> Marks:
    """The marks after accepting; none is lower than before."""
    highest, accepted = dict(marks.bundles), dict(marks.accepted)
    for bundle in bundles:
        name, mark = marked_name(bundle), mark_of(bundle)
        if (old := highest.get(name)) is None or mark.version > old.version:
            highest[name] = mark
            accepted.pop(name, None)  # clause 11.6: who goes forward does not keep a way back
    return msgspec.structs.replace(seen(marks, trust, now), bundles=highest, accepted=accepted)


def iso_time(seconds: float) -> str:
    """A time as messages and the log write it, in UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
