"""What this host has accepted before, so that nothing older can take its place (README chapter 11).

* Marks only rise. An older bundle runs only where an operator has accepted exactly it, and that lowers no mark.
* `check` never writes; `record` checks again under the lock, so that two updates at a time cannot both win.
* State that is damaged, or gone where it must be, is a refusal and never a fresh start.

Example:
    state = State(Path("state"))
    bundle = verify(root, trust)
    state.check([bundle], trust)
    ...                                 # load it, make a first token
    state.record([bundle], trust)       # durable when this returns: now it may be used
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, Protocol

import msgspec
from msgspec import Meta, Struct

from . import limits
from .durable import locked_folder, replace_file, sync_folder
from .errors import Code, SealError
from .manifest import Name, Sha256Hex  # noqa: TC001 — msgspec reads annotations at run time
from .source import Source
from .strict_json import parse_strict_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .manifest import Manifest
    from .trust import DirectoryTrust

STATE_FILE: Final = "state.json"
LOG_FILE: Final = "log.jsonl"
_FIRST_LINE: Final = b"sealhost state v1 "
_REPACK: Final = "if it is yours, pack and sign it again with a higher --version"
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
    check_newer(name, marks.bundles.get(name), mark, remedy, raise_it=_REPACK)


def judge_trust(marks: Marks, trust: DirectoryTrust, now: float) -> None:
    """Accepts by returning that the trust files are not older than those seen before, nor the clock.

    Raises:
        SealError: E_ROLLBACK, E_EQUIVOCATION, E_CLOCK.
    """
    if trust.policy is None:
        return
    if trust.policy.asks_the_clock and now < marks.latest - CLOCK_SLACK_S:
        problem = (
            f"expected a time after {_iso(marks.latest)}, got {_iso(now)}: keys could seem valid that no longer are"
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


def raised(marks: Marks, bundles: Sequence[Identified], trust: DirectoryTrust, now: float) -> Marks:
    """The marks after accepting; none is lower than before."""
    highest, accepted = dict(marks.bundles), dict(marks.accepted)
    for bundle in bundles:
        name, mark = marked_name(bundle), mark_of(bundle)
        if (old := highest.get(name)) is None or mark.version > old.version:
            highest[name] = mark
            accepted.pop(name, None)  # clause 11.6: who goes forward does not keep a way back
    policies, revocations = dict(marks.policies), dict(marks.revocations)
    for into, (_, _, new) in zip((policies, revocations), _trust_marks(marks, trust), strict=False):
        if new is not None and trust.policy is not None:
            into[trust.policy.file.name] = new
    latest = int(now) if now >= marks.latest + CLOCK_STEP_S else marks.latest
    return Marks(latest=latest, bundles=highest, accepted=accepted, policies=policies, revocations=revocations)


_REREADS = 20
"""Times that a file is read again because an update replaced it meanwhile."""


class State:
    """A state folder.

    Args:
        folder: Made when something is first recorded; until then nothing has been accepted.
        clock: Seconds since 1970.
    """

    __slots__ = ("_clock", "folder")

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self._clock = clock

    def marks(self) -> Marks:
        """What the folder remembers.

        Raises:
            SealError: E_STATE, E_IO.
        """
        if not self._is_there():
            return Marks()
        seen = None
        for _ in range(_REREADS):
            try:
                return self._parse(self._stored())
            except SealError as error:
                # an update that renames its file over the one being read leaves that one without a link
                if error.code is Code.IO or (now := self._version_of_file()) == seen:
                    raise
                seen = now
        return self._parse(self._stored())

    def _is_there(self) -> bool:
        """Whether anything stands at the folder's place; what cannot be looked at is no fresh start (clause 11.3).

        Raises:
            SealError: E_IO.
        """
        try:
            self.folder.lstat()
        except FileNotFoundError:
            return False
        except OSError as error:
            problem = f"cannot look for the state folder: {error.strerror}"
            raise SealError(Code.IO, str(self.folder), problem, "mend its path and rights, or name another") from error
        return True

    def _stored(self) -> bytes:
        try:
            with Source(self.folder) as source:
                with source.folder("") as descriptor:
                    _check_mode(self.folder, os.fstat(descriptor).st_mode)
                return source.read(STATE_FILE, limits.MAX_MANIFEST_BYTES)
        except SealError as error:
            if error.code in {Code.IO, Code.STATE}:  # nothing is broken; what they say mends it
                raise
            raise self._broken(error.problem) from error

    def _version_of_file(self) -> tuple[int, int] | None:
        """Tells one update's file from another's; None where there is none."""
        try:
            status = (self.folder / STATE_FILE).lstat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns

    def check(self, bundles: Sequence[Identified], trust: DirectoryTrust) -> None:
        """Accepts by returning that nothing is older than what was accepted before; writes nothing.

        Raises:
            SealError: E_ROLLBACK, E_EQUIVOCATION, E_CLOCK, E_STATE, E_IO.
        """
        self._judge(self.marks(), bundles, trust)

    def record(self, bundles: Sequence[Identified], trust: DirectoryTrust) -> None:
        """Checks once more and raises the marks; when it returns, they are on the disk (clause 11.4).

        Raises:
            SealError: As `check`; E_IO too if another process holds the lock.
        """
        with self._locked():
            marks = self.marks()
            self._judge(marks, bundles, trust)
            new = raised(marks, bundles, trust, self._clock())
            if new != marks:
                self._write(new)

    def accept_older(self, bundle: Identified) -> None:
        """Lets exactly this older bundle run until a newer version is recorded (clause 11.6).

        Raises:
            SealError: E_EQUIVOCATION, E_USAGE if it is not older than what was accepted, E_STATE, E_IO.
        """
        with self._locked():
            marks, name, mark = self.marks(), marked_name(bundle), mark_of(bundle)
            old = marks.bundles.get(name)
            if old is None or mark.version >= old.version:
                check_newer(name, old, mark, "", raise_it=_REPACK)
                problem = f"expected a version below the highest one accepted, got {mark.version}"
                raise SealError(Code.USAGE, name, problem, "use it as it is; nothing keeps it from running")
            self._log("accept older", name=name, version=mark.version, digest=mark.digest, mark=old.version)
            self._write(msgspec.structs.replace(marks, accepted={**marks.accepted, name: mark}))

    def accept_clock(self) -> None:
        """Takes the present time for right, though a later one was seen (clause 11.7).

        Raises:
            SealError: E_STATE, E_IO.
        """
        with self._locked():
            marks, now = self.marks(), max(0, int(self._clock()))  # a clock before 1970 is wrong, and no mark
            self._log("accept clock", latest=marks.latest, now=now)
            self._write(msgspec.structs.replace(marks, latest=now))

    def _judge(self, marks: Marks, bundles: Sequence[Identified], trust: DirectoryTrust) -> None:
        judge_trust(marks, trust, self._clock())
        for bundle in bundles:
            judge_bundle(marks, bundle)

    def _parse(self, data: bytes) -> Marks:
        first, _, body = data.partition(b"\n")
        if first != _FIRST_LINE + hashlib.sha256(body).hexdigest().encode():
            raise self._broken("expected a first line with the sha256 of what follows, got another")
        try:
            return msgspec.convert(parse_strict_json(body, STATE_FILE), Marks, strict=True)
        except (SealError, msgspec.ValidationError) as error:
            raise self._broken(f"expected the state of this version, got: {error}") from error

    def _broken(self, problem: str) -> SealError:
        remedy = (
            f"restore {STATE_FILE} from a backup; or move the folder away to begin anew, knowing that older versions "
            "will then pass once"
        )
        return SealError(Code.STATE, str(self.folder), problem, remedy)

    def _write(self, marks: Marks) -> None:
        data = encode(marks)
        if len(data) > limits.MAX_MANIFEST_BYTES:
            raise self._broken("expected room for another name, got a full state")
        replace_file(self.folder / STATE_FILE, data, mode=0o600)

    def _log(self, action: str, **facts: object) -> None:
        """One line, durable before the state changes: what an operator accepted is never without a trace."""
        line = json.dumps({"time": _iso(self._clock()), "action": action, **facts}) + "\n"
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(self.folder / LOG_FILE, flags, 0o600), "wb") as file:
                file.write(line.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise SealError(Code.IO, LOG_FILE, f"cannot write: {error.strerror}", "check the state folder") from error

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Holds the folder's lock; makes the folder first if there is none."""
        try:
            if not self._is_there():
                _make(self.folder)
        except OSError as error:
            problem = f"cannot make the state folder: {error.strerror}"
            raise SealError(Code.IO, str(self.folder), problem, "name a folder of yours with --state") from error
        with locked_folder(self.folder, STATE_FILE):
            yield


def encode(marks: Marks) -> bytes:
    """The file's bytes: a line with the digest of the rest, which is JSON."""
    body = msgspec.json.format(msgspec.json.encode(marks), indent=1) + b"\n"
    return _FIRST_LINE + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def _make(folder: Path) -> None:
    """Makes a state folder that is never there without its file (clause 11.3)."""
    import shutil  # noqa: PLC0415 — verbs that only compare with the state make no folders
    import tempfile  # noqa: PLC0415

    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        replace_file(new / STATE_FILE, encode(Marks()), mode=0o600)
        with contextlib.suppress(OSError):  # another process was faster; any other reason shows when it is opened
            new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    sync_folder(folder.parent)


def _check_mode(folder: Path, mode: int) -> None:
    if mode & stat.S_IWOTH:
        problem = f"expected a folder that others cannot write, got {stat.S_IMODE(mode):04o}"
        raise SealError(Code.STATE, str(folder), problem, "run: chmod o-w on it, and check what it says")


def _iso(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
